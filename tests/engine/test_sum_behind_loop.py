"""A running sum of sums is kept lane by lane, and the lanes meet behind the loop."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import block_rows, sum_behind_loop
from tests.engine.library import changes, sample

ROWS = '''"""An op in the shape that dyt of Liger has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, dx_ptr, total_ptr, slope_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr, WITH: tl.constexpr = True):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    # of all rows
    total = 0.0
    slope = tl.float32(0.0)
    for row in range(pid, n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        if WITH:
            total += tl.sum(x * x, 0)
        slope += tl.sum(x)  # not of its square
        tl.store(dx_ptr + row * n_cols + cols, 2 * x, mask=mask)
    if WITH:
        tl.store(total_ptr + pid, total)
    slope = slope / n_cols
    tl.store(slope_ptr + pid, slope * slope)


def run(x, dx, total, slope):
    n_rows, n_cols = x.shape
    BLOCK_SIZE, num_warps = settings(n_cols)
    _k[(132,)](x, dx, total, slope, n_rows, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
'''
BLOCKS = ROWS.replace("for row in range(pid, n_rows, tl.num_programs(0)):", "for row in range(0, n_cols, BLOCK_SIZE):")


def behind(text: str) -> str | None:
    found = sum_behind_loop.rewrite(text)
    return found.text if found is not None else None


def test_the_beginning_the_additions_and_what_reads_them_change_and_nothing_else() -> None:
    after = behind(ROWS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(ROWS, after)
    assert gone == [
        "    total = 0.0",
        "    slope = tl.float32(0.0)",
        "            total += tl.sum(x * x, 0)",
        "        slope += tl.sum(x)  # not of its square",
        "        tl.store(total_ptr + pid, total)",
        "    slope = slope / n_cols",
    ]
    assert new == [
        f"    # {sum_behind_loop.WHY}",
        "    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
        "    slope = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
        "            total += x * x",
        "        slope += x  # not of its square",
        "        tl.store(total_ptr + pid, tl.sum(total, axis=0))",
        "    slope = tl.sum(slope, axis=0) / n_cols",
    ]


def test_it_is_done_once() -> None:
    after = behind(ROWS)
    assert after is not None and behind(after) is None


def test_a_kernel_that_tunes_itself_is_one_too() -> None:
    tuned = ROWS.replace("@triton.jit\n", '@triton.autotune(configs=[], key=["n_cols"])\n@triton.jit\n')
    assert behind(tuned) is not None


def test_a_sum_over_two_lines_keeps_its_brackets() -> None:
    text = ROWS.replace("tl.sum(x)  # not of its square", "tl.sum(\n            x\n            + x\n        )")
    after = behind(text)
    assert after is not None
    ast.parse(after)


@pytest.mark.parametrize("limit", [4096, 16384])
def test_a_loop_over_the_blocks_of_a_row_has_several_turns_where_the_host_keeps_them_small(limit: int) -> None:
    short = BLOCKS.replace("    _k[", f"    BLOCK_SIZE = min(BLOCK_SIZE, {limit})\n    _k[")
    assert behind(BLOCKS) is None
    assert behind(short) is not None
    assert behind(short.replace(f"{limit})", "16385)")) is None


def test_a_sum_in_lanes_may_be_one_of_several_rows_later() -> None:
    """Its only read is inside of a sum already."""
    run = (
        ROWS.replace("n_rows, n_cols, BLOCK_SIZE: tl", "n_rows, n_cols, each, BLOCK_SIZE: tl")
        .replace("range(pid, n_rows, tl.num_programs(0))", "range(pid * each, min(pid * each + each, n_rows))")
        .replace("    slope = slope / n_cols\n    tl.store(slope_ptr + pid, slope * slope)\n", "")
        .replace("        slope += tl.sum(x)  # not of its square\n", "")
        .replace("    slope = tl.float32(0.0)\n", "")
        .replace("    _k[", "    each = triton.cdiv(n_rows, 132)\n    _k[")
        .replace("n_rows, n_cols, BLOCK_SIZE=", "n_rows, n_cols, each, BLOCK_SIZE=")
    )
    after = behind(run)
    assert after is not None
    blocked = block_rows.rewrite(after)
    assert blocked is not None and "tl.sum(tl.sum(total, axis=0), axis=0)" in blocked.text


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a reduction that stays", "2 * x, mask", "x / tl.max(x, axis=0), mask"),
        ("a sum that is read in the loop", "2 * x, mask", "total * x, mask"),
        ("a sum that begins with something", "total = 0.0", "total = 1.0"),
        ("a sum that begins elsewhere", "    total = 0.0\n", "    total = 0.0\n    if WITH:\n        total = 0.0\n"),
        ("a sum over something else", "tl.sum(x * x, 0)", "tl.sum(x * x, 1)"),
        ("a sum of one number", "tl.sum(x * x, 0)", "tl.sum(tl.load(x_ptr + row), 0)"),
        ("a difference", "total += tl.sum", "total -= tl.sum"),
        ("two blocks of columns", "2 * x, mask", "2 * x + tl.arange(0, BLOCK_SIZE), mask"),
        ("two axes", "2 * x, mask", "2 * x[None, :], mask"),
        ("a call that nobody knows", "2 * x, mask", "mystery(x), mask"),
        ("a comment in the sum", "tl.sum(x * x, 0)", "tl.sum(\n                x * x,  # squares\n            )"),
        ("a sum that a later loop reads", "    if WITH:\n        tl", "    for _ in range(2):\n        tl"),
        ("a sum that a branch makes anew", "tl.store(total_ptr + pid, total)", "total = total * 2"),
        ("nobody reads it", "tl.store(total_ptr + pid, total)", "pass"),
    ],
)  # fmt: skip
def test_sums_stay_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    one = ROWS.replace("        slope += tl.sum(x)  # not of its square\n", "")
    assert before in one and behind(one) is not None
    assert behind(one.replace(before, after)) is None, why


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "cross_entropy", "layer_norm", "jsd", "geglu"])
def test_nothing_in_the_sample_adds_up_sums(kernel: str) -> None:
    assert behind(sample(kernel)) is None
