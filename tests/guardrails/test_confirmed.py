"""confirmed: nothing is claimed that fresh processes did not bear out."""

from __future__ import annotations

import pytest

from bot.guardrails import Hearing, judge
from bot.guardrails.confirmed import confirmed
from bot.model.commands import Goal
from bot.model.measurement import Reading
from bot.model.verdict import Decision
from tests.analysis.blocks import exact, readings
from tests.guardrails import hearings as h


def confirming(*percents: float, best: float = 1.0, **changes: object) -> Hearing:
    """The same processes at every case."""
    return h.pairing(h.hearing(best=best, **changes), confirm=readings(*percents))


@pytest.mark.parametrize(("count", "decision"), [(4, Decision.INCONCLUSIVE), (5, Decision.ACCEPTED)])
def test_five_fresh_processes_are_asked_for(count: int, decision: Decision) -> None:
    assert judge(confirming(*[5.0] * count)).decision is decision


def test_one_case_that_lacks_a_process_is_not_confirmed() -> None:
    heard = h.pairing(h.hearing(), h.SMALL_FORWARD, confirm=readings(*[11.0] * 4))
    verdict = judge(heard)
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason == "not confirmed: read in 4 fresh processes, 5 are asked for before anything is claimed"


@pytest.mark.parametrize(("blocks", "decision"), [(11, Decision.INCONCLUSIVE), (12, Decision.ACCEPTED)])
def test_a_process_that_hardly_read_anything_does_not_count(blocks: int, decision: Decision) -> None:
    short = Reading(blocks=exact(11.0, blocks))
    heard = h.pairing(h.hearing(), confirm=(*readings(*[11.0] * 4), short))
    assert judge(heard).decision is decision


def test_what_only_the_race_saw_is_no_claim() -> None:
    verdict = judge(h.pairing(h.hearing(), confirm=()))
    assert verdict.decision is Decision.INCONCLUSIVE
    assert "read in no fresh process" in verdict.reason
    assert verdict.score is not None and (verdict.score.low, verdict.score.high) == (None, None)


def test_a_time_without_a_single_block_is_no_claim_either() -> None:
    bare = h.hearing()
    cases = tuple(one.model_copy(update={"paired": None}) for one in bare.candidate.cases)
    assert judge(h.changed(bare, cases=cases)).decision is Decision.INCONCLUSIVE


def test_an_interval_that_reaches_nothing_is_ambiguous_and_never_ships() -> None:
    verdict = judge(confirming(9.0, -4.0, 5.0, 2.0, 4.0))
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason.startswith("ambiguous: speed +3.1")
    assert "are possible after 5 fresh processes" in verdict.reason


@pytest.mark.parametrize(("spread", "decision"), [(0.8, Decision.ACCEPTED), (1.5, Decision.INCONCLUSIVE)])
def test_the_lower_bound_has_to_lie_above_nothing(spread: float, decision: Decision) -> None:
    """Five processes: Student asks for 4.604 standard errors, here 1.63 spreads."""
    found = confirming(*(2.0 + spread * d for d in (-1, -0.5, 0, 0.5, 1)))
    assert judge(found).decision is decision


@pytest.mark.parametrize(("spread", "decision"), [(0.8, Decision.ACCEPTED), (1.5, Decision.INCONCLUSIVE)])
def test_above_the_best_so_far_where_there_is_one(spread: float, decision: Decision) -> None:
    percents = (100 * (1.3 * (1.02 + spread * d / 100) - 1) for d in (-1, -0.5, 0, 0.5, 1))
    assert judge(confirming(*percents, best=1.3)).decision is decision


def test_less_than_the_least_gain_is_no_change_and_not_ambiguous() -> None:
    verdict = judge(confirming(*[0.5] * 5))
    assert [finding.guardrail for finding in verdict.findings] == ["gain"]


def test_a_balance_of_speed_and_memory_has_half_the_interval_of_the_speed() -> None:
    """x1.02 of speed and x1.00 of memory are x1.01 together: just enough where all agree."""
    unsure = confirming(*(4.0 + 2.0 * d for d in (-1, -0.5, 0, 0.5, 1)), goal=Goal.BALANCED)
    assert judge(unsure).decision is Decision.ACCEPTED
    lost = confirming(*(4.0 + 6.0 * d for d in (-1, -0.5, 0, 0.5, 1)), goal=Goal.BALANCED)
    assert "ambiguous: score (speed and memory, goal=balanced) +1.94 % over the best so far" in judge(lost).reason
    assert judge(confirming(*[2.02] * 5, goal=Goal.BALANCED)).decision is Decision.ACCEPTED
    assert judge(confirming(*[2.0] * 5, goal=Goal.BALANCED)).decision is Decision.INCONCLUSIVE


def test_memory_is_counted_and_needs_no_interval_but_the_times_are_confirmed_all_the_same() -> None:
    less = dict.fromkeys(h.NAMES, 800)
    wild = (3.0, -3.0, 1.0, -1.0, 0.2)
    heard = h.pairing(h.hearing(memory=less, goal=Goal.MEMORY), confirm=readings(*wild))
    assert judge(heard).decision.is_accepted
    assert judge(h.pairing(heard, confirm=readings(*wild[:4]))).decision is Decision.INCONCLUSIVE


def test_a_model_is_not_asked_for_processes() -> None:
    assert confirmed(h.on_paper(h.hearing())) == []
