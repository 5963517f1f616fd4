"""A matrix that says of each place what its row and column say is made where it is read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import drop_zero_fill, mask_where_read
from tests.engine.library import changes, interpret
from tests.engine.windows import PLAYED, SETTINGS, TEXT


def made_there(text: str) -> str | None:
    found = mask_where_read.rewrite(text)
    return found.text if found is not None else None


def test_the_lines_of_the_mask_stand_where_it_was_loaded() -> None:
    found = mask_where_read.rewrite(TEXT)
    assert found is not None and found.kernels == ("_scores_kernel",)
    assert "_near_kernel fills a matrix" in found.why
    gone, new = changes(TEXT, found.text)
    assert [line.strip() for line in new] == [
        "# What _near_kernel says of a place: nobody fills near_ptr and reads it.",
        "first = tl.maximum(0, rows[:, None] - reach)",
        "counts = (cols[None, :] >= first) & (cols[None, :] <= rows[:, None] + reach)",
        "if every > 1:",
        "apart = (cols[None, :] - rows[:, None]) % every",
        "counts = counts & (apart == 0)",
        "ones = tl.where(counts, 1.0, 0.0)",
        "near = tl.where(valid, ones, 0.0)",
        "_, steps = calculate_settings(size)",
    ]
    assert [line.strip() for line in gone if line.strip()] == [
        "near_ptr,",
        "places = near_ptr + rows[:, None] * size + cols[None, :]",
        "near = tl.load(places, mask=valid, other=0.0)",
        "near = torch.zeros(size, size, device=q.device, dtype=torch.float32)",
        "BLOCK, steps = calculate_settings(size)",
        "grid = (size,)",
        "_near_kernel[grid](near, size, reach, every, BLOCK)",
        "near,",
    ]
    ast.parse(found.text)


def test_the_scores_are_the_same(tmp_path: Path) -> None:
    after = made_there(TEXT)
    assert after is not None
    interpret(tmp_path, PLAYED, before=TEXT, after=after, settings=SETTINGS)


def test_it_is_made_there_once() -> None:
    after = made_there(TEXT)
    assert after is not None and made_there(after) is None


def test_zeros_that_were_dropped_go_with_the_matrix() -> None:
    dropped = drop_zero_fill.rewrite(TEXT)
    assert dropped is not None and "# The kernel writes every element" in dropped.text
    assert made_there(dropped.text) == made_there(TEXT)


def test_a_reader_that_others_import_keeps_its_parameters() -> None:
    assert mask_where_read.rewrite(TEXT, ("_scores_kernel",)) is None
    assert mask_where_read.rewrite(TEXT, ("_near_kernel",)) is not None


def test_what_served_for_more_than_the_matrix_stays() -> None:
    after = made_there(TEXT.replace("tiles = triton", "_, size = 0, size\n    tiles = triton"))
    assert after is None  # it is another size at the second launch
    after = made_there(TEXT.replace("tiles = triton", "_ = grid[0]\n    tiles = triton"))
    assert after is not None and "grid = (size,)" in after and "BLOCK, steps = calculate_settings(size)" in after


MATRIX = "near = torch.zeros(size, size, device=q.device, dtype=torch.float32)"
LAUNCH = "_near_kernel[grid](near, size, reach, every, BLOCK)"
LOAD = "near = tl.load(places, mask=valid, other=0.0)"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("    return out\n", "    return out, near\n", "somebody else wants the matrix"),
        (MATRIX, f"{MATRIX}\n    kept = near", "somebody else wants the matrix"),
        (MATRIX, MATRIX.replace("size, size", "size, width"), "it is not as wide as it is long"),
        (MATRIX, MATRIX.replace("float32", "float16"), "it is of another type"),
        (MATRIX, f"{MATRIX}  # all of them", "an author said something of it"),
        ("grid = (size,)", "grid = (size - 1,)", "a row has no program"),
        (LAUNCH, LAUNCH.replace("BLOCK)", "16)"), "a row is wider than the block"),
        (LAUNCH, LAUNCH.replace("reach,", "reach + 1,"), "the reader is given another number"),
        (LAUNCH, f"{LAUNCH}\n    reach = reach + 1", "a number is another one at the reader's launch"),
        (LAUNCH, f"if reach > 1:\n        {LAUNCH}", "it is not always filled"),
        (LAUNCH, f"{LAUNCH}\n    {LAUNCH}", "it is filled twice"),
        ("        reach,\n", "        every,\n", "the reader is given another number"),
        ("    return out\n", "    return out\n\n\nALL = [_scores_kernel]\n", "others know the reader"),
        ("ones = tl.where(counts, 1.0, 0.0)", "ones = tl.where(counts, 1.0, 0.5)", "it is more than a mask"),
        (
            "    inside = others",
            "    seen = tl.load(near_ptr)\n    inside = others",
            "the matrix is read as it is filled",
        ),
        ("    place = tl.program_id(0)", "    size = tl.program_id(0)", "a parameter's name stands for the row"),
        ("    if every > 1:", "    if place > 1:", "a branch is one of the row's"),
        ("place * size + others, ones", "place + others * size, ones", "it is filled the other way round"),
        ("mask=inside)", "mask=counts)", "not all of it is filled"),
        (LOAD, "near = tl.load(places)", "nobody says what lies outside"),
        (LOAD, "near = tl.load(places, mask=cols[None, :] < size, other=0.0)", "the mask is smaller than the tile"),
        (
            "rows[:, None] * size + cols[None, :]\n    valid",
            "cols[None, :] * size + rows[:, None]\n    valid",
            "turned",
        ),
        ("    acc = acc * scale\n", "    acc = acc * scale\n    first = 0\n", "a name is taken"),
        ("    places = near_ptr", "    # Where it lies.\n    places = near_ptr", "an author said something of it"),
        (
            "    reach: tl.constexpr,\n    every: tl.constexpr,\n    BLOCK_M",
            "    reach,\n    every: tl.constexpr,\n    BLOCK_M",
            "no constant",
        ),
        ("(others <= place + reach)", "((others - place).abs() <= reach)", "a value has words of its own"),
        ("(others <= place + reach)", "(others <= place + REACH)", "a name is one of the module"),
        ("(others <= place + reach)", "(others <= place + reach + tl.program_id(1))", "it asks for another program"),
        ("(others <= place + reach)", "((others <= place) or (place < 1))", "words for one number are none for many"),
        ("tl.maximum(0, place - reach)", "maximum(0, place - reach)", "a function may be anybody's"),
        (
            "    cols = tl.program_id(1) * BLOCK_M + ",
            "    cols = tl.program_id(1) * BLOCK_M - 3 + ",
            "places begin elsewhere",
        ),
        (
            "    rows = tl.program_id(0) * BLOCK_M",
            "    rows = tl.program_id(0).to(tl.int64) * BLOCK_M",
            "places of 64 bits",
        ),
        ("& (cols[None, :] < size)\n    near", "& (cols[None, :] < size + 1)\n    near", "it is read behind its end"),
        (LAUNCH, f"{LAUNCH}; q = q * 2.0", "something else stands in the line"),
        (LAUNCH, f"done = {LAUNCH}", "somebody keeps what the launch returns"),
        (LAUNCH, LAUNCH.replace("BLOCK)", "BLOCK, num_warps=(warps := 4))"), "a name is made in the launch"),
        ("calculate_settings(size)", "some(size)", "a block may be less than a row"),
        (
            "grid = (size,)",
            "match q:\n        case every:\n            pass\n    grid = (size,)",
            "a name gets a value unseen",
        ),
        ("    return out\n", "    return out\n\n\nALL = [_near_kernel]\n", "others know the kernel"),
        ("        near,\n", "        # Which are near.\n        near,\n", "an author said something of it"),
        ("from settings import calculate_settings", "calculate_settings = len", "a block may be less than a row"),
        ("    grid = (size,)", "    BLOCK //= 2\n    grid = (size,)", "a block is half a row"),
        ("    grid = (size,)", "    BLOCK: int = 16\n    grid = (size,)", "a block is less than a row"),
        ("    grid = (size,)", "    grid = (size,)\n    grid: tuple = (size // 2,)", "a row has no program"),
        ("    grid = (size,)", "    grid = (size,)\n    grid = (1,); more = 1", "a row has no program"),
        ("    places = near_ptr + rows", "    places, more = near_ptr, 1\n    places += rows", "made of several"),
        (LOAD, LOAD.replace("near =", "near, more ="), "it is read into two names"),
        (LOAD, "near = tl.load(places, None, mask=valid, other=0.0)", "it is read otherwise"),
        ("places = near_ptr + ", "places = near_ptr - 1 + ", "a place is another one"),
        ("scale,\n    reach: tl.constexpr", "scale,\n    reach: tl.int8", "a number is of another type"),
        ("    return out\n", "    return locals()\n", "somebody may ask for the matrix"),
    ],
)
def test_what_is_not_understood_stays(before: str, after: str, why: str) -> None:
    assert TEXT.count(before) >= 1, before
    assert made_there(TEXT.replace(before, after)) is None, why
