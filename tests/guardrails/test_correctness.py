"""correctness: one wrong case is enough (BC-09), and v0's own faults are nobody's."""

from __future__ import annotations

import pytest

from bot.guardrails import judge
from bot.guardrails.correctness import NOTHING, correctness, is_right, no_yardstick
from bot.model.measurement import CheckResult, Fault
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def checked(*results: CheckResult) -> tuple[CheckResult, ...]:
    """The usual checks with some of them replaced."""
    new = {result.case: result for result in results}
    return tuple(new.get(case.id, h.check(case.id)) for case in h.CHECKS)


@pytest.mark.parametrize(
    ("passed", "margin", "right"),
    [(True, 0.0, True), (True, 1.0, True), (True, 1.0001, False), (False, 0.5, False), (True, None, False)],
)
def test_a_check_is_right_when_it_says_so_and_its_margin_agrees(
    passed: bool, margin: float | None, right: bool
) -> None:
    assert is_right(h.check("check-1", passed, margin)) is right


def test_a_margin_that_is_no_number_is_never_right() -> None:
    nan = CheckResult.model_construct(case="check-1", passed=True, margin=float("nan"), worst="y", detail="")
    assert not is_right(nan)


def test_bc_09_one_wrong_case_of_many_rejects_whatever_the_speed() -> None:
    verdict = judge(h.changed(h.hearing(), checks=checked(h.check("check-257", False, 7.5))))
    assert verdict.decision is Decision.REJECTED and verdict.score is None
    assert verdict.reason == "check-257: y is off by 7.5 times what v0's own error allows"
    assert verdict.findings[0].case == "check-257"


@pytest.mark.parametrize(
    ("margin", "said"),
    [(999.4, "999"), (1000.0, "1,000"), (93_612.0, "93,600"), (9.994e8, "999,000,000"), (1e9, "1e+09")],
)
def test_a_large_error_is_a_number_that_people_read(margin: float, said: str) -> None:
    verdict = judge(h.changed(h.hearing(), checks=checked(h.check("check-257", False, margin))))
    assert f"y is off by {said} times" in verdict.reason


def test_what_cannot_be_compared_says_why() -> None:
    wrong = checked(h.check("check-1", False, None, detail="output y is float16 [3, 1], v0 returns float32 [3, 1]"))
    assert "check-1: output y is float16" in h.said(correctness(h.changed(h.hearing(), checks=wrong)))
    silent = checked(h.check("check-1", False, None))
    assert "check-1: y cannot be compared" in h.said(correctness(h.changed(h.hearing(), checks=silent)))


def test_many_wrong_cases_do_not_fill_a_page() -> None:
    wrong = tuple(h.check(case.id, False, 2.0) for case in h.CHECKS)
    findings = correctness(h.changed(h.hearing(), checks=wrong))
    assert len(findings) == 4
    assert findings[-1].message == "2 more of 5 cases are wrong"


def test_where_v0_failed_in_an_old_journal_the_variant_may_and_it_is_said() -> None:
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"checks": checked(h.check("check-1", False, 3.0))})
    heard = h.changed(h.hearing(baseline=baseline), checks=checked(h.check("check-1", False, 9.0)))
    verdict = judge(heard)
    assert verdict.decision is Decision.ACCEPTED
    assert verdict.reason == "1 check not asked for: v0 does not pass it either, check-1"


def test_a_check_that_did_not_run_for_v0_is_asked_of_nobody_and_proves_nothing() -> None:
    skipped = h.check("check-1", True, None, detail="not run")
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"checks": checked(skipped)})
    assert judge(h.changed(h.hearing(baseline=baseline), checks=checked(skipped))).decision is Decision.ACCEPTED
    assert h.rejections(judge(h.changed(h.hearing(), checks=checked(skipped)))) == ["correctness"]


def test_v0_fails_in_the_same_job_and_the_variant_may_whatever_v0_did_in_its_profile() -> None:
    """Another job draws other inputs, and other shapes under the names of the hidden ones."""
    for today in (h.check("check-257", True, None, excused=True), h.check("check-257", False, 7.5, excused=True)):
        verdict = judge(h.changed(h.hearing(), checks=checked(today)))
        assert verdict.decision is Decision.ACCEPTED
        assert verdict.reason == "1 check not asked for: v0 does not pass it either, check-257"
        wrong = h.check("check-1", False, 7.5, excused=False)
        assert h.rejections(judge(h.changed(h.hearing(), checks=checked(today, wrong)))) == ["correctness"]


def test_one_row_of_a_case_excuses_no_other() -> None:
    """Two rows of a name, one held against v0 of an old journal and one against v0 of this job, which passes it."""
    twice = (h.check("check-1", False, 0.4), h.check("check-1", False, 0.4, excused=False))
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"checks": (twice[0], h.check("check-2"))})
    heard = h.changed(h.hearing(baseline=baseline), checks=(*twice, h.check("check-2")))
    assert [finding.severity for finding in correctness(heard)] == ["reject", "info"]


@pytest.mark.parametrize(("passed", "margin"), [(False, 9.0), (True, None), (True, 1.5)])
def test_v0_is_right_in_the_same_job_and_its_profile_excuses_nobody(passed: bool, margin: float | None) -> None:
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"checks": checked(h.check("check-1", False, 3.0))})
    wrong = h.check("check-1", passed, margin, excused=False)
    assert h.rejections(judge(h.changed(h.hearing(baseline=baseline), checks=checked(wrong)))) == ["correctness"]
    right = h.check("check-1", True, 0.9, excused=False)
    verdict = judge(h.changed(h.hearing(baseline=baseline), checks=checked(right)))
    assert verdict.decision is Decision.ACCEPTED and "not asked for" not in verdict.reason


def test_where_v0_fails_everywhere_in_the_same_job_nothing_shows_that_the_variant_is_right() -> None:
    today = tuple(h.check(case.id, True, None, excused=True) for case in h.CHECKS)
    verdict = judge(h.changed(h.hearing(), checks=today))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == "no case could be checked, so nothing shows that it is right"


def test_a_variant_that_nothing_was_asked_of_is_not_right() -> None:
    failing = tuple(h.check(case.id, False, 2.0) for case in h.CHECKS)
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"checks": failing})
    verdict = judge(h.changed(h.hearing(baseline=baseline), checks=failing))
    assert verdict.reason == "no case could be checked, so nothing shows that it is right"
    empty = h.measurement(h.V0, 100.0).model_copy(update={"checks": ()})
    assert "correctness" in h.rejections(judge(h.changed(h.hearing(baseline=empty), checks=())))


def test_of_a_variant_that_did_not_run_only_the_fault_is_told() -> None:
    crashed = h.changed(h.hearing(), checks=(), cases=(), fault=Fault(kind="crashed", detail="IndexError: 3"))
    assert [finding.message for finding in judge(crashed).findings] == ["it crashed: IndexError: 3"]


def test_one_check_that_v0_passes_is_a_yardstick() -> None:
    lost, right = h.check("check-1", False, None), h.check("check-2", True, 0.5)
    assert no_yardstick([lost, right]) == ""
    assert no_yardstick([lost, lost]).startswith("it passes none of its checks, first check-1: ")
    assert no_yardstick([]) == NOTHING
