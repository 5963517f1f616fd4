"""clocks: the judge's own clock beside the GPU's, in the same long runs."""

from __future__ import annotations

import pytest

from bot.guardrails import Hearing, judge
from bot.guardrails.clocks import clocks
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def told(burst: tuple[float, float] | None) -> Hearing:
    """What the wall clock and the events of one case's long runs say, as shares of v0's time."""
    return h.pairing(h.hearing(), h.BIG_FORWARD, burst=burst)


@pytest.mark.parametrize(
    ("burst", "agree"),
    [
        (None, True),
        ((0.9, 0.9), True),
        ((0.9449, 0.9), True),
        ((0.9451, 0.9), False),
        ((0.8551, 0.9), True),
        ((0.8549, 0.9), False),
        ((0.9, 0.0), False),
        ((0.9, float("nan")), False),
    ],
)
def test_the_two_may_be_five_percent_apart(burst: tuple[float, float] | None, agree: bool) -> None:
    assert (clocks(h.weighed(told(burst))) == []) is agree


def test_a_gain_that_only_the_events_see_is_refused() -> None:
    verdict = judge(told((1.0, 0.5)))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == (
        f"at {h.BIG_FORWARD} events say x0.500 of v0's time, the judge's own clock x1.000; "
        "at most 5 % may lie between them"
    )


def test_warm_runs_may_gain_less_than_the_cold_blocks_as_long_as_both_clocks_say_so() -> None:
    assert judge(told((1.0, 1.0))).decision is Decision.ACCEPTED


def test_a_run_that_ends_too_early_shows_at_any_case() -> None:
    heard = h.pairing(h.hearing(), h.SMALL_BACKWARD, burst=(1.2, 1.0))
    (found,) = clocks(h.weighed(heard))
    assert (found.severity, found.case) == ("reject", h.SMALL_BACKWARD)
