"""How many cases the judge keeps on the GPU between their turns."""

from __future__ import annotations

import pytest

from bot.judge.layout import BANKS, MOST_RIGHT, Layout
from bot.judge.timekeeper import crowded_out

KEPT = {("a", 1): 30, ("b", 1): 30, ("c", 7): 30}


def small(nbytes: int) -> Layout:
    """One that keeps so many bytes: its inputs, and no result."""
    return Layout((), nbytes // BANKS, (), 0, 1)


@pytest.mark.parametrize(
    ("room", "leaving"),
    [
        (120, []),
        (119, [("c", 7)]),
        (90, [("c", 7)]),
        (89, [("c", 7), ("b", 1)]),
        (60, [("c", 7), ("b", 1)]),
        (59, [("c", 7), ("b", 1), ("a", 1)]),
        (1, [("c", 7), ("b", 1), ("a", 1)]),
    ],
)
def test_who_came_last_makes_room(room: float, leaving: list[tuple[str, int]]) -> None:
    assert crowded_out(KEPT, small(30), room) == leaving


def test_nobody_has_to_leave_an_empty_place() -> None:
    assert crowded_out({}, small(300), 1.0) == []


def test_truth_and_what_was_right_count() -> None:
    kept = Layout((), 512, (), 1024, 2)
    assert kept.kept_bytes == kept.shared_bytes + BANKS * 1024 * (4 + 2 * MOST_RIGHT)
