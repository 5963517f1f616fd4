"""Two texts that were made of one become one again, where they changed other lines."""

from __future__ import annotations

import pytest

from bot.engine.gates import functions
from bot.engine.launch_numbers import Numbers, write
from bot.engine.merging import merged
from tests.engine.library import sample

FIRST = "a = 1\nb = 2\nc = 3\nd = 4\n"


def test_changes_of_other_lines_are_both_made() -> None:
    one, other = FIRST.replace("a = 1", "a = 10"), FIRST.replace("c = 3", "c = 30\n# and a word\nc += 1")
    both = "a = 10\nb = 2\nc = 30\n# and a word\nc += 1\nd = 4\n"
    assert merged(FIRST, one, other) == merged(FIRST, other, one) == both


@pytest.mark.parametrize(
    ("why", "one", "other"),
    [
        ("one line in two ways", FIRST.replace("b = 2", "b = 20"), FIRST.replace("b = 2", "b = 200")),
        ("lines side by side", FIRST.replace("b = 2", "b = 20"), FIRST.replace("c = 3", "c = 30")),
        ("a line that goes and is changed", FIRST.replace("b = 2\n", ""), FIRST.replace("b = 2", "b = 20")),
        ("new lines at one place", FIRST.replace("c = 3", "x = 1\nc = 3"), FIRST.replace("c = 3", "y = 1\nc = 3")),
        ("no program", FIRST.replace("a = 1", "a = ("), FIRST.replace("c = 3", "c = 30")),
    ],
)  # fmt: skip
def test_nothing_is_made_of_what_may_not_go_together(why: str, one: str, other: str) -> None:
    assert merged(FIRST, one, other) is merged(FIRST, other, one) is None, why


def test_a_line_between_two_changes_is_enough() -> None:
    assert merged(FIRST, FIRST.replace("a = 1", "a = 10"), FIRST.replace("c = 3", "c = 30")) is not None


def test_who_did_the_same_did_not_do_it_twice() -> None:
    helper = "def helper():\n    pass\n\n\n" + FIRST
    assert merged(FIRST, helper, helper.replace("d = 4", "d = 40")) is None
    assert merged(FIRST, FIRST, helper) == helper


def test_a_function_that_comes_in_at_two_places_is_not_defined_twice() -> None:
    helper = "def helper():\n    pass\n"
    one, other = f"{helper}{FIRST}", FIRST.replace("d = 4\n", f"d = 4\n{helper}")
    assert merged(FIRST, one, other) is None
    assert merged(FIRST, one, other.replace("helper", "another")) is not None


def test_a_last_line_without_an_end_stays_so() -> None:
    text = FIRST.removesuffix("\n")
    assert merged(text, text.replace("a = 1", "a = 10"), text) == text.replace("a = 1", "a = 10")


def test_a_gate_that_both_bring_along_is_there_once() -> None:
    """Two rules of two kernels, each for one architecture, were never together: both define what they ask."""
    first = sample("rms_norm")
    one, other = (
        write(first, Numbers(f"_rms_norm_{way}_kernel", warps="8", why="8 warps (measured on sm_90).", arch="sm_90"))
        for way in ("forward", "backward")
    )
    both = merged(first, one, other)
    assert both is not None and both.count("def _is_sm_90(device):") == 1 and both.count("if _is_sm_90(") == 2
    assert merged(first, other, one) == both
    assert merged(first, *(text.replace("_is_sm_90", "_helper") for text in (one, other))) is None
    assert merged(first, one, other.replace("== (9, 0)", "== (9, 1)")) is None


def test_a_gate_is_the_same_one_on_either_side_of_the_blank_lines_around_it() -> None:
    """Of equal lines around what was put in between, the longer run of what stayed takes both."""
    head = "import functools\n\nimport torch\n" + "".join(f"a{n} = {n}\n" for n in range(9))
    tail = "".join(f"b{n} = {n}\n" for n in range(40))
    gate = f"{functions('sm_90').strip()}\n"
    first, both = f"{head}\n\n{tail}", f"{head}\n\n{gate}\n\n{tail}"
    one, other = both.replace("b2 = 2\n", "b2 = 20\n"), both.replace("b39 = 39\n", "b39 = 0\n")
    expected = other.replace("b2 = 2\n", "b2 = 20\n")
    assert merged(first, one, other) == merged(first, other, one) == expected


def test_what_a_gate_came_in_place_of_is_gone() -> None:
    one = FIRST.replace("b = 2", "import functools")
    both = one.replace("d = 4", "d = 40")
    assert merged(FIRST, one, both) == both
