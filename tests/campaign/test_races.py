"""When launch numbers are raced: on a clock, once for each incumbent whose work is new, when nobody has another idea or
the search stands still, and never before a person."""

from __future__ import annotations

import pytest

from bot.campaign.effects import EndSearch, MeasureVariant, OpenRound, RaceNumbers
from bot.campaign.lineage import NUMBERS_TECHNIQUE, TRY_TECHNIQUE, has_opening_ahead, has_race_ahead
from bot.campaign.machine import advance, fold
from bot.campaign.spending import _told
from bot.campaign.stopping import gpu_seconds
from bot.model.campaign import Campaign, Profile
from bot.model.facts import (
    Fact,
    NumbersRaced,
    RoundOpened,
    TryRequested,
    VariantJudged,
    VariantMeasured,
)
from bot.model.measurement import Evidence, Runner
from bot.model.race import Lap, Race, Racer
from bot.model.verdict import Verdict
from tests.campaign.story import (
    ACCEPTED,
    CAMPAIGN,
    COMMIT,
    MIRA,
    O2,
    STAGNANT,
    WRONG,
    measurement,
    next_step,
    profile,
    to_the_search,
    variant,
)

GPU = Runner(evidence=Evidence.MEASURED, arch="sm_90", gpu_name="NVIDIA H200")


def on(runner: Runner) -> Profile:
    found = profile()
    return found.model_copy(update={"baseline": found.baseline.model_copy(update={"runner": runner, "seconds": 5.0})})


def searching(*facts: Fact, runner: Runner = GPU) -> Campaign:
    found = fold(Campaign(id=CAMPAIGN), (*to_the_search(on(runner)), *facts))
    assert found.ignored == ()
    return found


def race(of: int = 0, seconds: float = 20.0) -> NumbersRaced:
    lap = Lap(case="forward-r4096-c4096-bfloat16", speedup=1.0, low=0.99, high=1.01, blocks=12)
    return NumbersRaced(order=O2, race=Race(of=of, racers=(Racer(laps=(lap,)),), seconds=seconds))


def played(number: int, verdict: Verdict, technique: str = "tile_rows", parent: int = 0) -> tuple[Fact, ...]:
    one = variant(number, parent, technique=technique)
    return (
        RoundOpened(order=O2, variant=one),
        VariantMeasured(order=O2, number=number, measurement=measurement(one).model_copy(update={"runner": GPU})),
        VariantJudged(order=O2, number=number, verdict=verdict),
    )


def opening(of: int = 0) -> NumbersRaced:
    fact = race(of)
    return fact.model_copy(update={"race": fact.race.model_copy(update={"opening": True})})


def test_ideas_race_once_in_a_search_whatever_it_has_accepted() -> None:
    assert has_opening_ahead(searching())
    assert has_opening_ahead(searching(*played(1, ACCEPTED)))
    assert not has_opening_ahead(searching(opening()))
    assert not has_opening_ahead(searching(*played(1, ACCEPTED), opening(of=1), *played(2, ACCEPTED, parent=1)))


def test_an_opening_is_no_race_of_launch_numbers_and_the_other_way_round() -> None:
    assert has_race_ahead(searching(opening())) and has_opening_ahead(searching(race()))
    both = searching(opening(), race())
    assert [one.opening for one in both.races] == [True, False]
    assert both.opening == both.races[0] and both.race_of(0) == both.races[1]


def test_without_a_clock_there_is_no_opening_and_a_person_comes_before_it() -> None:
    assert not has_opening_ahead(searching(runner=Runner(evidence=Evidence.STATIC, arch="sm_90")))
    assert not has_opening_ahead(searching(TryRequested(commit=COMMIT, actor=MIRA)))


def test_a_second_opening_is_ignored() -> None:
    campaign = searching(opening())
    after, _ = advance(campaign, opening())
    assert [one.why for one in after.ignored] == ["no race of v0 was asked for"]
    assert after.races == campaign.races


def test_ideas_come_before_a_race() -> None:
    """A race takes as long as a round, and what it learns is over with the next rewrite that is accepted."""
    assert isinstance(next_step(searching()), OpenRound)
    assert has_race_ahead(searching()) and not has_race_ahead(searching(race()))


def test_without_a_clock_nobody_races() -> None:
    static = Runner(evidence=Evidence.STATIC, arch="sm_90")
    assert not has_race_ahead(searching(runner=static))


def test_a_refused_variant_calls_for_no_race_and_an_accepted_one_does() -> None:
    assert not has_race_ahead(searching(race(), *played(1, WRONG)))
    assert has_race_ahead(searching(race(), *played(1, ACCEPTED)))
    assert not has_race_ahead(searching(race(), *played(1, ACCEPTED), race(of=1)))


@pytest.mark.parametrize("technique", [NUMBERS_TECHNIQUE, f"{NUMBERS_TECHNIQUE}:v1", f"{NUMBERS_TECHNIQUE}:_k"])
def test_numbers_that_just_won_are_not_raced_again(technique: str) -> None:
    assert not has_race_ahead(searching(race(), *played(1, ACCEPTED, technique)))


def still(count: int, first: int = 1) -> tuple[Fact, ...]:
    return tuple(fact for number in range(first, first + count) for fact in played(number, STAGNANT))


def test_a_search_that_stands_still_is_raced_before_it_ends() -> None:
    """Two that gain nothing are a review, two more would end it."""
    assert isinstance(next_step(searching(*still(3))), OpenRound)
    assert next_step(searching(*still(4))) == RaceNumbers(order=O2, incumbent=0)
    assert isinstance(next_step(searching(*still(4), race())), OpenRound), "what the race found has a round to show it"
    assert isinstance(next_step(searching(*still(4), race(), *still(2, first=5))), EndSearch)
    assert isinstance(next_step(searching(race(), *still(4))), EndSearch)


def test_three_failures_in_a_row_are_no_word_on_launch_numbers() -> None:
    """group_norm's first three ideas were refused on an H200, and numbers that had won 11x were never tried."""
    failed = tuple(fact for number in (1, 2, 3) for fact in played(number, WRONG))
    more = tuple(fact for number in (4, 5, 6) for fact in played(number, WRONG))
    assert next_step(searching(*failed)) == RaceNumbers(order=O2, incumbent=0)
    assert isinstance(next_step(searching(*failed, race(), *more[:6])), OpenRound)
    assert isinstance(next_step(searching(*failed, race(), *more)), EndSearch)


def test_what_a_person_brought_comes_first() -> None:
    asked = TryRequested(commit=COMMIT, actor=MIRA)
    assert isinstance(next_step(searching(asked)), OpenRound) and not has_race_ahead(searching(asked))
    one = variant(1, references=(COMMIT,), technique=TRY_TECHNIQUE)
    opened = searching(asked, RoundOpened(order=O2, variant=one))
    assert isinstance(next_step(opened), MeasureVariant)


@pytest.mark.parametrize(
    ("before", "fact", "why"),
    [
        ((), race(of=1), "v1 is not the incumbent"),
        ((race(),), race(), "no race of v0 was asked for"),
        ((race(), *played(1, ACCEPTED)), race(of=0), "v0 is not the incumbent"),
        ((race(), *played(1, ACCEPTED)[:1]), race(), "no race of v0 was asked for"),
    ],
)
def test_a_race_that_nobody_asked_for_is_ignored(before: tuple[Fact, ...], fact: NumbersRaced, why: str) -> None:
    campaign = searching(*before)
    after, _ = advance(campaign, fact)
    assert [one.why for one in after.ignored] == [why]
    assert after.races == campaign.races


def test_a_race_during_a_round_is_ignored() -> None:
    """Asked for by nobody else: the round was opened by a person's idea before any race."""
    asked = TryRequested(commit=COMMIT, actor=MIRA)
    one = variant(1, references=(COMMIT,), technique=TRY_TECHNIQUE)
    after, _ = advance(searching(asked, RoundOpened(order=O2, variant=one)), race())
    assert [found.why for found in after.ignored] == ["the round before has no verdict yet"]


def test_the_machine_was_used_while_it_ran() -> None:
    assert gpu_seconds(searching(race(seconds=20.0))) == gpu_seconds(searching()) + 20.0
    assert _told(race(seconds=20.0)) == 20.0
