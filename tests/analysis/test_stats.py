"""A score is over every case or it is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.analysis.stats import Incomparable, geometric_mean, primary_cases, score
from bot.model.commands import Goal, Scope
from bot.model.grouping import primary_groups
from bot.model.measurement import Evidence
from tests.analysis import made

FWD, BWD, FULL = made.case("forward"), made.case("backward"), made.case("full")
WIDE = made.case("forward", cols=8192)
times = st.floats(0.001, 1e6)


@given(st.lists(times, min_size=1, max_size=8))
def test_a_geometric_mean_lies_between_its_extremes_and_turns_over(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert min(values) * 0.999999 <= mean <= max(values) * 1.000001
    assert geometric_mean([1 / value for value in values]) == pytest.approx(1 / mean)


def test_the_source_s_own_example_of_a_mean() -> None:
    # P-47: 192.000, 182.52 and 174.000 are 182.69 together.
    assert geometric_mean([192.000, 182.52, 174.000]) == pytest.approx(182.69, abs=0.01)


def test_weights_count() -> None:
    assert geometric_mean([4.0, 1.0], [3.0, 1.0]) == pytest.approx(4 ** (3 / 4))


@pytest.mark.parametrize("bad", [[], [0.0], [1.0, -1.0], [1.0, math.nan], [math.inf]])
def test_one_value_that_is_no_number_spoils_the_mean(bad: list[float]) -> None:
    with pytest.raises(Incomparable):
        geometric_mean(bad)


def test_weights_that_add_up_to_nothing_are_refused() -> None:
    with pytest.raises(Incomparable, match="weights"):
        geometric_mean([1.0], [0.0])


def test_a_narrow_scope_is_judged_on_its_own_pass() -> None:
    suite = made.suite(FWD, BWD, FULL)
    assert primary_cases(suite, Scope.FORWARD) == {FWD.id}
    assert primary_cases(suite, Scope.BACKWARD) == {BWD.id}


def test_the_general_scope_is_judged_on_full_where_there_is_one() -> None:
    assert primary_cases(made.suite(FWD, BWD, FULL), Scope.GENERAL) == {FULL.id}


def test_without_full_the_forward_and_backward_of_a_shape_are_one_step() -> None:
    groups = primary_groups(made.suite(FWD, BWD, WIDE), Scope.GENERAL)
    assert [[case.id for case in group.cases] for group in groups] == [[FWD.id, BWD.id], [WIDE.id]]


def test_a_step_is_the_sum_of_its_passes() -> None:
    before, after = made.measured({FWD: 100.0, BWD: 300.0}), made.measured({FWD: 50.0, BWD: 150.0})
    found = score(before, after, made.suite(FWD, BWD), Scope.GENERAL, Goal.SPEED)
    assert found.value == pytest.approx(2.0)
    # One pass cannot hide behind a small other one: 400 -> 350 is 1.14, not the mean of 2 and 1.
    uneven = score(before, made.measured({FWD: 50.0, BWD: 300.0}), made.suite(FWD, BWD), Scope.GENERAL, Goal.SPEED)
    assert uneven.value == pytest.approx(400 / 350)


def test_every_case_is_listed_with_its_own_speed_up() -> None:
    before, after = made.measured({FWD: 100.0, BWD: 300.0}), made.measured({FWD: 50.0, BWD: 300.0})
    found = score(before, after, made.suite(FWD, BWD), Scope.FORWARD, Goal.SPEED)
    assert found.value == pytest.approx(2.0)
    assert {case.case: case.speedup for case in found.cases} == {FWD.id: 2.0, BWD.id: 1.0}


@pytest.mark.parametrize(("goal", "value"), [(Goal.SPEED, 2.0), (Goal.MEMORY, 0.5), (Goal.BALANCED, 1.0)])
def test_the_goal_chooses_what_counts(goal: Goal, value: float) -> None:
    before = made.measured({FWD: 100.0}, {FWD: 1000})
    after = made.measured({FWD: 50.0}, {FWD: 2000})
    assert score(before, after, made.suite(FWD), Scope.GENERAL, goal).value == pytest.approx(value)


@pytest.mark.parametrize(("before", "after", "ratio"), [(0, 0, 1.0), (1000, 0, 1000.0), (0, 1000, 0.001)])
def test_no_memory_at_all_is_a_number_too(before: int, after: int, ratio: float) -> None:
    old, new = made.measured({FWD: 1.0}, {FWD: before}), made.measured({FWD: 1.0}, {FWD: after})
    assert score(old, new, made.suite(FWD), Scope.GENERAL, Goal.MEMORY).value == pytest.approx(ratio)


def test_a_missing_case_refuses_the_comparison() -> None:
    before, after = made.measured({FWD: 1.0, BWD: 1.0}), made.measured({FWD: 1.0})
    with pytest.raises(Incomparable, match=rf"the variant lacks {BWD.id}"):
        score(before, after, made.suite(FWD, BWD), Scope.FORWARD, Goal.SPEED)


def test_a_case_too_many_refuses_it_too() -> None:
    both, one = made.measured({FWD: 1.0, BWD: 1.0}), made.measured({FWD: 1.0})
    with pytest.raises(Incomparable, match=rf"the variant adds {BWD.id}"):
        score(one, both, made.suite(FWD), Scope.FORWARD, Goal.SPEED)


def test_a_case_reported_twice_refuses_it() -> None:
    once = made.measured({FWD: 1.0})
    twice = once.model_copy(update={"cases": once.cases * 2})
    with pytest.raises(Incomparable, match="twice"):
        score(once, twice, made.suite(FWD), Scope.FORWARD, Goal.SPEED)


def test_a_case_without_a_time_refuses_it() -> None:
    untimed = made.measurement(made.result(FWD, made.launch(resources=None)))
    with pytest.raises(Incomparable, match=f"no time for {FWD.id}"):
        score(untimed, untimed, made.suite(FWD), Scope.FORWARD, Goal.SPEED)


def test_numbers_of_two_machines_never_meet() -> None:
    compiled = made.measurement(made.result(FWD, made.launch()))
    with pytest.raises(Incomparable, match="same machine"):
        score(made.measured({FWD: 1.0}), compiled, made.suite(FWD), Scope.FORWARD, Goal.SPEED)
    elsewhere = compiled.model_copy(update={"runner": compiled.runner.model_copy(update={"arch": "sm_80"})})
    with pytest.raises(Incomparable, match="same machine"):
        score(compiled, elsewhere, made.suite(FWD), Scope.FORWARD, Goal.SPEED)


def test_a_scope_without_cases_refuses_it() -> None:
    with pytest.raises(Incomparable, match="backward"):
        score(made.measured({FWD: 1.0}), made.measured({FWD: 1.0}), made.suite(FWD), Scope.BACKWARD, Goal.SPEED)


def test_times_of_a_compiled_variant_are_computed_from_its_facts_whatever_it_claims() -> None:
    before = made.measurement(made.result(FWD, made.launch(resources=made.resources(instructions=800))))
    claimed = made.measurement(made.result(FWD, made.launch(), us=0.001))
    found = score(before, claimed, made.suite(FWD), Scope.FORWARD, Goal.SPEED)
    assert found.evidence is Evidence.STATIC
    assert 1.05 < found.value < 2
    assert found.roof_percent is not None and 60 < found.roof_percent < 90
