"""A walk over a row loads ahead, as far as its blocks fit into shared memory."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import pipeline_steps
from tests.engine.library import changes

LOSS = '''"""An op in the shape that the losses of Liger have."""

import torch
import triton
import triton.language as tl

MAX_FUSED_SIZE = 32768


@triton.jit
def _k(
    x_ptr,
    x_stride,
    y_ptr,
    y_stride,
    loss_ptr,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
    WITH_GRADIENT: tl.constexpr,
):
    """A loss and its gradient in place."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    total = 0.0

    # the loss
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(x * y)
    if WITH_GRADIENT:
        for start in range(0, n_cols, BLOCK_SIZE):
            cols = start + tl.arange(0, BLOCK_SIZE)
            x = tl.load(x_ptr + cols, mask=cols < n_cols)
            tl.store(x_ptr + cols, x * total, mask=cols < n_cols)
    tl.store(loss_ptr + row, total)


def run(x, y, loss):
    n_rows, n_cols = x.shape
    BLOCK_SIZE = min(MAX_FUSED_SIZE, triton.next_power_of_2(n_cols))
    num_warps = 32
    _k[(n_rows,)](
        x,
        x.stride(0),
        y,
        y.stride(0),
        loss,
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        WITH_GRADIENT=True,
        num_warps=num_warps,
    )
'''
LOAD_Y = "y = tl.load(y_ptr + cols, mask=mask, other=0.0).to(tl.float32)"
BITS = "    step_bits: tl.constexpr = "
STAGES = "    STEP_STAGES: tl.constexpr = 3 if BLOCK_SIZE * step_bits <= 393216 else 1"


def rewritten(text: str = LOSS) -> tuple[list[str], list[str]]:
    found = pipeline_steps.rewrite(text)
    assert found is not None
    ast.parse(found.text)
    return changes(text, found.text)


def staged(text: str) -> int:
    """How many of its walks load ahead."""
    found = pipeline_steps.rewrite(text)
    return 0 if found is None else found.text.count("num_stages=STEP_STAGES")


def test_every_walk_over_the_row_is_staged_and_says_how_many_stages_there_is_room_for() -> None:
    gone, new = rewritten()
    assert gone == [
        "    for start in range(0, n_cols, BLOCK_SIZE):",
        "        for start in range(0, n_cols, BLOCK_SIZE):",
        "    num_warps = 32",
    ]
    assert new == [
        "    # The blocks to come are loaded while one is worked on, as long as they fit into shared memory.",
        f"{BITS}x_ptr.dtype.element_ty.primitive_bitwidth + y_ptr.dtype.element_ty.primitive_bitwidth",
        STAGES,
        "    for start in tl.range(0, n_cols, BLOCK_SIZE, num_stages=STEP_STAGES):",
        "        for start in tl.range(0, n_cols, BLOCK_SIZE, num_stages=STEP_STAGES):",
        "    # Small steps, so that several are under way.",
        "    BLOCK_SIZE = min(BLOCK_SIZE, 8192)",
        "    num_warps = min(max(BLOCK_SIZE // 512, 1), 32)",
    ]


def test_a_comment_of_the_author_stays_above_its_loop() -> None:
    found = pipeline_steps.rewrite(LOSS)
    assert found is not None
    assert "else 1\n\n    # the loss\n    for start in tl.range(" in found.text


def test_a_load_that_some_launches_leave_out_is_counted_whatever_its_type() -> None:
    text = LOSS.replace(LOAD_Y, f"y = x\n        if WITH_GRADIENT:\n            {LOAD_Y}")
    assert f"{BITS}x_ptr.dtype.element_ty.primitive_bitwidth + 32" in rewritten(text)[1]


def test_of_three_rows_each_type_stands_in_a_line_of_its_own() -> None:
    third = LOAD_Y.replace("y", "w").replace("mask=mask", "mask=cols < n_cols")
    text = LOSS.replace("    y_ptr,\n", "    y_ptr,\n    w_ptr,\n").replace(LOAD_Y, f"{LOAD_Y}\n        {third}")
    _, new = rewritten(text)
    at = new.index("    step_bits: tl.constexpr = (")
    of = "_ptr.dtype.element_ty.primitive_bitwidth"
    assert new[at + 1 : at + 5] == [f"        x{of}", f"        + y{of}", f"        + w{of}", "    )"]


def test_a_launch_in_another_file_keeps_its_steps() -> None:
    _, new = rewritten(LOSS.split("def run")[0])
    assert len(new) == 5 and not any("min(" in line for line in new)


def test_a_kernel_alone_can_be_asked_for() -> None:
    assert pipeline_steps.rewrite(LOSS, "_k") is not None
    assert pipeline_steps.rewrite(LOSS, "another") is None


def test_it_is_done_once() -> None:
    found = pipeline_steps.rewrite(LOSS)
    assert found is not None and not pipeline_steps.applies(found.text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An earlier step may still write what is loaded ahead.
        ("tl.store(x_ptr + cols, x * total", "tl.store(x_ptr + cols + 1, x * total"),
        ("            tl.store(x_ptr", "            tl.debug_barrier()\n            tl.store(x_ptr"),
        ("tl.store(x_ptr + cols, x * total", "tl.atomic_add(x_ptr + cols, x"),
        ("            tl.store(x_ptr", "            if total > 4:\n                return\n            tl.store(x_ptr"),
        ("            x = tl.load(x_ptr + cols, mask=cols < n_cols)\n", "            x = cols * 1.0\n"),
        # Loaded ahead, it would be kept no longer than anything else.
        ("x = tl.load(x_ptr + cols, mask=mask,", 'x = tl.load(x_ptr + cols, eviction_policy="evict_last", mask=mask,'),
    ],
)  # fmt: skip
def test_a_walk_that_is_not_understood_stays_as_it_is(old: str, new: str) -> None:
    assert staged(LOSS) == 2
    assert old in LOSS and staged(LOSS.replace(old, new)) == 1


def test_a_store_that_leaves_the_cache_first_is_none_that_is_loaded_ahead() -> None:
    hinted = LOSS.replace("total, mask=cols < n_cols)", 'total, mask=cols < n_cols, eviction_policy="evict_first")')
    assert hinted != LOSS and staged(hinted) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("start + tl.arange(0, BLOCK_SIZE)\n        mask", "tl.arange(0, BLOCK_SIZE)\n        mask"),
        ("range(0, n_cols, BLOCK_SIZE)", "range(0, n_cols, 1024)"),
        ("range(0, n_cols, BLOCK_SIZE)", "tl.range(0, n_cols, BLOCK_SIZE, num_stages=2)"),
        ("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit"),
        ("row = tl.program_id(0)", "STEP_STAGES = 2\n    row = tl.program_id(0)"),
    ],
)  # fmt: skip
def test_a_kernel_that_is_not_understood_stays_as_it_is(old: str, new: str) -> None:
    assert old in LOSS and pipeline_steps.rewrite(LOSS.replace(old, new)) is None


TALL = """import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, sum_ptr, n_rows, BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    cols = tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = start + tl.arange(0, BLOCK_ROWS)
        x = tl.load(x_ptr + rows[:, None] * COLUMNS + cols[None, :], mask=rows[:, None] < n_rows, other=0.0)
        total += tl.sum(x, axis=0)
    tl.store(sum_ptr + cols, total)
"""


def test_a_block_of_whole_rows_is_more_than_is_counted_and_stays_as_it_is() -> None:
    """Compiled for sm_90 with three stages, 512 rows of 64 columns took 257 KiB of shared memory; a step of 512 numbers
    alone takes two."""
    assert staged(TALL) == 0
    assert staged(TALL.replace("rows[:, None]", "rows").replace("cols[None, :]", "0")) == 1


WIDTH = "    BLOCK_SIZE = min(MAX_FUSED_SIZE, triton.next_power_of_2(n_cols))\n"
KEPT = LOSS.replace("def run(x, y, loss):", "def run(ctx, x, y, loss):").replace(
    WIDTH, f"{WIDTH}    ctx.size = BLOCK_SIZE\n"
)
BACK = """

def back(ctx, x, y, loss):
    _back[(x.shape[0],)](x, x.stride(0), y, y.stride(0), loss, x.shape[1], BLOCK_SIZE=ctx.size, WITH_GRADIENT=True)
"""
WHOLE = """

@triton.jit
def _back(x_ptr, x_stride, y_ptr, y_stride, loss_ptr, n_cols, BLOCK_SIZE: tl.constexpr, WITH_GRADIENT: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + cols, cols * 1.0, mask=cols < n_cols)
"""
IN_STEPS = "\n\n" + LOSS[LOSS.index("@triton.jit") : LOSS.index("\n\ndef run")].replace("def _k(", "def _back(")


def are_smaller(text: str) -> bool:
    found = pipeline_steps.rewrite(text, "_k")
    assert found is not None
    return "BLOCK_SIZE = min(BLOCK_SIZE, 8192)" in found.text


def test_a_block_that_is_asked_whether_the_row_fits_stays_as_large_as_it_is() -> None:
    """Of 9000 columns in one block, which is walked in one step, the host would say that they are too many."""
    assert are_smaller(LOSS)
    assert not are_smaller(LOSS.replace(WIDTH, f"{WIDTH}    if n_cols > BLOCK_SIZE:\n        raise RuntimeError\n"))
    assert not are_smaller(LOSS.replace(WIDTH, f"{WIDTH}    assert n_cols <= BLOCK_SIZE\n"))


def test_a_block_that_is_kept_for_a_backward_is_smaller_only_where_that_walks_as_well() -> None:
    assert are_smaller(KEPT + IN_STEPS + BACK)
    assert not are_smaller(KEPT + WHOLE + BACK)
    assert not are_smaller(KEPT)


def test_steps_that_are_small_already_are_not_made_smaller() -> None:
    assert not are_smaller(LOSS.replace(WIDTH, "    BLOCK_SIZE = 1024\n"))
    assert are_smaller(LOSS.replace(WIDTH, "    BLOCK_SIZE = 128 * 256\n"))
