"""Where no counter was read, two sizes of the same pass say what the limit is (T-06)."""

from __future__ import annotations

import pytest

from bot.analysis.bottleneck import Evidence as Known
from bot.analysis.bottleneck import diagnose
from bot.analysis.growth import LARGER, LOW, of_sizes
from bot.hardware.catalog import for_arch
from bot.model.diagnosis import Clue
from bot.model.measurement import Case, CaseResult, Evidence
from bot.model.profiling import Counter, Counters, KernelCounters
from tests.analysis import made

H200 = for_arch("sm_90")
SMALL, LARGE = made.case(rows=256), made.case(rows=8192)
MIB = 2**20


def at(case: Case, percent: float, mib: float = 64) -> CaseResult:
    """A case that a plain pass over its bytes is so much quicker than."""
    size = round(mib * MIB)
    roof_us = size / 4.0e6
    return made.result(case, made.launch(), us=100 * roof_us / percent, roof_us=roof_us, minimum_bytes=size)


def said(*results: CaseResult, evidence: Evidence = Evidence.MEASURED) -> list[Clue]:
    return of_sizes(made.measurement(*results, evidence=evidence), made.suite(SMALL, LARGE))


def test_a_share_of_the_roof_that_grows_with_the_work_speaks_of_launches() -> None:
    (clue,) = said(at(SMALL, 10, mib=2), at(LARGE, 55))
    assert clue.evidence == (
        "forward-256x4096 reaches 10 % of its roof, and forward-8192x4096 with 32 times the bytes 55 %"
    )
    assert "launches, or too few programs" in clue.inference
    assert clue.basis == "timed"


def test_one_that_stays_low_speaks_of_instructions() -> None:
    (clue,) = said(at(SMALL, 30, mib=2), at(LARGE, 32))
    assert "neither launches nor idle multiprocessors" in clue.inference
    assert "fewer passes over memory" in clue.action and "fewer instructions" in clue.action


@pytest.mark.parametrize(("percent", "told"), [(30.1, 1), (29.9, 0), (21.9, 1), (22.1, 0)])
def test_between_growing_and_flat_nothing_is_said(percent: float, told: int) -> None:
    assert len(said(at(SMALL, 20, mib=2), at(LARGE, percent))) == told


@pytest.mark.parametrize(("percent", "told"), [(LOW - 0.1, 1), (LOW, 0)])
def test_a_flat_one_near_the_roof_has_no_other_limit(percent: float, told: int) -> None:
    assert len(said(at(SMALL, 59, mib=2), at(LARGE, percent))) == told


@pytest.mark.parametrize(("mib", "told"), [(64 / LARGER, 1), (64 / LARGER + 1, 0)])
def test_sizes_near_each_other_are_not_compared(mib: float, told: int) -> None:
    assert len(said(at(SMALL, 10, mib=mib), at(LARGE, 55))) == told


def test_forward_and_backward_are_not_held_against_each_other() -> None:
    back = made.case("backward", rows=8192)
    found = made.measurement(at(SMALL, 10, mib=2), at(back, 55), evidence=Evidence.MEASURED)
    assert of_sizes(found, made.suite(SMALL, back)) == []


def test_the_model_is_not_asked_what_it_took_for_granted() -> None:
    assert said(at(SMALL, 10, mib=2), at(LARGE, 55), evidence=Evidence.STATIC) == []


def test_where_counters_were_read_they_speak_instead() -> None:
    measured = made.measurement(at(SMALL, 10, mib=2), at(LARGE, 55), evidence=Evidence.MEASURED)
    read = KernelCounters(kernel="_k", counters=(Counter(name="time", value=5.0, unit="us"),))
    suite = made.suite(SMALL, LARGE)

    def compared(known: Known) -> bool:
        return any("times the bytes" in clue.evidence for clue in diagnose(measured, suite, H200, (), known).clues)

    assert compared(Known())
    assert compared(Known(counters=Counters(status="no_permission")))
    assert not compared(Known(counters=Counters(status="read", kernels=(read,))))
