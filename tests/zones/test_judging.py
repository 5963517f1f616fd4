"""A variant that its own text condemns is refused without being run, and the journal says so in the usual words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bot.campaign.effects import MeasureVariant
from bot.campaign.lineage import TRY_TECHNIQUE
from bot.campaign.machine import fold
from bot.model.campaign import Campaign
from bot.model.commands import Goal
from bot.model.facts import RoundOpened, VariantMeasured
from bot.model.measurement import CaseResult, Measurement, Runner
from bot.model.variant import Hypothesis, SourceFile, Variant
from bot.model.verdict import Decision
from bot.zones import measure
from bot.zones.judging import may_win, unrun, verdict_of
from bot.zones.measure import Shift, Workshop
from tests.fakes.bench import FakeBench
from tests.render import builders as a
from tests.zones.places import At

IDEA = Hypothesis(title="wider loads", why="", expected="", technique="other")
TRIED = Hypothesis(title="mine", why="", expected="", technique=TRY_TECHNIQUE)


def tried(campaign: Campaign, line: str) -> Campaign:
    """The campaign with a round open for v0 and this line after it."""
    assert campaign.profile is not None and campaign.order is not None
    files = tuple(SourceFile(path=file.path, text=f"{file.text}\n\n{line}\n") for file in campaign.profile.sources)
    variant = Variant(number=1, parent=0, files=files, hypothesis=IDEA, proposer="human")
    return fold(campaign, [RoundOpened(order=campaign.order.id, variant=variant)])


def test_hostile_text_is_never_run(at: At, tmp_path: Path) -> None:
    campaign = tried(at("searching").campaign, "exec('import os')")
    assert campaign.order is not None

    def no_bench(*_: object, **__: object) -> object:
        raise AssertionError("it would have been run")

    shop = Workshop(repo=at("searching").repo, python="python", scratch=tmp_path, open_bench=no_bench)  # type: ignore[arg-type]
    fact = Shift(campaign, shop).measure(MeasureVariant(order=campaign.order.id, number=1))
    assert isinstance(fact, VariantMeasured)
    assert (fact.measurement.checks, fact.measurement.cases, fact.measurement.fault) == ((), (), None)
    verdict = verdict_of(fold(campaign, [fact]), 1)
    assert verdict.decision is Decision.REJECTED
    assert {finding.guardrail for finding in verdict.findings} == {"honesty"}, "what was not run is not called wrong"


@pytest.mark.parametrize(("line", "run"), [("WIDTH = 8", True), ("exec('WIDTH = 8')", False)])
def test_only_what_the_text_condemns_stays_unrun(line: str, run: bool, at: At) -> None:
    campaign = tried(at("searching").campaign, line)
    assert (unrun(campaign, 1) is None) is run


# -- whether fresh processes are asked --------------------------------------------------------------------------------

NUMBER, BEST = 4, 1.42


def glimpsed(gain: float, campaign: Campaign | None = None) -> bool:
    """What is said of a variant that one process reads at so many times v0's speed, where the best has 1.42."""
    campaign = campaign or a.measured()
    assert campaign.profile is not None
    found = a.measurement(campaign.profile.sources, gain, runner=campaign.profile.baseline.runner)
    return may_win(campaign, NUMBER, found.runner, found.cases)


@pytest.mark.parametrize(("over_best", "asked"), [(1.0051, True), (1.0049, False), (0.9, False), (1.2, True)])
def test_who_gains_too_little_over_the_best_in_one_process_is_not_read_in_fresh_ones(
    over_best: float, asked: bool
) -> None:
    """1 % is asked, and one process may be off by half a percent."""
    assert glimpsed(BEST * over_best) is asked


def test_in_a_balanced_campaign_memory_counts_as_well() -> None:
    campaign = a.measured()
    assert campaign.command is not None
    balanced = campaign.model_copy(update={"command": campaign.command.model_copy(update={"goal": Goal.BALANCED})})
    assert glimpsed((BEST * 1.0051) ** 2, balanced) and not glimpsed((BEST * 1.0049) ** 2, balanced)


def test_for_memory_alone_no_clock_says_anything() -> None:
    campaign = a.measured()
    assert campaign.command is not None
    assert glimpsed(
        0.5, campaign.model_copy(update={"command": campaign.command.model_copy(update={"goal": Goal.MEMORY})})
    )


def test_what_a_person_brought_is_read_to_the_end() -> None:
    campaign = a.measured()
    rounds = [
        one.model_copy(update={"variant": one.variant.model_copy(update={"hypothesis": TRIED})})
        if one.variant.number == NUMBER
        else one
        for one in campaign.rounds
    ]
    assert glimpsed(0.5, campaign.model_copy(update={"rounds": tuple(rounds)}))


def test_whoever_has_v0_alone_to_beat_is_read_as_the_search_says() -> None:
    assert glimpsed(0.5, a.measured().model_copy(update={"lineage": (0,)}))


def test_what_cannot_be_scored_is_left_to_the_verdict() -> None:
    campaign = a.measured()
    assert campaign.profile is not None
    assert may_win(campaign, NUMBER, campaign.profile.baseline.runner, ())


class Weighing(FakeBench):
    """A bench that asks before it reads any more."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.told: list[bool] = []

    @property
    def runner(self) -> Runner:
        return self._runner

    def weigh(self, worth: Callable[[tuple[CaseResult, ...]], bool]) -> None:
        self._may_win = worth

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = a.measurement(files, 1.3, runner=self._runner)
        self.told.append(self._may_win(found.cases))
        return found


def test_a_bench_that_reads_one_process_first_is_told_what_is_to_be_beaten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = a.measured()
    assert campaign.profile is not None
    bench = Weighing(campaign.profile.baseline.runner)
    shift = Shift(campaign, Workshop(repo=None, python="", scratch=tmp_path))  # type: ignore[arg-type]
    monkeypatch.setattr(shift, "bench", lambda profile: bench)
    monkeypatch.setattr(measure, "unrun", lambda campaign, number: None)
    shift.measure(MeasureVariant(order="o", number=NUMBER))
    assert bench.told == [False], "1.3 is less than 1.42"
