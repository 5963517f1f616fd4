"""implausible: a clock cannot beat the memory (E20)."""

from __future__ import annotations

import math

import pytest

from bot.guardrails import judge
from bot.guardrails.implausible import implausible
from bot.model.verdict import CaseScore, Decision
from tests.guardrails import hearings as h

ROOF_US = 20.0
"""96 MB at the 4800 GB/s of an H200's datasheet."""


@pytest.mark.parametrize(("share", "possible"), [(1.0, True), (1.0499, True), (1.0501, False), (10.0, False)])
def test_five_percent_above_the_datasheet_is_a_good_board_and_more_is_an_error(share: float, possible: bool) -> None:
    findings = implausible(h.weighed(h.hearing({h.BIG_FORWARD: ROOF_US / share})))
    assert (findings == []) is possible


def test_the_refusal_says_how_far_above() -> None:
    verdict = judge(h.hearing({h.BIG_FORWARD: 16.0}))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == f"{h.BIG_FORWARD} would run at 125.0 % of what the memory can do; at most 105 % can be"


def test_without_a_known_minimum_there_is_no_roof_to_break() -> None:
    zero = {"minimum_bytes": 0}
    baseline = h.measurement(h.V0, 100.0)
    before = baseline.model_copy(update={"cases": tuple(c.model_copy(update=zero) for c in baseline.cases)})
    heard = h.hearing({h.BIG_FORWARD: 1.0}, baseline=before)
    heard = h.changed(heard, cases=tuple(c.model_copy(update=zero) for c in heard.candidate.cases))
    assert implausible(h.weighed(heard)) == []


@pytest.mark.parametrize("us", [math.nan, 0.0, -1.0])
def test_durations_that_no_clock_can_show(us: float) -> None:
    ready = h.weighed(h.hearing())
    absurd = CaseScore.model_construct(case=h.BIG_FORWARD, before_us=100.0, after_us=us, speedup=us, memory_ratio=1.0)
    spoiled = ready.model_copy(update={"score": ready.score.model_copy(update={"cases": (absurd,)})})
    (found,) = implausible(spoiled)
    assert found.message == f"{h.BIG_FORWARD}: {us} us, v0 100.0 us: no clock can say that"
