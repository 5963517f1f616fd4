"""What a sweep looks back at: kernels that became slower, winners that were found under other software, and its own
pull requests. Pure, over folded campaigns.

Times of two nights only make suspicious. A regression is confirmed when the earlier source, tried beside today's on
one machine, wins by the same guardrails as any variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, fsum, log
from typing import Literal, TypeAlias

from bot.campaign.lineage import TRY_TECHNIQUE, accepted
from bot.campaign.sweeping import same_machine, software
from bot.model.campaign import Campaign, Profile, Round
from bot.model.ids import CommitSha, Digest, RepoPath
from bot.model.measurement import Measurement
from bot.model.variant import sources_digest
from bot.model.verdict import Score, Verdict
from bot.model.word import Word

SUSPECT = 1.03
"""Slower than this from one night to another is looked into. Below it a machine's own days differ as much."""


class Slower(Word):
    """A confirmed regression."""

    since: CommitSha
    """The commit that the earlier sweep pinned, when the kernel was faster."""
    now: CommitSha
    score: Score
    """The earlier source over today's."""
    files: tuple[RepoPath, ...]
    new_software: str = ""
    """What else changed meanwhile: the torch and Triton of the earlier sweep, where they were others."""


class OwnPull(Word):
    """What the rules need to know of a pull request from a sweep's branch."""

    number: int
    is_open: bool
    is_merged: bool
    head_sha: CommitSha
    is_ours: bool
    """Our account opened it, or a journal of ours says so: an App's token and a job's own are two accounts."""
    starts_checks: bool = True
    """GitHub starts none for what a job's own token opened."""


def v0_digest(campaign: Campaign) -> Digest | None:
    return sources_digest(campaign.profile.sources) if campaign.profile else None


def winner_digest(campaign: Campaign) -> Digest | None:
    return sources_digest(campaign.finalization.files) if campaign.finalization else None


def _times(measurement: Measurement) -> dict[str, float]:
    return {case.case: case.timing.median_us for case in measurement.cases if case.timing is not None}


def drift(now: Profile, then: Profile) -> float | None:
    """Today's time over the earlier one, geometric mean of the cases both have; None across machines or software."""
    if not same_machine(now.baseline.runner, then.baseline.runner):
        return None
    today, before = _times(now.baseline), _times(then.baseline)
    both = sorted(today.keys() & before.keys())
    return exp(fsum(log(today[case] / before[case]) for case in both) / len(both)) if both else None


def _worth_a_look(campaign: Campaign, earlier: Campaign) -> bool:
    """Another source, and either slower than then or not to be compared by numbers."""
    if campaign.profile is None or earlier.profile is None or v0_digest(campaign) == v0_digest(earlier):
        return False
    found = drift(campaign.profile, earlier.profile)
    return found is None or found > SUSPECT


def _is_merged(campaign: Campaign, winner: Campaign) -> bool:
    """Today's untouched kernel is what that campaign won with."""
    return winner_digest(winner) is not None and winner_digest(winner) == v0_digest(campaign)


def _under_other_software(campaign: Campaign, winner: Campaign) -> bool:
    if campaign.profile is None or winner.profile is None:
        return False
    return software(campaign.profile.baseline.runner) != software(winner.profile.baseline.runner)


def second_looks(
    campaign: Campaign, earlier: Campaign | None, winner: Campaign | None, *, winner_stands: bool
) -> tuple[CommitSha, ...]:
    """Commits to try before any idea of our own, the earlier source first.

    `earlier`: the sweep of this cell before this one; `winner`: its last pushed one; `winner_stands`: its pull request
    is still open. A standing winner is tried every time, so that it is known to hold and is built upon.
    """
    looks: list[CommitSha] = []
    if earlier is not None and earlier.pull is not None and _worth_a_look(campaign, earlier):
        looks.append(earlier.pull.head_sha)
    if winner is not None and winner.pull is not None:
        if _is_merged(campaign, winner) and _under_other_software(campaign, winner):
            looks.append(winner.pull.head_sha)
        elif winner_stands and winner.pushed is not None and not _is_merged(campaign, winner):
            looks.append(winner.pushed)
    return tuple(dict.fromkeys(looks))


def tried(campaign: Campaign, commit: CommitSha | None) -> Round | None:
    """The round that tried this commit."""
    for played in campaign.rounds:
        if played.variant.hypothesis.technique == TRY_TECHNIQUE and commit in played.variant.hypothesis.references[:1]:
            return played
    return None


Won: TypeAlias = Callable[[Verdict], bool]
"""Whether a verdict is a win by what the variant did. An earlier source may lack words that today's has, so that it
could not be pushed; that makes it no slower."""


def slower(campaign: Campaign, earlier: Campaign | None, won: Won) -> Slower | None:
    """A regression, confirmed by trying the earlier source beside today's. Without that try there is none."""
    if earlier is None or earlier.pull is None or earlier.profile is None:
        return None
    if campaign.pull is None or campaign.profile is None:
        return None
    played = tried(campaign, earlier.pull.head_sha)
    if played is None or played.verdict is None or played.verdict.score is None:
        return None
    if not won(played.verdict):
        return None
    then, now = software(earlier.profile.baseline.runner), software(campaign.profile.baseline.runner)
    return Slower(
        since=earlier.pull.head_sha,
        now=campaign.pull.head_sha,
        score=played.verdict.score,
        files=campaign.profile.site.files,
        new_software="" if then == now else f"torch {then[0]}, Triton {then[1]}",
    )


def _first_said(played: Round, found: Mapping[CommitSha, Campaign]) -> Round:
    """A try of an earlier winner, as the steps that led to it. `found`: what each commit of a sweep came from."""
    idea = played.variant.hypothesis
    finder = found.get(idea.references[0]) if idea.technique == TRY_TECHNIQUE and idea.references else None
    steps = [step.variant.hypothesis for n in accepted(finder) if (step := finder.round_of(n))] if finder else []
    if not steps:
        return played
    words = {"title": "; ".join(step.title.rstrip(". ") for step in steps), "why": " ".join(step.why for step in steps)}
    variant = played.variant.model_copy(update={"hypothesis": idea.model_copy(update=words)})
    return played.model_copy(update={"variant": variant})


def in_first_words(campaign: Campaign, swept: tuple[Campaign, ...]) -> Campaign:
    """Whoever reads of a winner that waits wants to know what it changes, not that it was tried again."""

    def told(one: Campaign) -> Campaign:
        return one.model_copy(update={"rounds": tuple(_first_said(played, found) for played in one.rounds)})

    found: dict[CommitSha, Campaign] = {}
    for earlier in swept:
        if earlier.pushed is not None and earlier.pushed not in found:  # the same winner again pushes no other commit
            found[earlier.pushed] = told(earlier)
    return told(campaign)


Holding = Literal["holds", "lost", "untried"]


def holding(campaign: Campaign, winner: Campaign | None, won: Won) -> Holding:
    """Whether an earlier winner still wins, as this campaign saw it.

    A merged winner is v0 now: it holds unless the source before it is accepted over it.
    """
    if winner is None or winner.pull is None:
        return "untried"
    if _is_merged(campaign, winner):
        before = tried(campaign, winner.pull.head_sha)
        if before is None or before.verdict is None:
            return "untried"
        return "lost" if won(before.verdict) else "holds"
    again = tried(campaign, winner.pushed)
    if again is None or again.verdict is None:
        return "untried"
    return "holds" if won(again.verdict) else "lost"


# Its own branch and pull request


def ours(swept: tuple[Campaign, ...]) -> frozenset[CommitSha]:
    """Every commit that these campaigns pushed. Anything else on the branch is somebody's own work."""
    return frozenset(campaign.pushed for campaign in swept if campaign.pushed is not None)


def why_left_alone(
    tip: CommitSha | None,
    own: frozenset[CommitSha],
    other_pools: frozenset[CommitSha],
    pulls: tuple[OwnPull, ...],
    same_as_tip: bool,
) -> str:
    """Why the branch is not to be moved; empty when it is. `same_as_tip`: the new winner is what stands there."""
    of_tip = [pull for pull in pulls if pull.head_sha == tip]
    if tip is None or any(pull.is_merged for pull in of_tip):  # what was merged is not lost when the branch moves
        return ""
    is_open = any(pull.is_open for pull in of_tip)
    if tip not in own | other_pools:
        return f"somebody else pushed to it: {tip[:7]} is no commit of a sweep, and it is theirs from then on"
    if of_tip and not is_open:
        closed = f"pull request {of_tip[0].number} offered this very change, and somebody closed it"
        return closed if same_as_tip else ""
    if tip in other_pools:
        return "the winner of another pool stands on it: merge or close its pull request first"
    return ""


def pull_to_update(pulls: tuple[OwnPull, ...]) -> int | None:
    """Our open pull request of this branch."""
    return next((pull.number for pull in pulls if pull.is_open and pull.is_ours), None)
