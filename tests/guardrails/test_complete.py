"""complete: BC-09, the same cases, the same machine, the same source, the same work."""

from __future__ import annotations

import pytest

from bot.guardrails import judge
from bot.guardrails.complete import complete
from bot.model.measurement import Evidence, Fault
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def test_bc_09_a_missing_case_refuses_the_comparison() -> None:
    verdict = judge(h.changed(h.hearing(), cases=h.hearing().candidate.cases[:-1]))
    assert verdict.decision is Decision.REJECTED and verdict.score is None
    assert verdict.reason == f"1 of 4 cases scored missing, first {h.SMALL_BACKWARD}"


def test_bc_09_a_missing_check_too() -> None:
    assert "1 of 5 cases checked missing, first check-1" in h.said(
        complete(h.changed(h.hearing(), checks=h.hearing().candidate.checks[1:]))
    )


def test_bc_09_a_case_that_v0_does_not_have_is_not_averaged_in() -> None:
    more = (*h.hearing().candidate.cases, h.result("forward-1", h.FASTER, 1.0))
    assert "cases scored that v0 does not have, first forward-1" in h.said(complete(h.changed(h.hearing(), cases=more)))


def test_a_case_that_is_there_twice_is_counted_twice() -> None:
    cases = h.hearing().candidate.cases
    assert complete(h.changed(h.hearing(), cases=(*cases, cases[0])))
    assert complete(h.changed(h.hearing(), cases=(*cases[:3], cases[0])))


def test_both_sides_lacking_the_same_case_of_the_suite_is_still_lacking() -> None:
    short = h.measurement(h.V0, 100.0).model_copy(update={"cases": h.measurement(h.V0, 100.0).cases[:1]})
    heard = h.changed(h.hearing(baseline=short), cases=h.hearing().candidate.cases[:1])
    assert judge(heard).decision is Decision.REJECTED


def test_the_order_of_the_cases_is_nobodys_business() -> None:
    assert judge(h.changed(h.hearing(), cases=h.hearing().candidate.cases[::-1])).decision is Decision.ACCEPTED


@pytest.mark.parametrize(
    "other",
    [
        {"arch": "sm_80"},
        {"gpu_uuid": "GPU-2"},
        {"gpu_name": "NVIDIA H100"},
        {"driver": "590.2"},
        {"torch": "2.14.0"},
        {"triton": "3.7.0"},
        {"evidence": Evidence.STATIC},
    ],
)
def test_numbers_of_two_machines_never_meet(other: dict[str, object]) -> None:
    verdict = judge(h.changed(h.hearing(), runner=h.H200.model_copy(update=other)))
    assert verdict.decision is Decision.REJECTED and verdict.score is None
    assert next(iter(other)) in verdict.reason and "such numbers never meet" in verdict.reason


def test_another_sandbox_on_the_same_machine_is_the_same_machine() -> None:
    assert (
        judge(h.changed(h.hearing(), runner=h.H200.model_copy(update={"sandbox": "bubblewrap"}))).decision
        is Decision.ACCEPTED
    )


def test_measuring_something_else_proves_nothing() -> None:
    verdict = judge(h.changed(h.hearing(), source=h.text_digest("something else")))
    assert verdict.reason == "what was measured is not the source of this variant"


def test_the_bytes_a_case_needs_are_the_same_for_everybody() -> None:
    cases = list(h.hearing().candidate.cases)
    cases[0] = cases[0].model_copy(update={"minimum_bytes": h.BYTES - 1})
    (found,) = complete(h.changed(h.hearing(), cases=tuple(cases)))
    assert found.message == (
        f"{h.BIG_FORWARD} needs 96000000 bytes for v0 and 95999999 for the variant: not the same work"
    )


@pytest.mark.parametrize(("grad", "same"), [("drawn", False), ("one", True)])
def test_a_journal_may_count_bytes_of_a_case_that_need_not_move_any(grad: str, same: bool) -> None:
    """They were counted once. A campaign that goes on has v0's from then."""
    heard = h.with_gradient(h.hearing(), grad, h.BIG_BACKWARD)
    cases = (
        one.model_copy(update={"minimum_bytes": 0}) if one.case == h.BIG_BACKWARD else one
        for one in heard.candidate.cases
    )
    assert (complete(h.changed(heard, cases=tuple(cases))) == []) is same


@pytest.mark.parametrize("field", ["memory_bytes", "minimum_bytes"])
@pytest.mark.parametrize(
    ("amount", "possible"), [(0, True), (2**44, True), (-1, False), (2**44 + 1, False), (10**400, False)]
)
def test_an_amount_that_no_gpu_has_is_no_fact(field: str, amount: int, possible: bool) -> None:
    odd = {field: amount}
    baseline = h.measurement(h.V0, 100.0)
    before = baseline.model_copy(update={"cases": tuple(c.model_copy(update=odd) for c in baseline.cases)})
    heard = h.hearing(baseline=before)
    heard = h.changed(heard, cases=tuple(c.model_copy(update=odd) for c in heard.candidate.cases))
    assert ("an amount of memory that no GPU has" in h.said(complete(heard))) is not possible
    assert judge(heard)


def test_a_v0_that_could_not_be_measured_is_no_yardstick() -> None:
    broken = h.measurement(h.V0, 100.0).model_copy(update={"fault": Fault(kind="memory")})
    assert "v0 itself could not be measured: memory" in h.said(complete(h.hearing(baseline=broken)))
