"""Before a search begins: cases that do not fit are left out for good, and tests that nobody can collect end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from bot.bench.gpu import Gpu
from bot.campaign.effects import EndSearch
from bot.model.campaign import Profile, StopReason
from bot.model.facts import OrderFailed, Profiled, SearchEnded
from bot.model.finalization import CommandRun
from bot.model.measurement import Evidence, Fault, Measurement, Suite
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile
from bot.zones import measure
from bot.zones.first_look import uncollected
from bot.zones.intake import _is_suite_of
from tests.zones.places import At
from tests.zones.test_oracle import H200, Fenced, gpu_job
from tests.zones.test_rivals_of_winner import Track, shift


def run(code: int | None, summary: str = "", output: str = "") -> CommandRun:
    return CommandRun(argv=(), passed=code == 0, exit_code=code, seconds=1.0, summary=summary, output=output)


FOUND, BROKEN = run(0, "9 tests collected"), run(2, "1 error in 0.61s", "x\nE   ModuleNotFoundError: transformers\n")


class Small(Fenced):
    """A GPU on which v0 does not fit in some cases, one found after the other."""

    large: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str] = "memory"
    opened: ClassVar[list[Small]] = []

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        assert all(bench.closed for bench in self.opened), "two would share the memory"
        self.opened.append(self)

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports)
        short = next((case.id for case in self._suite.cases if case.id in self.large), None)
        if short is None:
            return found
        unfit = (short,) if self.kind == "memory" else ()
        why = Fault.model_validate({"kind": self.kind, "detail": f"{short}: out of memory", "unfit": unfit})
        return found.model_copy(update={"fault": why})


def small(large: Callable[[Suite], tuple[str, ...]], at: At, kind: str = "memory") -> tuple[Suite, Any]:
    talk = at("profiling")
    (whole,) = gpu_job(talk, collect=lambda *_, **__: FOUND)
    assert isinstance(whole, Profiled)
    Small.large, Small.opened, Small.kind = large(whole.profile.suite), [], kind
    (fact,) = gpu_job(talk, open_bench=Small, collect=lambda *_, **__: FOUND)
    return whole.profile.suite, fact


def test_cases_that_do_not_fit_are_left_out_for_good(at: At) -> None:
    suite, fact = small(lambda suite: tuple(case.id for case in suite.cases[2:4]), at)
    assert isinstance(fact, Profiled)
    profile = fact.profile
    assert profile.left_out == suite.cases[2:4]
    assert profile.suite.cases == (*suite.cases[:2], *suite.cases[4:])
    assert profile.suite.checks == suite.checks, "what is right is asked as before"
    assert [case.case for case in profile.baseline.cases] == [case.id for case in profile.suite.cases]
    assert [bench._suite.cases for bench in Small.opened][-1] == profile.suite.cases


def test_where_none_fits_it_says_so_and_stops(at: At) -> None:
    suite, fact = small(lambda suite: tuple(case.id for case in suite.cases), at)
    assert isinstance(fact, OrderFailed) and fact.reason is ReasonCode.PREFLIGHT_FAILED
    assert fact.detail.startswith(f"none of the {len(suite.cases)} scored cases of rms_norm fits into the memory")
    assert "ask on a machine with more" in fact.detail


def test_another_fault_of_v0_leaves_nothing_out(at: At) -> None:
    _, fact = small(lambda suite: (suite.cases[0].id,), at, "crashed")
    assert isinstance(fact, OrderFailed) and "does not run here: crashed" in fact.detail
    assert len(Small.opened) == 1


def told(profile: Profile, suite: Suite, evidence: Evidence, left: int = 1, kept: int | None = None) -> Profile:
    runner = profile.baseline.runner.model_copy(update={"evidence": evidence})
    cases = suite.cases[left:] if kept is None else suite.cases[left : left + kept]
    return profile.model_copy(
        update={
            "baseline": profile.baseline.model_copy(update={"runner": runner}),
            "left_out": suite.cases[:left],
            "suite": suite.model_copy(update={"cases": cases}),
        }
    )


def test_a_job_may_leave_out_only_what_it_names_and_only_where_a_clock_was(at: At) -> None:
    (fact,) = gpu_job(at("profiling"), collect=lambda *_, **__: FOUND)
    assert isinstance(fact, Profiled)
    profile, suite = fact.profile, fact.profile.suite
    assert _is_suite_of(profile, suite)
    assert _is_suite_of(told(profile, suite, Evidence.MEASURED), suite)
    assert not _is_suite_of(told(profile, suite, Evidence.STATIC), suite), "no memory is short where nothing ran"
    assert not _is_suite_of(told(profile, suite, Evidence.MEASURED, kept=1), suite), "one more is missing"
    assert not _is_suite_of(told(profile, suite, Evidence.MEASURED, left=len(suite.cases)), suite), "none is left"
    strange = suite.cases[0].model_copy(update={"id": "made-up"})
    assert not _is_suite_of(profile.model_copy(update={"left_out": (strange,)}), suite)


# -- tests that cannot be collected ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ran", "why"),
    [
        (None, ""),
        (FOUND, ""),
        (run(None, "ended after 120 s, its deadline"), ""),
        (run(139, "died"), ""),
        (run(126, "not executable"), ""),
        (run(5, "no tests collected in 0.02s"), "no tests collected in 0.02s"),
        (BROKEN, "1 error in 0.61s (ModuleNotFoundError: transformers)"),
    ],
)
def test_only_what_pytest_itself_says_counts(ran: CommandRun | None, why: str) -> None:
    assert uncollected(ran) == why


@pytest.mark.parametrize(
    ("gpu", "without", "with_gpu", "stops"),
    [
        (None, FOUND, FOUND, False),
        (None, BROKEN, FOUND, True),
        (H200, BROKEN, FOUND, False),
        (H200, BROKEN, BROKEN, True),
        (H200, FOUND, BROKEN, False),
    ],
)
def test_tests_that_nobody_can_collect_end_it_before_the_search(
    gpu: Gpu | None, without: CommandRun, with_gpu: CommandRun, stops: bool, at: At
) -> None:
    """What needs the GPU to be imported is asked with it, and never beside a clock."""
    asked: list[Gpu | None] = []

    def collect(*_: Any, gpu: Gpu | None, **__: Any) -> CommandRun:
        asked.append(gpu)
        return with_gpu if gpu else without

    (fact,) = gpu_job(at("profiling"), gpu=gpu, collect=collect)
    assert asked == [None, gpu] if gpu and without is BROKEN else asked == [None]
    if not stops:
        assert isinstance(fact, Profiled)
        return
    assert isinstance(fact, OrderFailed) and fact.reason is ReasonCode.TESTS_FAILED_BEFORE
    assert "cannot be collected with the kernel as it stands: 1 error in 0.61s" in fact.detail
    assert "ModuleNotFoundError: transformers" in fact.detail and "--collect-only" in fact.detail


# -- why a search ended ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "left", "said"),
    [
        (StopReason.BUDGET_SPENT, "next", StopReason.BUDGET_SPENT),
        (StopReason.BUDGET_SPENT, "", StopReason.IDEAS_EXHAUSTED),
        (StopReason.GPU_TIME_SPENT, "", StopReason.GPU_TIME_SPENT),
    ],
)
def test_a_budget_that_ended_with_the_last_idea_cut_nothing_off(
    why: StopReason, left: str, said: StopReason, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "untried", lambda _: left)
    fact = shift(tmp_path, Track()).perform(EndSearch(order="o-optimize", why=why))
    assert isinstance(fact, SearchEnded) and fact.why is said
    assert fact.note == left or fact.note.startswith("every idea that applies was tried")
