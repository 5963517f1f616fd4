"""What a proposer may see: the kernel, what was measured of it, and what became of the ideas before."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.analysis.callers import left_behind
from bot.campaign.lineage import has_opening_ahead, has_race_ahead, score_of, sources_of
from bot.campaign.stopping import budget
from bot.engine import kernels
from bot.model.campaign import Campaign, Profile, Round
from bot.model.commands import Goal, Scope
from bot.model.diagnosis import Diagnosis
from bot.model.ids import CommitSha, Digest, VariantNumber
from bot.model.measurement import Evidence, Measurement, Suite, Survey
from bot.model.people import Actor
from bot.model.race import Race
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest

GATHERED = "gathered"
"""How the technique begins of several ideas that have a round as one."""


def techniques_in(technique: str) -> tuple[str, ...]:
    """Itself, or those that have a round as one."""
    name, _, parts = technique.partition(":")
    return tuple(parts.split("+")) if name == GATHERED else (technique,)


def of_backward_alone(suite: Suite, facts: Measurement) -> frozenset[str]:
    """Kernels that passes launch, but no forward pass."""
    forward = {case.id for case in suite.cases if case.direction == "forward"}
    of_forward, every = (
        {launch.kernel for case in facts.cases if case.case in cases for launch in case.launches}
        for cases in (forward, {case.id for case in suite.cases})
    )
    return frozenset(every - of_forward) if of_forward else frozenset()


@dataclass(frozen=True, slots=True)
class Tried:
    """The kernel's files as they stand at a commit that somebody asked to try."""

    commit: CommitSha
    actor: Actor
    files: tuple[SourceFile, ...]
    ideas: tuple[str, ...] = ()
    """What is in it, by the names of our own transforms, where the commit says so."""


@dataclass(frozen=True, slots=True)
class Brief:
    site: KernelSite
    suite: Suite
    original: tuple[SourceFile, ...]
    sources: tuple[SourceFile, ...]
    """The incumbent's: what a new variant is built on."""
    incumbent: VariantNumber
    best: float
    """The incumbent's score; 1 is the baseline."""
    baseline: Measurement
    facts: Measurement
    """What was measured of the incumbent; the baseline's while nothing was accepted."""
    surveys: tuple[Survey, ...]
    diagnosis: Diagnosis
    rounds: tuple[Round, ...]
    race: Race | None
    """Of the incumbent's launch numbers and of the ideas that were left, where a GPU ran one and somebody was in it."""
    goal: Goal
    scope: Scope
    budget: int
    """Variants that may still be tried."""
    tries: tuple[Tried, ...] = ()
    has_race_ahead: bool = False
    """Whether the incumbent's launch numbers will be raced once nobody has another idea."""
    opening: Race | None = None
    """Of ideas, before the first had a round."""
    has_opening_ahead: bool = False

    def leaves_callers_behind(self, texts: Mapping[str, str]) -> bool:
        """Whether a private function that another file imports could not be called any more as it is."""
        names, before = self.site.relied_on, {file.path: file.text for file in self.original}
        changed = texts.items() if names else ()
        return any(left_behind(ast.parse(before[path]), ast.parse(text), names) for path, text in changed)

    def beside(self, text: str) -> tuple[str, ...]:
        """What the incumbent's other files say."""
        return tuple(file.text for file in self.sources if file.text != text)

    @property
    def judged(self) -> frozenset[Digest]:
        """Sources that need no second verdict."""
        return frozenset({sources_digest(self.original), *(played.variant.digest for played in self.rounds)})

    @property
    def is_measured(self) -> bool:
        """Whether a GPU has the word."""
        return self.baseline.runner.evidence is Evidence.MEASURED

    @property
    def backward_only(self) -> frozenset[str]:
        """Kernels that passes launch, but no forward pass: what they make is read by themselves alone."""
        return of_backward_alone(self.suite, self.baseline)

    @property
    def launched(self) -> frozenset[str]:
        """Kernels that a scored case of the incumbent launches."""
        return frozenset(launch.kernel for case in self.facts.cases for launch in case.launches)

    @property
    def tuned(self) -> frozenset[str]:
        """Kernels of the incumbent that tune themselves."""
        return frozenset().union(*(kernels.tuned(file.text) for file in self.sources))

    @property
    def references(self) -> tuple[str, ...]:
        """What a new variant builds on, for its hypothesis."""
        return (f"v{self.incumbent}",) if self.incumbent else ()

    def file_of(self, kernel: str) -> SourceFile | None:
        """The file that defines a kernel, as the incumbent has it."""
        for file in self.sources:
            tree = ast.parse(file.text)
            if any(isinstance(node, ast.FunctionDef) and node.name == kernel for node in tree.body):
                return file
        return None

    def with_text(self, path: str, text: str) -> tuple[SourceFile, ...]:
        """The incumbent's files with another text of one."""
        return self.with_texts({path: text})

    def with_texts(self, texts: Mapping[str, str]) -> tuple[SourceFile, ...]:
        """The incumbent's files with other texts of some, by their paths."""
        return tuple(
            SourceFile(path=file.path, text=texts[file.path]) if file.path in texts else file for file in self.sources
        )

    def untouched(self, kernel: str) -> bool:
        """Whether the survey still speaks of this kernel: no accepted rewrite has changed its code or its grid."""
        now, first = (
            {launch.kernel: (launch.grid, launch.constants) for case in facts.cases for launch in case.launches}
            for facts in (self.facts, self.baseline)
        )
        return now.get(kernel) == first.get(kernel)

    def rounds_with(self, technique: str) -> tuple[Round, ...]:
        """Its own, and those in which it was accepted along with others: refused with them says nothing of it."""

        def is_of(played: Round) -> bool:
            name = played.variant.hypothesis.technique
            return name == technique or (played.is_accepted and technique in techniques_in(name))

        return tuple(played for played in self.rounds if is_of(played))


def at_first(profile: Profile) -> Brief:
    """Before anything was tried, whatever was asked for."""
    return Brief(
        site=profile.site,
        suite=profile.suite,
        original=profile.sources,
        sources=profile.sources,
        incumbent=0,
        best=1.0,
        baseline=profile.baseline,
        facts=profile.baseline,
        surveys=profile.survey,
        diagnosis=profile.diagnosis,
        rounds=(),
        race=None,
        goal=Goal.SPEED,
        scope=Scope.GENERAL,
        budget=1,
        has_opening_ahead=True,
    )


def brief_of(campaign: Campaign, *, tried: Sequence[Tried] = ()) -> Brief:
    """The brief for the next round of a campaign that has a profile."""
    profile, command = campaign.profile, campaign.command
    assert profile is not None and command is not None
    played, best = campaign.round_of(campaign.incumbent), score_of(campaign, campaign.incumbent)
    measured = played.measurement if played is not None else None
    race, opening = campaign.race_of(campaign.incumbent), campaign.opening
    return Brief(
        site=profile.site,
        suite=profile.suite,
        original=profile.sources,
        sources=sources_of(campaign, campaign.incumbent),
        incumbent=campaign.incumbent,
        best=best.value if best is not None else 1.0,
        baseline=profile.baseline,
        facts=measured if measured is not None else profile.baseline,
        surveys=profile.survey,
        diagnosis=profile.diagnosis,
        rounds=campaign.rounds,
        race=race if race is not None and race.racers else None,
        goal=command.goal,
        scope=command.scope,
        budget=max(0, budget(campaign) - len(campaign.rounds)),
        tries=tuple(tried),
        has_race_ahead=has_race_ahead(campaign),
        opening=opening if opening is not None and opening.racers else None,
        has_opening_ahead=has_opening_ahead(campaign),
    )
