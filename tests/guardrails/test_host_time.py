"""host_time: what a call costs the caller."""

from __future__ import annotations

import pytest

from bot.guardrails import judge
from bot.guardrails.host_time import host_time
from bot.model.measurement import Block
from bot.model.verdict import Decision, Finding
from tests.guardrails import hearings as h


def calling(*host: Block) -> list[Finding]:
    return host_time(h.weighed(h.pairing(h.hearing(), h.SMALL_BACKWARD, host=host)))


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (105.0, 107.1, True),  # 2 % of 105 us is more than 1 us
        (105.0, 107.11, False),
        (10.0, 11.0, True),  # 1 us is more than 2 % of 10 us
        (10.0, 11.01, False),
        (50.0, 51.0, True),
        (50.0, 51.01, False),
        (105.0, 20.0, True),
    ],
)
def test_two_percent_or_one_microsecond_may_be_added(before: float, after: float, kept: bool) -> None:
    assert (calling((before, before, after, after)) == []) is kept


def test_the_refusal_says_how_much_longer() -> None:
    heard = h.pairing(h.hearing(), h.BIG_FORWARD, host=((105.0, 105.0, 125.0, 125.0),))
    verdict = judge(heard)
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == (
        f"a call at {h.BIG_FORWARD} takes 20 us longer on the host (v0 105 us); "
        "2 % or 1 us may be added, whichever is more"
    )


def test_one_call_that_the_scheduler_interrupted_is_not_the_wrapper_s_fault() -> None:
    calm: Block = (100.0, 101.0, 100.0, 101.0)
    assert calling(*[calm] * 4, (100.0, 100.0, 9000.0, 100.0)) == []


@pytest.mark.parametrize(("blocks", "kept"), [(4, True), (5, True), (6, False), (8, False)])
def test_three_of_four_blocks_have_to_show_it(blocks: int, kept: bool) -> None:
    calm, longer = (100.0, 101.0, 100.0, 101.0), (100.0, 100.0, 104.0, 104.0)
    assert (calling(*[longer] * blocks, *[calm] * (8 - blocks)) == []) is kept


def test_a_drift_that_both_share_is_nobody_s() -> None:
    assert calling(*((100.0 + d, 100.0 + d, 100.5 + d, 100.5 + d) for d in (0.0, 40.0, 80.0))) == []


def test_where_no_host_time_was_read_nothing_is_said() -> None:
    assert calling() == []
    assert host_time(h.on_paper(h.hearing())) == []
