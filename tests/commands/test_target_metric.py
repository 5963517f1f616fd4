"""A goal with a number becomes a type, or an answer that shows how to write one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.commands.target_metric import FORMS, parse
from bot.model.commands import CommandError, TargetMetric
from bot.model.reasons import ReasonCode


def understood(text: str) -> TargetMetric:
    found = parse(text)
    assert isinstance(found, TargetMetric), found
    return found


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_is_shown_is_understood(form: str) -> None:
    understood(form)


def test_a_time_at_a_shape() -> None:
    target = understood("forward under 0.3ms at hidden_size=4096")
    assert (target.direction, target.below_us, target.speedup) == ("forward", 300.0, None)
    assert target.where == (("hidden_size", 4096),)
    assert target.text == "forward under 0.3ms at hidden_size=4096"


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("backward < 120us", 120.0),
        ("backward <= 120 µs", 120.0),
        ("bwd ≤ 120 μs", 120.0),
        ("Backward Pass below 120US", 120.0),
        ("backward at most .12 ms", 120.0),
        ("backward less than 0.12 milliseconds", 120.0),
        ("backward faster than 120000ns", 120.0),
        ("backward within 0.00012 s", 120.0),
        ("backward under 120us.", 120.0),
        ("forward under 1000s", 1e9),
        ("forward under 0.001ns", 1e-6),
    ],
)
def test_times_as_people_write_them(text: str, us: float) -> None:
    assert understood(text).below_us == us


@pytest.mark.parametrize(
    ("text", "speedup"),
    [
        ("full 1.5x faster", 1.5),
        ("full at least 1.5x", 1.5),
        ("full >= 1.5x", 1.5),
        ("full 1.5 times faster", 1.5),
        ("full by 1.5×", 1.5),
        ("both 1.000001x", 1.000001),
        ("full 1000x", 1000.0),
    ],
)
def test_speed_ups_as_people_write_them(text: str, speedup: float) -> None:
    target = understood(text)
    assert (target.direction, target.speedup, target.below_us) == ("full", speedup, None)


def test_several_sizes_keep_the_case_of_their_names() -> None:
    where = (("T", 2048), ("hidden_size", 4096), ("V", 32))
    assert understood("forward at least 1.3x at T=2048, hidden_size 4096 and V = 32").where == where


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "fast",
        "forward",
        "forward under 0ms",
        "forward under 0.0us",
        "forward under 1001s",
        "forward under -1ms",
        "forward under 0,3ms",
        "forward under 1e3us",
        "forward under 0.3",
        "forward under 0.3 hours",
        "forward under infms",
        "forward under nanms",
        "full 1x faster",
        "full 1.0x",
        "full 0.5x",
        "full 1001x",
        "full 30% faster",
        "forward over 2ms",
        "sideways under 2ms",
        "under 2ms",
        "forward under 2ms at",
        "forward under 2ms at hidden_size",
        "forward under 2ms at hidden_size=0",
        "forward under 2ms at hidden_size=big",
        "forward under 2ms at hidden_size=4096, hidden_size=8192",
        "forward under 2ms at " + ", ".join(f"n{i}=1" for i in range(7)),
        "forward under 2ms at T=1 at T=1",
        "forward under ２ms",
        "forward under 2ms " + "x" * 300,
    ],
)
def test_anything_else_is_answered_with_the_forms(text: str) -> None:
    error = parse(text)
    assert isinstance(error, CommandError)
    assert error.code is ReasonCode.TARGET_NOT_UNDERSTOOD
    assert all(form in error.hint for form in FORMS)


def test_a_target_without_its_pass_is_completed_for_pasting() -> None:
    error = parse("1.5x faster")
    assert isinstance(error, CommandError)
    assert error.paste == "full 1.5x faster"


def test_no_number_is_offered_that_nobody_asked_for() -> None:
    error = parse("as fast as possible")
    assert isinstance(error, CommandError)
    assert error.paste == ""


WORDS = st.sampled_from(
    [
        "forward",
        "backward",
        "full",
        "under",
        "<",
        "at",
        "least",
        "0.3",
        "1.5",
        "ms",
        "us",
        "x",
        "faster",
        "T=1",
        ",",
        "pass",
    ]
)


@given(st.text(max_size=60) | st.lists(WORDS, max_size=8).map(" ".join))
def test_a_target_is_read_or_refused_and_its_text_says_the_same_again(text: str) -> None:
    target = parse(text)
    if isinstance(target, TargetMetric):
        assert (target.below_us is None) != (target.speedup is None)
        assert target.text.isascii()
        assert understood(target.text) == target
