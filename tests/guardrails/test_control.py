"""control: v0 against itself must show nothing."""

from __future__ import annotations

import pytest

from bot.guardrails import Hearing, judge
from bot.guardrails.control import control
from bot.model.measurement import Reading
from bot.model.verdict import Decision
from tests.analysis.blocks import exact, readings
from tests.guardrails import hearings as h


def controlled(*percents: float) -> Hearing:
    return h.pairing(h.hearing(), h.SMALL_FORWARD, control=readings(*percents))


@pytest.mark.parametrize(
    ("percent", "still"), [(0.0, True), (0.99, True), (1.0, False), (-0.98, True), (-1.0, False), (5.0, False)]
)
def test_a_control_that_gains_or_loses_one_percent_has_moved(percent: float, still: bool) -> None:
    assert (control(controlled(*[percent] * 5)) == []) is still


def test_then_there_is_no_verdict_however_good_the_variant() -> None:
    verdict = judge(controlled(1.5, 1.5, 1.5, 1.5, 1.5))
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason == f"the control moved: v0 against itself shows +1.50 % at {h.SMALL_FORWARD}"


def test_processes_that_scatter_around_nothing_are_ordinary() -> None:
    assert control(controlled(2.0, -2.0, 1.0, -1.5, 0.4)) == []


@pytest.mark.parametrize("percents", [(), (3.0, 3.0)])
def test_without_three_processes_a_control_says_nothing(percents: tuple[float, ...]) -> None:
    assert control(controlled(*percents)) == []


@pytest.mark.parametrize(("blocks", "speaks"), [(5, False), (6, True)])
def test_a_control_that_lost_half_of_its_blocks_still_speaks(blocks: int, speaks: bool) -> None:
    short = Reading(blocks=exact(3.0, blocks))
    assert bool(control(h.pairing(h.hearing(), control=(short,) * 5))) is speaks


def test_a_control_of_impossible_times_is_no_control() -> None:
    broken = Reading(blocks=((0.0, 1.0, 1.0, 1.0),) * 12)
    heard = h.pairing(h.hearing(), h.SMALL_FORWARD, control=(broken,) * 5)
    assert h.said(control(heard)) == "the control moved: it shows times that no clock can show"
    assert judge(heard).decision is Decision.INCONCLUSIVE
