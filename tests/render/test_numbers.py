"""Figures: unit, sign, and the word for what was not timed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.model.measurement import Evidence
from bot.model.verdict import Score
from bot.render import numbers


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0.5, "0.500 us"),
        (2.611, "2.61 us"),
        (9.994, "9.99 us"),
        (9.996, "10.0 us"),
        (99.96, "100 us"),
        (999.4, "999 us"),
        (999.5, "1.00 ms"),
        (1000, "1.00 ms"),
        (999_499, "999 ms"),
        (999_500, "1.00 s"),
        (None, "unknown"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
)
def test_duration(us: float | None, shown: str) -> None:
    assert numbers.duration(us) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1.00x"),
        (1.0004, "1.000x"),
        (0.9996, "1.000x"),
        (0.95, "0.950x"),
        (0.9501, "0.950x"),
        (0.9, "0.90x"),
        (1.0999, "1.100x"),
        (1.1, "1.10x"),
        (1.424, "1.42x"),
        (9.99, "9.99x"),
        (10, "10.0x"),
        (12.34, "12.3x"),
        (100, "100x"),
        (None, "unknown"),
        (math.nan, "unknown"),
    ],
)
def test_ratio(value: float | None, shown: str) -> None:
    assert numbers.ratio(value) == shown


@pytest.mark.parametrize(
    ("value", "shown", "signed"),
    [
        (0.3, "0.3 %", "+0.3 %"),
        (-0.04, "0.0 %", "0.0 %"),
        (9.94, "9.9 %", "+9.9 %"),
        (10, "10 %", "+10.0 %"),
        (94.2, "94 %", "+94.2 %"),
        (-5, "-5.0 %", "-5.0 %"),
        (None, "unknown", "unknown"),
    ],
)
def test_percent(value: float | None, shown: str, signed: str) -> None:
    assert numbers.percent(value) == shown
    assert numbers.percent(value, signed=True) == signed


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**20, "1.0 MiB"), (3 * 2**30, "3.0 GiB"), (None, "unknown")],
)
def test_size(count: int | None, shown: str) -> None:
    assert numbers.size(count) == shown


def test_small_words() -> None:
    assert numbers.many(1, "case") == "1 case"
    assert numbers.many(2, "case") == "2 cases"
    assert numbers.many(2, "case", "of them") == "2 of them"
    assert numbers.seconds(59.94) == "59.9 s"
    assert numbers.seconds(125) == "2 min 5 s"
    assert numbers.change(100, 105) == "+5.0 %"
    assert numbers.change(0, 5) == "unknown"


def score(
    value: float, low: float | None = None, high: float | None = None, evidence: Evidence = Evidence.MEASURED
) -> Score:
    return Score(evidence=evidence, value=value, low=low, high=high)


def test_a_modelled_score_says_so() -> None:
    assert numbers.score(score(1.42, evidence=Evidence.STATIC)) == "1.42x (estimated)"
    assert numbers.score(score(1.42, 1.4, 1.44, Evidence.STATIC), 1.1) == "1.42x (estimated)"


def test_a_measured_score_shows_its_interval_and_the_noise() -> None:
    assert numbers.score(score(1.42, 1.38, 1.46)) == "1.42x [1.38x, 1.46x]"
    assert numbers.score(score(1.42, 1.38, 1.46), 1.1) == "1.42x [1.38x, 1.46x], noise floor ±1.1 %"
    # A score of which half is memory: the speed's own interval is what it follows from.
    mixed = score(1.2, 1.1, 1.3).model_copy(update={"speed": 1.8, "memory": 0.8})
    assert numbers.speed_alone(mixed) == "1.80x [1.51x, 2.11x]"
    assert numbers.speed_alone(score(0.9, 0.9, 0.9).model_copy(update={"speed": 1.3})) == "1.30x (no interval recorded)"
    assert numbers.score(score(1.42)) == "1.42x (no interval recorded)"
    assert numbers.score(None) == "not scored"


def test_speed_is_told_apart_from_a_score_that_weighs_memory() -> None:
    balanced = score(1.31, evidence=Evidence.STATIC).model_copy(update={"speed": 1.42, "memory": 1.2})
    assert numbers.score(balanced) == "1.42x (estimated), with 17 % less memory"
    assert numbers.score(balanced.model_copy(update={"memory": 0.8})) == "1.42x (estimated), with 25 % more memory"


@pytest.mark.parametrize(
    ("memory", "told"), [(1.0049, False), (0.9951, False), (1.0051, True), (0.9949, True), (None, False)]
)
def test_memory_is_told_when_it_changed(memory: float | None, told: bool) -> None:
    assert ("memory" in numbers.score(score(1.42, 1.4, 1.44).model_copy(update={"memory": memory}))) is told


@pytest.mark.parametrize(
    ("found", "noise"),
    [(score(1.01, 0.999, 1.02), None), (score(1.01, 1.0, 1.02), None), (score(1.01, 1.005, 1.015), 1.0)],
)
def test_what_noise_could_make_is_no_change(found: Score, noise: float | None) -> None:
    assert numbers.score(found, noise).startswith("no significant change [")


def test_just_above_the_noise_is_a_change() -> None:
    assert numbers.score(score(1.0101, 1.001, 1.02), 1.0).startswith("1.010x [")


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_every_duration_has_three_figures_and_a_unit(us: float) -> None:
    figure, unit = numbers.duration(us).split()
    factor = {"us": 1, "ms": 1e3, "s": 1e6}[unit]
    assert float(figure) * factor == pytest.approx(us, rel=6e-3)
    assert "e" not in figure
