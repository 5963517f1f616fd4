"""cross_pass: BC-02."""

from __future__ import annotations

import math

import pytest

from bot.guardrails import Hearing, Weighed, judge
from bot.guardrails.cross_pass import cross_pass
from bot.model.commands import Scope
from bot.model.measurement import Case
from bot.model.verdict import CaseScore
from tests.guardrails import hearings as h


def paid(forward: float, backward: float) -> list[str]:
    """Messages about the big shape, both passes of which take 100 us in v0."""
    times = {h.BIG_FORWARD: forward, h.BIG_BACKWARD: backward}
    return [finding.message for finding in cross_pass(h.weighed(h.hearing(times)))]


def test_bc_02_ten_percent_may_be_paid() -> None:
    assert paid(110.0, 90.0) == []


def test_bc_02_a_thousandth_more_may_not_however_little_was_gained() -> None:
    (message,) = paid(110.1, 99.9)
    assert message == (
        f"{h.BIG_FORWARD} is 10.10 % slower than v0 (110.1 us, v0 100 us) while {h.BIG_BACKWARD} gained; "
        "at most 10 % may be paid"
    )


def test_bc_02_nothing_is_paid_when_nobody_gained() -> None:
    assert paid(115.0, 100.0) == []


def test_bc_02_but_the_loss_itself_is_refused_where_forward_was_asked_about() -> None:
    verdict = judge(h.hearing({h.BIG_FORWARD: 115.0, h.BIG_BACKWARD: 100.0}, scope=Scope.FORWARD))
    assert set(h.rejections(verdict)) == {"regression"}


def test_backward_is_not_sold_either() -> None:
    (message,) = paid(60.0, 111.0)
    assert message.startswith(f"{h.BIG_BACKWARD} is 11.00 % slower")


def test_two_losers_are_no_trade() -> None:
    assert paid(120.0, 130.0) == []


def test_another_shape_is_another_matter() -> None:
    assert cross_pass(h.weighed(h.hearing({h.BIG_FORWARD: 150.0, h.BIG_BACKWARD: 100.0, h.SMALL_BACKWARD: 10.0}))) == []


def test_another_type_is_another_matter() -> None:
    first, second = h.CASES[0], h.CASES[1].model_copy(update={"dtype": "float16"})
    suite = h.SUITE.model_copy(update={"cases": (first, second, *h.CASES[2:])})
    heard = h.hearing({h.BIG_FORWARD: 150.0, h.BIG_BACKWARD: 50.0}, suite=suite)
    assert cross_pass(h.weighed(heard)) == []


def test_a_full_pass_is_on_neither_side() -> None:
    full = Case(id=h.BIG_BACKWARD, direction="full", shape=h.CASES[0].shape, dtype="bfloat16")
    suite = h.SUITE.model_copy(update={"cases": (h.CASES[0], full, *h.CASES[2:])})
    assert cross_pass(h.weighed(h.hearing({h.BIG_FORWARD: 150.0, h.BIG_BACKWARD: 50.0}, suite=suite))) == []


def with_times(heard: Hearing, forward: float, backward: float) -> Weighed:
    ready = h.weighed(heard)
    scores = [
        CaseScore.model_construct(case=name, before_us=100.0, after_us=us, speedup=1.0, memory_ratio=1.0)
        for name, us in ((h.BIG_FORWARD, forward), (h.BIG_BACKWARD, backward))
    ]
    return ready.model_copy(update={"score": ready.score.model_copy(update={"cases": tuple(scores)})})


@pytest.mark.parametrize(("forward", "backward"), [(math.nan, 90.0), (120.0, math.nan), (math.nan, math.nan)])
def test_what_is_no_number_keeps_no_limit(forward: float, backward: float) -> None:
    assert cross_pass(with_times(h.hearing(), forward, backward))
