"""Whole campaigns on the recorded noise of an H200: nothing is accepted for nothing, and two percent is found.

The race, the score and the verdict are the real ones; the clock alone is a fake. No variant is left out because it
looks like another, and the best of a race is confirmed even where the race itself would have dropped it.
"""

from __future__ import annotations

from collections import Counter
from statistics import fmean, stdev

import pytest

from bot.analysis.paired import log_ratio, process_mean
from bot.analysis.racing import LOOKS, Step, next_look, standing, step
from bot.guardrails import judge
from bot.model.commands import Scope
from bot.model.measurement import Block, Paired, Reading
from bot.model.verdict import Verdict
from tests.fakes.gpu_clock import FakeGpuClock, conditions
from tests.guardrails import hearings as h

CAMPAIGNS, VARIANTS, PROCESSES = 100, 64, 8
CASE = h.CASES[0]


def clock(number: int) -> FakeGpuClock:
    """Every campaign has its own condition, its own luck, and either arm."""
    return FakeGpuClock(conditions()[number % len(conditions())], seed=number, favours=1 if number % 4 < 2 else -1)


def race(ticking: FakeGpuClock, gain: float, process: int) -> tuple[tuple[Block, ...], Step]:
    blocks: tuple[Block, ...] = ()
    while (look := next_look(len(blocks))) is not None:
        blocks += ticking.blocks(gain, look - len(blocks), process)
        if (said := step(standing([blocks]))) is not Step.GO_ON:
            return blocks, said
    raise AssertionError("the last look decides")


def verdict(ticking: FakeGpuClock, search: tuple[Block, ...], gain: float) -> Verdict:
    """What the judge makes of a variant that is confirmed in fresh processes, with the hidden control beside it."""
    paired = Paired(
        tier="replay",
        search=Reading(blocks=search),
        confirm=tuple(ticking.process(gain) for _ in range(PROCESSES)),
        control=tuple(ticking.process(0.0) for _ in range(PROCESSES)),
    )
    # Bytes that no clock is fast enough to break the roof with: noise is what is asked about.
    few = {"minimum_bytes": 1000}
    before = h.measurement(h.V0, 100.0)
    before = before.model_copy(update={"cases": (before.cases[0].model_copy(update=few),)})
    suite = h.SUITE.model_copy(update={"cases": (CASE,)})
    heard = h.hearing(baseline=before, suite=suite, scope=Scope.FORWARD)
    case = heard.candidate.cases[0].model_copy(update=few | {"paired": paired, "timing": None})
    return judge(h.changed(heard, cases=(case,)), static=False)


def test_best_of_64_nulls_is_never_accepted() -> None:
    accepted, best_of_race, raced = [], [], Counter[Step]()
    for number in range(CAMPAIGNS):
        ticking = clock(number)
        races = [race(ticking, 0.0, process=number * VARIANTS + variant) for variant in range(VARIANTS)]
        raced.update(said for _, said in races)
        best = max((blocks for blocks, _ in races), key=lambda blocks: process_mean(blocks).mean)
        best_of_race.append(process_mean(best).mean)
        if verdict(ticking, best, 0.0).decision.is_accepted:
            accepted.append(number)
    assert accepted == []
    # The luck was there to be believed: in every fourth race somebody seemed to gain 0.5 %, in some 1 %.
    assert sum(mean > 0.005 for mean in best_of_race) >= CAMPAIGNS // 4
    assert sum(mean > 0.01 for mean in best_of_race) >= 5
    assert raced[Step.DROP] / sum(raced.values()) > 0.95


def shipped(gain: float) -> int:
    """Of so many campaigns with one such variant each, how many would have shipped it."""
    count = 0
    for number in range(CAMPAIGNS):
        ticking = clock(number)
        search, said = race(ticking, gain, process=number)
        count += said is Step.GOES and verdict(ticking, search, gain).decision.is_accepted
    return count


def test_two_percent_is_found() -> None:
    assert shipped(2.0) >= 95


def test_two_percent_slower_is_never_shipped_even_where_the_race_let_it_by() -> None:
    assert shipped(-2.0) == 0
    for number in range(CAMPAIGNS):
        ticking = clock(number)
        assert not verdict(ticking, ticking.blocks(-2.0, LOOKS[-1]), -2.0).decision.is_accepted


# The fake itself.


def test_the_clock_replays_what_was_recorded() -> None:
    quiet = next(
        one for one in conditions() if one.name == "alone: rms_norm 8192x4096 x1 | same buffers | either order"
    )
    assert quiet.placed[5] == -0.6931
    ratios = [log_ratio(block) for block in FakeGpuClock(quiet, seed=1).blocks(0.0, 20_000, process=5)]
    assert fmean(ratios) == pytest.approx(0.006955, abs=0.0005)
    slow_slots = 0.18**2 * 0.01
    assert stdev(ratios) ** 2 == pytest.approx(0.023943**2 + slow_slots, rel=0.1)


def test_processes_differ_by_their_placement_and_a_planted_gain_adds_to_it() -> None:
    loud = conditions()[0]
    means = [process_mean(FakeGpuClock(loud, seed=p).blocks(5.0, 4000, process=p)).mean for p in range(8)]
    for mean, placed in zip(means, loud.placed, strict=True):
        assert mean == pytest.approx(0.04879 - placed / 100, abs=0.0015)


def test_either_arm_may_be_the_lucky_one() -> None:
    one, other = (FakeGpuClock(conditions()[0], 3, favours).blocks(0.0, 4000, process=1) for favours in (1, -1))
    assert process_mean(one).mean == pytest.approx(-process_mean(other).mean, abs=0.003)


def test_the_same_seed_is_the_same_noise() -> None:
    first, again = (FakeGpuClock(conditions()[0], 3).blocks(0.0, 20) for _ in range(2))
    assert first == again
