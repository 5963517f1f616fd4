"""How far what was counted in 32 bits reaches: no check has 2^31 elements, so the types have to tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bot.worker.footprint import Launch, open_books
from bot.worker.reach import COLUMNS, ROWS, wrapping
from tests.worker.scenes import INTERPRETED, played

SAID = "offsets into x are counted in 32 bits across its rows: from 2^31 elements on they wrap"
LAST_ROW, LAST = 7 * 16, 8 * 16 - 1
"""Of eight rows of 16."""


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return played("reached", told=INTERPRETED)


@pytest.mark.parametrize(
    ("scene", "reached"),
    [
        ("narrow", LAST_ROW),
        ("too_late", LAST_ROW),
        ("cut_off_again", LAST_ROW),
        ("unsigned", LAST_ROW),
        ("shifted", LAST),
        ("backwards", LAST_ROW),
        ("flat", LAST),
        ("row_and_column_of_a_flat_one", LAST),
        ("chosen", LAST),
        ("bounded", LAST),
        ("rows_of_a_narrow_block", LAST_ROW),
        ("looped_narrow", LAST_ROW),
        ("looped over nearly all", LAST - 1),
        ("told_by_memory", LAST_ROW),
        ("ticket", LAST_ROW),
        ("block_of_elements", LAST_ROW),
        ("block_that_jumps", LAST_ROW),
    ],
)
def test_what_32_bits_count_across_rows_is_said(seen: dict[str, Any], scene: str, reached: int) -> None:
    assert seen[scene][:2] == [reached, [SAID]]


@pytest.mark.parametrize(
    "how", ["udiv", "urem", "umulhi", "and", "xor", "ashr", "lshr", "minui", "maxsi", "maxui", "trans", "pointer"]
)
def test_nothing_that_is_done_to_it_hides_how_large_it_was(seen: dict[str, Any], how: str) -> None:
    reached, said, written = seen[how]
    assert (reached >= LAST, said, written) == (True, [SAID], 8 * 16)


@pytest.mark.parametrize(
    ("scene", "reached"),
    [
        ("widened", 0),
        ("rows_widened_one_by_one", 7),
        ("rows_of_a_block", 0),
        ("one block for all rows", 0),
        ("walked", 0),
        ("tiles_of_a_row", 8),
        ("looped", 0),
        ("looped_and_widened", 0),
        ("looped_over_all", 0),
        ("looped_to_a_constant", 0),
        ("told_by_memory_and_widened", 0),
        ("block_of_rows", 7),
        ("block_that_walks", 0),
    ],
)
def test_rows_that_64_bits_count_may_hold_places_of_32(seen: dict[str, Any], scene: str, reached: int) -> None:
    assert seen[scene] == [reached, [], 8 * 16]


def test_lanes_that_a_mask_hides_reach_nowhere(seen: dict[str, Any]) -> None:
    assert seen["masked"] == [0, [], 1]


def test_a_loop_counts_in_the_widest_type_of_its_bounds(seen: dict[str, Any]) -> None:
    """The second ends at the number of all elements, which has 64 bits where they are 2^31; the third is unsigned; no
    tensor bounds the last one."""
    assert seen["types"] == [32, 64, 32 + 1, 2]


def launched(tensor: torch.Tensor, elements: int) -> list[Launch]:
    """A launch in which a number of 32 bits reached so many elements into it."""
    books = open_books("_k", {"x": tensor})
    books.reaches(tensor.data_ptr(), elements * tensor.element_size())
    return [books]


@pytest.mark.parametrize(("elements", "said"), [(63, []), (64, [SAID]), (127, [SAID])])
def test_half_of_a_tensor_is_too_far(elements: int, said: list[str]) -> None:
    x = torch.zeros(8, 16, dtype=torch.float16)
    assert wrapping(launched(x, elements), [("x", x)]) == said


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((ROWS, COLUMNS), [SAID]),
        ((2, 2, COLUMNS), [SAID]),
        ((ROWS - 1, COLUMNS), []),
        ((ROWS, COLUMNS - 1), []),
        ((1, 1024), []),
        ((1024,), []),
        ((), []),
    ],
)
def test_a_tensor_of_few_rows_or_columns_tells_nothing(shape: tuple[int, ...], said: list[str]) -> None:
    x = torch.zeros(shape)
    assert wrapping(launched(x, max(1, x.numel() - 1)), [("x", x)]) == said


def test_the_farthest_of_all_launches_counts_under_every_name_of_the_memory() -> None:
    x = torch.zeros(8, 16)
    launches = [*launched(x, 1), *launched(x, LAST), *launched(x, 1)]
    told = wrapping(launches, [("x", x.view(2, 4, 16)), ("gradient x", x), ("y", torch.zeros(8, 16)), ("none", None)])
    assert told == [SAID, SAID.replace("into x", "into gradient x")]


def test_what_the_op_allocated_for_itself_says_nothing() -> None:
    own, x = torch.zeros(8, 16), torch.zeros(8, 16)
    assert wrapping(launched(own, LAST), [("x", x)]) == []


def test_who_comes_to_lie_where_something_else_lay_is_not_taken_for_it() -> None:
    memory = bytearray(8 * 16 * 4)
    own = torch.frombuffer(memory, dtype=torch.float32).view(8, 16)
    launches, place = launched(own, LAST), own.data_ptr()
    del own
    x = torch.frombuffer(memory, dtype=torch.float32).view(8, 16)
    assert x.data_ptr() == place
    assert wrapping(launches, [("x", x)]) == []
