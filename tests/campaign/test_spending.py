"""GPU time: what an order is charged, and what a person has used today."""

from __future__ import annotations

import pytest

from bot.campaign.machine import fold
from bot.campaign.spending import seconds_of_person, time_spent
from bot.model.campaign import Campaign, Phase, Zone
from bot.model.facts import Fact, FilePassed, Finalized, GpuTimeSpent, JournalLine, OrderTaken, Profiled
from bot.model.finalization import PassedFile, ScriptRun
from bot.model.policy import RepoPolicy
from tests.campaign import story as tale

DAY = "2026-01-02"
LIMIT = 60.0 * RepoPolicy().max_gpu_minutes


def lines(*told: tuple[str, Fact], zone: Zone = Zone.DECIDE) -> tuple[JournalLine, ...]:
    return tuple(JournalLine(seq=seq, at=f"{DAY}T{at}Z", zone=zone, fact=fact) for seq, (at, fact) in enumerate(told))


PLACED = lines(("03:00:00", tale.requested()), ("03:00:00", tale.placed(1, Phase.PROFILE)))
PROFILED = Profiled(order=tale.P1, profile=tale.profile())


def spent(*told: tuple[str, Fact], now: str = "04:00:00") -> GpuTimeSpent:
    return time_spent(tale.P1, PLACED, lines(*told, zone=Zone.MEASURE), f"{DAY}T{now}Z")


def test_a_job_is_charged_its_own_span_and_not_its_time_in_the_queue() -> None:
    taken = OrderTaken(order=tale.P1, at=f"{DAY}T03:50:00Z")
    assert spent(("03:50:00", taken), ("03:52:30", PROFILED)) == GpuTimeSpent(order=tale.P1, seconds=150)


def test_nobody_is_charged_more_than_passed_since_the_order() -> None:
    taken = OrderTaken(order=tale.P1, at=f"{DAY}T01:00:00Z")
    assert spent(("01:00:00", taken), ("23:00:00", PROFILED)).seconds == 3600


@pytest.mark.parametrize("at", ["", "yesterday", "2026-01-02T03:00:00", "9999-99-99"])
def test_a_clock_that_cannot_be_read_does_not_make_it_free(at: str) -> None:
    long = PROFILED.profile.model_copy(update={"baseline": tale.measurement().model_copy(update={"seconds": 77.0})})
    told = Profiled(order=tale.P1, profile=long)
    assert spent(("03:00:00", OrderTaken(order=tale.P1, at=at)), ("03:00:01", told)).seconds == 77


def test_a_job_that_left_nothing_is_charged_all_the_time_since_it_was_ordered() -> None:
    lost = time_spent(tale.P1, PLACED, None, f"{DAY}T03:30:00Z")
    assert lost == GpuTimeSpent(order=tale.P1, seconds=1800, known=False)


def person(*told: tuple[str, Fact], who: int = tale.MIRA.id, day: str = DAY) -> float:
    journal = lines(("03:00:00", tale.requested()), ("03:00:00", tale.placed(1, Phase.PROFILE)), *told)
    campaign = fold(Campaign(id=tale.CAMPAIGN), (line.fact for line in journal))
    return seconds_of_person([(campaign, journal)], who, day)


def test_what_runs_counts_as_if_it_took_all_it_may_and_what_ended_as_what_it_took() -> None:
    assert person() == LIMIT
    done = (("03:01:00", PROFILED), ("03:01:00", GpuTimeSpent(order=tale.P1, seconds=42)))
    assert person(*done) == 42


def test_a_day_is_a_day_and_a_person_a_person() -> None:
    done = (("03:01:00", PROFILED), ("03:01:00", GpuTimeSpent(order=tale.P1, seconds=42)))
    assert person(*done, day="2026-01-03") == 0
    assert person(*done, who=tale.DANA.id) == 0


def test_the_repository_s_own_benchmark_script_is_charged() -> None:
    [run] = tale.finalization().tests
    slow = run.model_copy(update={"seconds": 300.0})
    scripts = tuple(ScriptRun(variant=of, run=slow) for of in (0, 1))
    done = tale.finalization().model_copy(update={"scripts": scripts})
    told = spent(
        ("03:20:00", OrderTaken(order=tale.P1, at="")), ("03:20:01", Finalized(order=tale.P1, finalization=done))
    )
    assert told.seconds >= 600


def test_tests_that_an_earlier_job_ran_are_not_charged_twice() -> None:
    [run] = tale.finalization().tests
    slow = run.model_copy(update={"seconds": 600.0})
    file = PassedFile(variant=1, source="0" * 64, test="test/test_op.py", run=slow)
    done = tale.finalization().model_copy(update={"tests": (slow, run.model_copy(update={"summary": "other"}))})
    passed, whole = FilePassed(order=tale.P1, file=file), Finalized(order=tale.P1, finalization=done)
    taken = OrderTaken(order=tale.P1, at=f"{DAY}T03:00:00Z")
    both = spent(("03:00:00", taken), ("03:00:01", passed), ("03:00:01", whole))
    assert both.seconds == 602, "six hundred once, another test and the style check"
    journal = (*PLACED, *lines(("03:00:00", passed)))
    later = time_spent(tale.P1, journal, lines(("03:00:00", taken), ("03:00:01", whole)), f"{DAY}T04:00:00Z")
    assert later.seconds == 2
