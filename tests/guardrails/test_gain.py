"""gain: BC-04, and programs that did not change."""

from __future__ import annotations

import pytest

from bot.guardrails import Hearing, judge
from bot.guardrails.gain import gain, over_best
from bot.model.measurement import Evidence
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def gaining(percent: float, best: float = 1.0) -> Hearing:
    """A variant whose score lies so much over the best so far."""
    us = 100 / (best * (1 + percent / 100))
    return h.hearing(dict.fromkeys(h.NAMES, us), best=best)


@pytest.mark.parametrize("best", [1.0, 1.3, 2.7])
@pytest.mark.parametrize(("percent", "counts"), [(0.99, False), (1.0, True), (0.0, False), (-3.0, False), (40.0, True)])
def test_bc_04_one_percent_over_the_best_so_far_counts(percent: float, counts: bool, best: float) -> None:
    heard = gaining(percent, best)
    assert (gain(h.weighed(heard)) == []) is counts
    # Whoever counts stagnation compares the same number with the same 1 %.
    assert (over_best(h.weighed(heard)) >= 0.01) is counts


def test_a_variant_that_beats_v0_and_not_the_incumbent_is_inconclusive() -> None:
    verdict = judge(gaining(-5.0, best=2.0))
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason == "no significant change: speed -5.00 % over the best so far, at least 1 % is asked"
    assert verdict.gain_over_best == pytest.approx(-0.05)


@pytest.mark.parametrize("best", [0.0, -2.0, 0.5])
def test_nobody_is_accepted_for_beating_less_than_v0(best: float) -> None:
    assert judge(h.hearing(dict.fromkeys(h.NAMES, 102.0), best=best)).decision is Decision.INCONCLUSIVE


def test_a_modelled_gain_is_called_an_estimate() -> None:
    heard = h.weighed(gaining(0.5))
    static = heard.model_copy(update={"score": heard.score.model_copy(update={"evidence": Evidence.STATIC})})
    assert "estimated speed +0.50 %" in h.said(gain(static))


@pytest.mark.parametrize(("floor", "least"), [(0.0, "1"), (0.5, "1"), (0.7, "1.4"), (0.8, "1.6")])
def test_on_a_restless_machine_twice_the_floor_is_asked(floor: float, least: str) -> None:
    """The floor is what v0 against itself shows beside this very variant."""
    restless = h.paired(100.0, 100.0 / (1 + floor / 100)).confirm
    assert gain(h.weighed(h.pairing(gaining(float(least) + 0.01), control=restless))) == []
    (found,) = gain(h.weighed(h.pairing(gaining(float(least) - 0.01), control=restless)))
    assert f"at least {least} % is asked" in found.message


def test_a_model_has_no_floor() -> None:
    heard = h.on_paper(gaining(1.1))
    assert gain(heard) == []


def same_program(**changes: object) -> Hearing:
    return h.launching(h.hearing(), h.launch(h.FASTER, binary=h.text_digest(h.V0), **changes))


def test_the_same_program_under_another_text_is_no_change_and_no_cheat() -> None:
    verdict = judge(same_program())
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason == "the compiled program is v0's: another text, no change"


@pytest.mark.parametrize("change", [{"kernel": "_renamed_kernel"}, {"num_stages": 5}, {"constants": ()}])
def test_names_and_numbers_that_leave_no_trace_in_the_program_change_nothing(change: dict[str, object]) -> None:
    assert judge(same_program(**change)).decision is Decision.INCONCLUSIVE


@pytest.mark.parametrize("change", [{"num_warps": 8}, {"grid": (132, 1, 1)}])
def test_the_same_code_in_another_grid_is_another_program(change: dict[str, object]) -> None:
    assert judge(same_program(**change)).decision is Decision.ACCEPTED


def test_the_same_launches_with_less_work_beside_them_are_another_program() -> None:
    """A needless zero-fill was dropped: torch's own operations are in no binary."""
    heard = same_program()
    cases = tuple(case.model_copy(update={"traffic_factor": 0.9}) for case in heard.candidate.cases)
    assert judge(h.changed(heard, cases=cases)).decision is Decision.ACCEPTED
    cases = tuple(case.model_copy(update={"memory_bytes": 900}) for case in heard.candidate.cases)
    assert judge(h.changed(heard, cases=cases)).decision is Decision.ACCEPTED


def test_programs_nobody_hashed_are_not_called_the_same() -> None:
    nameless = h.measurement(h.V0, 100.0)
    cases = tuple(c.model_copy(update={"launches": (h.launch(h.V0, binary_digest=""),)}) for c in nameless.cases)
    unknown = h.launching(
        h.hearing(baseline=nameless.model_copy(update={"cases": cases})), h.launch(h.FASTER, binary_digest="")
    )
    assert judge(unknown).decision is Decision.ACCEPTED
