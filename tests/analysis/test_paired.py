"""From blocks to a verdict: what one process is worth, what several are, and what none of them may say."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.analysis.paired import (
    bootstrap,
    by_interval,
    clearly_slower,
    combine,
    effective_min_gain,
    estimate,
    holm,
    log_ratio,
    noise_floor,
    pace,
    process_mean,
    slower_p,
    trimmed,
    voided_share,
)
from bot.model.measurement import Block, Reading
from bot.model.verdict import Pace
from tests.analysis.blocks import exact, processes, reading, readings

us = st.floats(0.5, 5000)


def test_above_zero_is_faster() -> None:
    assert log_ratio((100, 100, 50, 50)) == pytest.approx(math.log(2))
    assert log_ratio((100, 100, 200, 200)) == pytest.approx(-math.log(2))


@given(us, us, us, us)
def test_a_block_turned_over_is_its_own_opposite(a: float, b: float, c: float, d: float) -> None:
    assert log_ratio((a, b, c, d)) == pytest.approx(-log_ratio((c, d, a, b)), abs=1e-12)
    assert log_ratio((a, b, c, d)) == pytest.approx(log_ratio((b, a, d, c)), abs=1e-12)


@given(us, us, us, us, st.floats(0.5, 2))
def test_a_drift_that_both_arms_share_cancels(a: float, b: float, c: float, d: float, drift: float) -> None:
    slowed: Block = (a * drift, b * drift, c * drift, d * drift)
    assert log_ratio(slowed) == pytest.approx(log_ratio((a, b, c, d)), abs=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_time_that_no_clock_shows_is_refused_and_not_left_out(bad: float) -> None:
    with pytest.raises(ValueError, match="no positive number"):
        log_ratio((1.0, 1.0, 1.0, bad))
    with pytest.raises(ValueError, match="no positive number"):
        process_mean([*exact(2.0, 20), (1.0, bad, 1.0, 1.0)])


def test_the_trimmed_mean_of_a_textbook() -> None:
    """20 values, one wild one: 2 are cut at each end, and Yuen's error comes from the winsorised squares."""
    values = [*map(float, range(1, 20)), 1000.0]
    mean, error, freedom = trimmed(values)
    assert mean == pytest.approx(sum(range(3, 19)) / 16)
    winsorised = [3.0] * 3 + [float(n) for n in range(4, 18)] + [18.0] * 3
    centre = sum(winsorised) / 20
    assert error == pytest.approx(math.sqrt(sum((x - centre) ** 2 for x in winsorised) / (16 * 15)))
    assert freedom == 15


def test_one_slow_slot_in_ten_moves_nothing() -> None:
    calm, hit = exact(2.0, 20), [*exact(2.0, 18), (100.0, 100.0, 900.0, 100.0), (900.0, 100.0, 98.0, 98.0)]
    assert process_mean(hit).mean == pytest.approx(process_mean(calm).mean)


def test_without_noise_every_interval_is_a_point() -> None:
    found = estimate(readings(2.0, 2.0, 2.0, 2.0, 2.0))
    assert found.gain == pytest.approx(0.02)
    assert found.interval() == pytest.approx((found.mean, found.mean))


def test_a_process_counts_once_however_many_blocks_it_read() -> None:
    long = Reading(blocks=exact(3.0, 500))
    assert estimate((long, *readings(0.0, 0.0))).mean == pytest.approx(math.log(1.03) / 3)


def test_the_interval_is_student_s_over_the_processes() -> None:
    found = estimate(readings(1.0, 2.0, 3.0, 4.0, 5.0))
    means = [math.log1p(percent / 100) for percent in range(1, 6)]
    centre = sum(means) / 5
    error = math.sqrt(sum((mean - centre) ** 2 for mean in means) / 20)
    assert found.interval(0.95) == pytest.approx((centre - 2.7764 * error, centre + 2.7764 * error), abs=1e-6)
    assert found.interval(0.99) == pytest.approx((centre - 4.6041 * error, centre + 4.6041 * error), abs=1e-6)


def test_processes_that_agree_by_chance_do_not_make_their_blocks_quieter() -> None:
    blocks = tuple((100.0, 100.0, 100.0 + wobble, 100.0 + wobble) for wobble in (-3.0, 3.0) * 20)
    found = estimate([Reading(blocks=blocks)] * 5)
    assert found.between == pytest.approx(0, abs=1e-15)
    alone = process_mean(blocks).error
    assert found.half_width(0.975) == pytest.approx(1.97 * alone / math.sqrt(5), rel=0.01)


@pytest.mark.parametrize(("count", "known"), [(1, False), (2, False), (3, True)])
def test_two_processes_have_a_mean_and_no_interval(count: int, known: bool) -> None:
    found = estimate(readings(*[50.0] * count))
    assert found.gain == pytest.approx(0.5)
    assert math.isfinite(found.interval()[0]) is known
    assert pace(found) is (Pace.FASTER if known else Pace.AMBIGUOUS)
    assert bootstrap(found)[0] == (pytest.approx(found.mean) if known else -math.inf)


@pytest.mark.parametrize(("blocks", "counts"), [(11, False), (12, True)])
def test_a_process_with_fewer_than_twelve_blocks_has_nothing_to_say(blocks: int, counts: bool) -> None:
    assert len(estimate([reading(2.0), reading(2.0, blocks)]).processes) == 1 + counts
    assert len(estimate([*readings(2.0)]).processes) == 1
    with pytest.raises(ValueError, match="no process"):
        estimate([reading(2.0, 11)])


# The verdict.


@pytest.mark.parametrize(
    ("percents", "verdict"),
    [
        ((1.0,) * 5, Pace.FASTER),
        ((0.99,) * 5, Pace.SAME),
        ((0.0,) * 5, Pace.SAME),
        ((-0.98,) * 5, Pace.SAME),
        ((-0.99,) * 5, Pace.SAME),
        ((-100 / 101,) * 5, Pace.SLOWER),  # 1 % more time
        ((2.0, 2.1, 1.9, 2.0, 2.0), Pace.FASTER),
        ((6.0, -2.0, 3.0, 1.0, 4.0), Pace.AMBIGUOUS),  # +2.4 % on average, and nobody knows
        ((-6.0, 2.0, -3.0, -1.0, -4.0), Pace.AMBIGUOUS),
        ((1.4, 0.2, 0.9, 0.5, 0.8), Pace.AMBIGUOUS),  # surely above 0, and perhaps 1 %
    ],
)
def test_faster_slower_same_or_not_known(percents: tuple[float, ...], verdict: Pace) -> None:
    found = estimate(readings(*percents))
    assert pace(found) is verdict


def test_what_counts_as_a_gain_moves_with_the_floor() -> None:
    found = estimate(readings(*[1.5] * 5))
    assert [pace(found, least) for least in (0.01, 0.015, 0.0151)] == [Pace.FASTER, Pace.FASTER, Pace.SAME]


def test_the_lower_bound_decides_and_not_the_mean() -> None:
    """Five processes, one-sided 99.5 %: Student asks for 4.604 standard errors."""
    for spread, verdict in [(0.9, Pace.FASTER), (1.3, Pace.AMBIGUOUS)]:
        found = estimate(readings(*(2.0 + spread * d for d in (-1, -0.5, 0, 0.5, 1))))
        assert pace(found) is verdict, spread


def test_medians_that_do_not_bear_it_out_leave_it_open() -> None:
    """Each process has a few blocks far out, on one side: enough to carry its trimmed mean, not its median."""
    skewed = exact(0.0, 60) + exact(12.0, 40)
    found = estimate([Reading(blocks=skewed)] * 5)
    assert by_interval(found) is Pace.FASTER
    assert bootstrap(found)[0] == 0
    assert pace(found) is Pace.AMBIGUOUS
    slower = estimate([Reading(blocks=exact(0.0, 60) + exact(-12.0, 40))] * 5)
    assert (by_interval(slower), pace(slower)) == (Pace.SLOWER, Pace.AMBIGUOUS)


def test_a_verdict_asked_twice_is_one_verdict() -> None:
    found = processes(random.Random(3), 1.2, tau=0.4)
    first, again = estimate(found), estimate(found)
    assert first == again
    assert bootstrap(first) == bootstrap(again)


def test_the_bootstrap_agrees_with_student_where_processes_are_ordinary() -> None:
    found = estimate(processes(random.Random(1), 2.0, tau=0.2, sd=0.2, count=20, blocks=20))
    for ours, theirs in zip(bootstrap(found), found.interval(), strict=True):
        assert ours == pytest.approx(theirs, abs=0.0006)


def test_an_interval_of_95_percent_holds_the_truth_95_times_in_100() -> None:
    dice, held, tries = random.Random(11), 0, 600
    for _ in range(tries):
        means = [process_mean(exact(dice.gauss(2.0, 0.3), 12)) for _ in range(8)]
        low, high = combine(means).interval()
        held += low <= math.log(1.02) <= high
    assert 0.93 <= held / tries <= 0.97


# Several cases at once.


def test_slower_by_just_the_limit_is_a_coin_s_toss_and_less_is_not_slower() -> None:
    limit = 100 * (1 / 1.02 - 1)
    at_it = estimate(readings(*(limit + d for d in (-0.2, -0.1, 0, 0.1, 0.2))))
    assert slower_p(at_it) == pytest.approx(0.5, abs=0.01)
    assert slower_p(estimate(readings(*(limit - 1 + d for d in (-0.2, 0, 0.2))))) < 0.01
    assert slower_p(estimate(readings(0.0, 0.1, -0.1))) > 0.99


def test_a_chance_follows_student_s_curve() -> None:
    found = estimate(readings(-3.0, -2.0, -4.0))
    means = [math.log1p(percent / 100) for percent in (-3, -2, -4)]
    t = (sum(means) / 3 + math.log(1.02)) / (NormalDist.from_samples(means).stdev / math.sqrt(3))
    # Two degrees of freedom have a formula of their own.
    assert slower_p(found) == pytest.approx(0.5 + t / (2 * math.sqrt(2 + t * t)))


def test_without_an_interval_nobody_is_called_slower() -> None:
    assert slower_p(estimate(readings(-50.0, -50.0))) == 1.0
    assert [slower_p(estimate(readings(*[p] * 3))) for p in (-50.0, -1.0)] == [0.0, 1.0]


def test_holm_asks_the_smallest_for_most() -> None:
    assert holm([0.0049, 0.5]) == (True, False)
    assert holm([0.0051, 0.5]) == (False, False)
    assert holm([0.5, 0.001, 0.0099]) == (False, True, False)
    assert holm([0.004, 0.0099]) == (True, True)
    assert holm([]) == ()


def test_many_cases_do_not_make_one_of_them_slower_by_luck() -> None:
    dice, alarms = random.Random(2), 0
    for _ in range(200):
        cases = [estimate(readings(*(dice.gauss(-1.9, 0.5) for _ in range(5)))) for _ in range(8)]
        alarms += any(clearly_slower(cases))
    assert alarms <= 6


# The floor.


def test_the_floor_is_what_nothing_at_all_shows_in_19_of_20_readings() -> None:
    controls = [estimate(readings(*[percent / 100] * 3)) for percent in range(1, 101)]
    assert noise_floor(controls) == pytest.approx(0.0095)
    down = [estimate(readings(*[100 / (1 + percent / 1e4) - 100] * 3)) for percent in range(1, 101)]
    assert noise_floor(down) == pytest.approx(0.0095)
    assert noise_floor([]) == 0.0


@pytest.mark.parametrize(("floor", "asked"), [(0.0, 0.01), (0.4, 0.01), (0.5, 0.01), (0.6, 0.012), (3.0, 0.06)])
def test_twice_the_floor_is_asked_where_that_is_more_than_the_policy(floor: float, asked: float) -> None:
    assert effective_min_gain([estimate(readings(*[floor] * 3))]) == pytest.approx(asked)


def test_voided_blocks_are_counted_over_all_processes() -> None:
    assert voided_share([reading(0.0, 16, voided=4), reading(0.0, 24, voided=6)]) == pytest.approx(0.2)
    assert voided_share([]) == 0.0
    assert voided_share([Reading(blocks=(), voided=1)]) == 1.0
