"""Who leaves the race, when, and who never should."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from bot.analysis.racing import GLANCE, LOOKS, Step, behind, glanced, next_look, standing, step
from bot.model.measurement import Block
from tests.analysis.blocks import exact, noisy

RACES = 200


def race(dice: random.Random, percent: float, sd: float, best: float = 1.0, tau: float = 0.15) -> tuple[Step, int]:
    """How one variant leaves, and after how many blocks."""
    placed, blocks = dice.gauss(percent, tau), list[Block]()
    while True:
        look = next_look(len(blocks))
        assert look is not None
        blocks += noisy(dice, placed, sd, look - len(blocks))
        said = step(standing([blocks]), best=best)
        if said is not Step.GO_ON:
            return said, len(blocks)


def races(percent: float, sd: float, best: float = 1.0) -> Counter[tuple[Step, int]]:
    dice = random.Random(f"{percent} {sd}")
    return Counter(race(dice, percent, sd, best) for _ in range(RACES))


def left(found: Counter[tuple[Step, int]], *, at: int = LOOKS[-1]) -> float:
    return sum(times for (said, blocks), times in found.items() if said is Step.DROP and blocks <= at) / RACES


@pytest.mark.parametrize("sd", [0.3, 1.0, 2.4])
def test_five_percent_slower_leaves_at_the_first_look(sd: float) -> None:
    assert left(races(-5.0, sd), at=12) >= 0.99


@pytest.mark.parametrize(("sd", "share"), [(0.3, 0.99), (0.8, 0.85)])
def test_a_null_leaves_at_the_first_look(sd: float, share: float) -> None:
    found = races(0.0, sd)
    assert left(found, at=12) >= share
    assert left(found) == 1.0


@pytest.mark.parametrize("sd", [0.3, 1.0, 2.4])
def test_two_percent_survives(sd: float) -> None:
    assert left(races(2.0, sd)) <= 0.02


def test_a_clear_winner_is_not_read_to_the_end() -> None:
    found = races(5.0, 1.0)
    assert found == {(Step.GOES, 12): RACES}


def test_a_noisy_clock_takes_its_time_and_lets_few_nulls_by() -> None:
    found = races(0.0, 2.4)
    assert left(found, at=12) < 0.6
    assert left(found) >= 0.98


def test_what_beats_v0_and_not_the_best_leaves() -> None:
    assert left(races(20.0, 0.5, best=1.3), at=12) == 1.0
    assert left(races(34.0, 0.5, best=1.3)) == 0.0


@pytest.mark.parametrize(("percent", "said"), [(0.99, Step.DROP), (1.0, Step.GOES), (1.01, Step.GOES)])
def test_without_noise_the_least_gain_is_the_border(percent: float, said: Step) -> None:
    assert step(standing([exact(percent, 12)])) is said
    assert step(standing([exact(percent, 96)])) is said
    assert step(standing([exact(1.02 * (100 + percent) - 100, 12)]), best=1.02) is said


def test_a_best_that_is_worse_than_v0_is_no_help() -> None:
    assert step(standing([exact(0.0, 12)]), best=0.5) is Step.DROP


def test_who_is_clearly_behind_the_leader_leaves_and_half_a_percent_is_not_clearly() -> None:
    leader = standing([exact(5.0, 12)])
    assert step(standing([exact(4.6, 12)]), leader=leader) is Step.GOES
    assert step(standing([exact(4.3, 12)]), leader=leader) is Step.DROP


def test_an_early_look_asks_for_more_than_a_late_one() -> None:
    """Three standard errors above nothing are plenty after 96 blocks, and luck after 12."""

    def three_errors(pairs: int) -> tuple[Block, ...]:
        wobble = 2.4 * math.sqrt(pairs / 6)
        return tuple((100.0, 100.0, 97.5 + d, 97.5 + d) for d in (-wobble, wobble)) * pairs

    assert step(standing([three_errors(6)])) is Step.GO_ON
    assert step(standing([three_errors(48)])) is Step.GOES
    early = standing([three_errors(6)])
    assert 2.6 < early.mean / early.error < 7.3


def test_the_last_look_decides() -> None:
    wobble = tuple((100.0, 100.0, 99.5 + d, 99.5 + d) for d in (-6.0, 6.0))
    assert step(standing([wobble * 12])) is Step.GO_ON
    assert step(standing([wobble * 48])) is Step.DROP


@pytest.mark.parametrize(("blocks", "look"), [(0, 12), (11, 12), (12, 24), (47, 48), (95, 96), (96, None), (500, None)])
def test_the_looks(blocks: int, look: int | None) -> None:
    assert next_look(blocks) == look


def test_cases_are_weighed_as_the_score_weighs_them() -> None:
    both = standing([exact(4.0, 24), exact(-2.0, 12)], [3.0, 1.0])
    assert both.mean == pytest.approx((3 * standing([exact(4.0, 12)]).mean + standing([exact(-2.0, 12)]).mean) / 4)
    assert both.blocks == 12


def test_several_noisy_cases_together_are_known_better_than_one() -> None:
    dice = random.Random(4)
    cases = [noisy(dice, 2.0, 1.0, 24) for _ in range(8)]
    assert standing(cases).error < 0.5 * standing(cases[:1]).error


@pytest.mark.parametrize("cases", [[], [()], [exact(1.0, 11)], [exact(1.0, 12), exact(1.0, 3)]])
def test_nothing_is_decided_before_the_first_look(cases: list[tuple[Block, ...]]) -> None:
    with pytest.raises(ValueError, match="12 blocks"):
        standing(cases)


# Many at once


def dropped(percent: float, sd: float) -> float:
    """How often a glance at one that is so much faster than the leader, or slower, says that it is behind."""
    dice, count = random.Random(f"glance {percent} {sd}"), 0
    for _ in range(RACES):
        leader = glanced(noisy(dice, dice.gauss(0.0, 0.15), sd, LOOKS[0]))
        count += behind(glanced(noisy(dice, dice.gauss(percent, 0.15), sd, GLANCE)), leader)
    return count / RACES


def test_a_glance_sends_home_who_is_far_behind_and_nobody_who_leads() -> None:
    assert dropped(-10.0, 0.8) >= 0.95
    assert dropped(0.0, 0.8) <= 0.02
    assert dropped(1.0, 0.8) == 0.0


def test_without_a_leader_or_with_too_few_blocks_nobody_is_behind() -> None:
    slow, fast = (glanced(exact(percent, GLANCE)) for percent in (-10.0, 10.0))
    assert behind(slow, fast)
    assert not behind(slow, None)
    assert glanced(exact(-10.0, GLANCE - 1)) is None
    assert not behind(None, fast)
