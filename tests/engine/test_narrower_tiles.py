"""Tiles become narrower where a thread of one holds too much."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine import fitting
from bot.engine.transforms import narrower_tiles
from tests.analysis import made
from tests.engine.library import changes, interpret, sample

TILES = '''"""An op in the shape of Liger's mhc_post_res: a tile of tokens and columns a program."""

import torch
import triton
import triton.language as tl


def meta(width, block_n, block_c):
    return (4 if block_n is None else block_n), (128 if block_c is None else block_c)


@triton.jit
def _scale(x_ptr, w_ptr, y_ptr, sum_ptr, N, C, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr):
    pid_n = tl.program_id(0)
    pid_c = tl.program_id(1)
    rows = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = pid_c * BLOCK_C + tl.arange(0, BLOCK_C)

    mask = (rows[:, None] < N) & (cols[None, :] < C)
    x = tl.load(x_ptr + rows[:, None] * C + cols[None, :], mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=cols < C, other=0.0)
    tl.store(y_ptr + rows[:, None] * C + cols[None, :], x * w[None, :], mask=mask)
    tl.atomic_add(sum_ptr + rows, tl.sum(x, axis=1), mask=rows < N)


def run(x, w, block_n=None, block_c=None):
    N, C = x.shape
    y, sums = torch.empty_like(x), torch.zeros(N)

    # by the width
    block_n, block_c = meta(C, block_n, block_c)
    grid = (triton.cdiv(N, block_n), triton.cdiv(C, block_c))
    _scale[grid](x, w, y, sums, N, C, BLOCK_N=block_n, BLOCK_C=block_c, num_warps=4)
    return y, sums
'''


SQUARES = '''"""An op in the shape of Liger's multi_token_attention: a square is as wide as a row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mask(x_ptr, y_ptr, stride, L, VALUE: tl.constexpr, BLOCK: tl.constexpr, num_warps: tl.constexpr):
    row_block = tl.program_id(0)
    col_block = tl.program_id(1)
    batch = tl.program_id(2)
    rows = row_block * BLOCK + tl.arange(0, BLOCK)
    cols = col_block * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < L) & (cols[None, :] < L)
    at = batch * stride + rows[:, None] * L + cols[None, :]
    x = tl.load(x_ptr + at, mask=inside & (cols[None, :] <= rows[:, None]), other=VALUE)
    tl.store(y_ptr + at, x, mask=inside)


def run(x, least):
    N, L, _ = x.shape
    y = torch.empty_like(x)
    BLOCK, num_warps = triton.next_power_of_2(L), 4
    grid = (triton.cdiv(L, BLOCK), triton.cdiv(L, BLOCK), N)
    _mask[grid](x, y, x.stride(0), L, VALUE=-9.0, BLOCK=BLOCK, num_warps=num_warps)
    return y


def once_more(x, least):
    N, L, _ = x.shape
    y = torch.empty_like(x)
    BLOCK, num_warps = triton.next_power_of_2(L), 8
    grid = (triton.cdiv(L, BLOCK), triton.cdiv(L, BLOCK), N)
    _mask[grid](x, y, x.stride(0), L, VALUE=0.0, BLOCK=BLOCK, num_warps=num_warps)
    return y
'''
NARROWED = [f"    # {narrower_tiles.WHY}", "    BLOCK = min(BLOCK, 64)"]


def narrower(text: str) -> str | None:
    found = narrower_tiles.rewrite(text)
    return found.text if found is not None else None


def test_the_last_axis_that_counts_tiles_has_narrower_ones_unless_a_caller_said_how_wide() -> None:
    after = narrower(TILES)
    assert after is not None
    ast.parse(after)
    assert changes(TILES, after) == (
        [],
        [
            "    given_block_c = block_c",
            f"    # {narrower_tiles.WHY}",
            "    block_c = min(block_c, 64) if given_block_c is None and C % 16 == 0 else block_c",
        ],
    )
    lines = after.splitlines()
    assert lines[lines.index("    given_block_c = block_c") - 1] == "    # by the width"


def test_a_width_that_no_caller_says_is_only_narrowed() -> None:
    alone = TILES.replace(", block_c=None):\n    N, C", "):\n    N, C").replace(
        "meta(C, block_n, block_c)", "meta(C, block_n, None)"
    )
    after = narrower(alone)
    assert after is not None
    line = "    block_c = min(block_c, 64) if C % 16 == 0 else block_c"
    assert changes(alone, after) == ([], [f"    # {narrower_tiles.WHY}", line])


def test_a_width_that_has_no_name_is_narrowed_for_all_rows() -> None:
    after = narrower(TILES.replace("triton.cdiv(C, block_c)", "triton.cdiv(x.shape[1], block_c)"))
    assert after is not None and "    block_c = min(block_c, 64) if given_block_c is None else block_c\n" in after


def test_a_width_that_is_said_below_leaves_its_tiles_as_they_are() -> None:
    """Asked for above, it would be a name without a value, or another one than the grid's."""
    size = "    N, C = x.shape\n"
    own = TILES.replace("block_n, block_c = meta(C, block_n, block_c)", "block_n = 4\n    block_c = 256")
    own = own.replace("(x, w, block_n=None, block_c=None)", "(x, w)")
    assert narrower(own.replace(size, "").replace("    grid =", f"{size}    grid =")) is None
    assert narrower(own.replace("    grid =", "    C = C * 2\n    grid =")) is None
    assert narrower(own.replace(size, "").replace("    block_c = 256\n", f"{size}    block_c = 256\n")) is not None
    assert narrower(own.replace(size, "").replace("(x, w)", "(x, w, N, C)")) is not None


def test_a_width_in_a_line_of_its_own_will_do() -> None:
    plain = TILES.replace("block_n, block_c = meta(C, block_n, block_c)", "block_n = 4\n    block_c = 256")
    plain = plain.replace("(x, w, block_n=None, block_c=None)", "(x, w)")
    after = narrower(plain)
    assert (
        after is not None
        and "    block_c = 256\n    # " in after
        and "    block_c = min(block_c, 64) if C % 16 == 0" in after
    )


def test_a_square_becomes_narrower_on_both_sides_wherever_it_is_launched() -> None:
    after = narrower(SQUARES)
    assert after is not None
    assert changes(SQUARES, after) == ([], [*NARROWED, *NARROWED])


RUN_SQUARES = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, side in ((2, 128), (1, 64), (3, 65), (1, 200), (2, 31)):
    x = torch.randn(n, side, side)
    for name in ("run", "once_more"):
        expected, found = (getattr(m, name)(x, 0) for m in (before, after))
        assert torch.equal(expected, found), (name, n, side)
        assert torch.equal(found.tril(), x.tril()), "what is not masked is as it was"
"""

RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, c in ((5, 128), (4, 200), (1, 64), (9, 63), (3, 257)):
    x, w = torch.randint(-8, 8, (n, c)).float(), torch.randn(c)
    for blocks in ((None, None), (2, None), (None, 32), (8, 128)):
        expected, found = (m.run(x, w, *blocks) for m in (before, after))
        assert all(torch.equal(one, other) for one, other in zip(expected, found)), (n, c, blocks)
        assert torch.equal(found[1], x.sum(1)), "every tile adds its part once"
"""


@pytest.mark.parametrize(("text", "script"), [(TILES, RUN), (SQUARES, RUN_SQUARES)], ids=["tiles", "squares"])
def test_the_result_is_the_one_of_before(tmp_path: Path, text: str, script: str) -> None:
    after = narrower(text)
    assert after is not None
    interpret(tmp_path, script, before=text, after=after)


@pytest.mark.parametrize("text", [TILES, SQUARES], ids=["tiles", "squares"])
def test_it_is_done_once(text: str) -> None:
    after = narrower(text)
    assert after is not None and narrower(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy", "layer_norm", "jsd"])
def test_kernels_of_rows_have_no_tiles_to_narrow(kernel: str) -> None:
    assert not narrower_tiles.applies(sample(kernel))


LINE = "    block_n, block_c = meta(C, block_n, block_c)\n"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a share of a row", "x * w[None, :]", "x / tl.sum(x, axis=1)[:, None]"),
        ("the most of a row", "x * w[None, :]", "x - tl.max(x, axis=1)[:, None]"),
        ("sums along a row", "x * w[None, :]", "tl.cumsum(x, axis=1)"),
        ("a sum that is stored", "tl.atomic_add(sum_ptr + rows", "tl.store(sum_ptr + rows"),
        ("a sum over the first axis", "x * w[None, :]", "x + tl.sum(w, axis=0)"),
        ("a number that is added once a tile", "tl.sum(x, axis=1), ", "1.0, "),
        ("a width of a kernel's own", "    mask = ", "    half = BLOCK_C // 2\n    mask = "),
        ("a range that begins elsewhere", "tl.arange(0, BLOCK_C)", "tl.arange(1, BLOCK_C)"),
        ("a tile that is asked for by its number", "sum_ptr + rows, ", "sum_ptr + rows + pid_c * N, "),
        ("the number of programs", "    mask = ", "    last = tl.num_programs(1)\n    mask = "),
        ("another axis", "pid_c = tl.program_id(1)", "pid_c = tl.program_id(0)"),
        ("an axis asked for twice", "    mask = ", "    other = tl.program_id(1)\n    mask = "),
        ("a tile that moves on", "    rows = ", "    pid_c = pid_c + 1\n    rows = "),
        ("a width asked for elsewhere", "    return y, sums", "    return y, sums, block_c"),
        ("a width that changes", "    grid = ", "    block_c = 2 * block_c\n    grid = "),
        ("a grid that counts nothing", "triton.cdiv(C, block_c))", "8)"),
        ("a grid that counts otherwise", "(triton.cdiv(N, block_n), triton.cdiv(C, block_c))", "lambda m: (1, 1)"),
        ("a width that is handed over otherwise", "BLOCK_C=block_c", "BLOCK_C=block_c * 1"),
        ("a caller who always says it", "block_c=None):\n    N, C", "block_c=128):\n    N, C"),
        ("a name that is taken", LINE, "    given_block_c = 1\n" + LINE),
        ("no line says it", LINE, ""),
    ],
)
def test_tiles_stay_as_they_are_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert TILES.count(before) == 1
    text = TILES.replace(before, after)
    if "counts nothing" in why:
        text = text.replace("triton.cdiv(N, block_n)", "N")
    assert narrower(text) is None, why


ROWS, COLS = "rows = row_block * BLOCK", "cols = col_block * BLOCK"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        (
            "one block of another size",
            "(triton.cdiv(L, BLOCK), triton.cdiv(L, BLOCK), N)",
            "(triton.cdiv(L, BLOCK), 1, N)",
        ),
        ("a square that is asked for by its number", "    x = tl.load", "    at += row_block\n    x = tl.load"),
        ("both sides by one axis", "col_block = tl.program_id(1)", "col_block = tl.program_id(0)"),
        ("an axis of something else", "col_block = tl.program_id(1)", "col_block = tl.program_id(2)"),
        ("a number of no axis", "col_block = tl.program_id(1)", "col_block = 0"),
        ("rows that are not counted", ROWS, "rows = 0 * BLOCK"),
        ("columns that are not counted", COLS, "cols = 0 * BLOCK"),
        ("a size that is asked for elsewhere", "return y", "return y, BLOCK"),
        ("a sum of a row", "    x = tl.load", "    at += tl.sum(rows, axis=0)\n    x = tl.load"),
    ],
)
def test_squares_stay_as_they_are_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SQUARES
    assert narrower(SQUARES.replace(before, after)) is None, why


def test_a_sum_with_a_name_may_be_added_and_nothing_else() -> None:
    named = TILES.replace("    tl.atomic_add(", "    part = tl.sum(x, axis=1)\n    tl.atomic_add(").replace(
        "rows, tl.sum(x, axis=1),", "rows, part,"
    )
    assert narrower(named) is not None
    assert narrower(named.replace("x * w[None, :]", "x * part[:, None]")) is None


def test_a_tile_that_is_a_group_of_numbers_stays_as_wide_as_it_is() -> None:
    groups = """import torch
import triton
import triton.language as tl


@triton.jit
def _scaled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, x / tl.sum(x, axis=0), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    group = 128
    grid = (triton.cdiv(x.numel(), group),)
    _scaled[grid](x, y, x.numel(), BLOCK=group)
    return y
"""
    assert narrower(groups) is None and narrower(groups.replace("x / tl.sum(x, axis=0)", "2 * x")) is not None


@pytest.mark.parametrize(("width", "is_narrowed"), [(64, False), (16, False), (65, True), (256, True)])
def test_a_width_that_is_no_more_than_that_is_left_alone(width: int, is_narrowed: bool) -> None:
    said = TILES.replace("block_n, block_c = meta(C, block_n, block_c)", f"block_c = {width}")
    said = said.replace("block_n=None, block_c=None", "block_n")
    assert (narrower(said) is not None) == is_narrowed


def test_launches_that_count_different_tiles_are_left_alone() -> None:
    first, second = SQUARES.split("def once_more")
    assert narrower(first + "def once_more" + second.replace(", triton.cdiv(L, BLOCK), N)", ", 1, N)")) is None


def test_a_kernel_that_nobody_launches_is_left_alone() -> None:
    assert narrower(SQUARES.split("def run")[0]) is None


def test_a_kernel_that_is_launched_twice() -> None:
    launch = "    _scale[grid](x, w, y, sums, N, C, BLOCK_N=block_n, BLOCK_C=block_c, num_warps=4)\n"
    assert narrower(TILES.replace(launch, 2 * launch)) is None


@pytest.mark.parametrize(
    ("spills", "grid", "is_it"),
    [(8, (4, 2, 1), True), (0, (4, 2, 1), False), (8, (4, 1, 1), False), (8, (4, 1, 2), True)],
)
def test_it_is_about_threads_that_hold_too_much_of_one_tile_among_several(
    spills: int, grid: tuple[int, int, int], is_it: bool
) -> None:
    launch = made.launch("_scale", grid=grid, block=128, warps=4, resources=made.resources(spill_bytes=spills))
    facts = made.measurement(made.result(made.case("forward"), launch))
    assert fitting.is_about("narrower_tiles", ("_scale",), facts) is is_it
