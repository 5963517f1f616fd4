"""A kernel may take a smaller block where it goes through its columns by the block, and nowhere else."""

from __future__ import annotations

import pytest

from bot.engine.steps import by_block
from tests.engine.library import sample

HEAD = """
import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
"""
AT_ONCE = """
x_ptr += row * stride
cols = tl.arange(0, BLOCK)
mask = cols < n_cols
x = tl.load(x_ptr + cols, mask=mask, other=0.0)
tl.store(y_ptr + row * stride + cols, x * 2, mask=mask)
"""
STEPS = """
for start in range(0, n_cols, BLOCK):
    cols = start + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * stride + cols, x * 2, mask=mask)
"""
COUNTED = """
offs = tl.arange(0, BLOCK)
turns = tl.cdiv(n_cols, BLOCK)
for i in tl.range(turns):
    cols = i * BLOCK + offs
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0)
    tl.store(y_ptr + row * stride + cols, x * 2, mask=cols < n_cols)
"""
TILES = AT_ONCE.replace("cols = tl.arange", "cols = tl.program_id(1) * BLOCK + tl.arange")
ROWS = """
cols = tl.arange(0, BLOCK)
mask = cols < n_cols
for row in range(0, 8):
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * stride + cols, x * 2, mask=mask)
"""


def steps(body: str, block: str = "BLOCK") -> bool:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return by_block(HEAD.lstrip("\n") + lines, "_k", block)


@pytest.mark.parametrize(
    "body",
    [
        STEPS,
        COUNTED,
        STEPS + STEPS.replace("start", "i").replace("* 2", "* 3"),
        STEPS.replace("in range(", "in tl.range(").replace(", BLOCK):", ", BLOCK, num_stages=2):"),
        COUNTED.replace("tl.range(turns)", "tl.range(0, tl.cdiv(n_cols, BLOCK))").replace("turns = ", "unused = "),
        STEPS.replace("start + tl.arange(0, BLOCK)", "(tl.arange(0, BLOCK) + start).to(tl.int64)"),
        STEPS.replace("for start", "total = tl.zeros((BLOCK,), tl.float32)\nfor start"),
        STEPS.replace("y_ptr + row * stride + cols", "y_ptr + (row * stride + cols) // 2"),
    ],
)
def test_steps_of_the_block_reach_every_column_whatever_the_block(body: str) -> None:
    assert steps(body)


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("the row at once", AT_ONCE),
        ("a loop over rows", ROWS),
        ("tiles, whose number is the grid's affair", TILES),
        ("a second access that does not step", STEPS + "first = tl.load(x_ptr + tl.arange(0, BLOCK))"),
        ("a quotient that does not step", STEPS + "first = tl.load(x_ptr + tl.arange(0, BLOCK) // 2)"),
        ("columns that are made twice", STEPS + STEPS.replace("    mask =", "    cols = cols % 7\n    mask =")),
        ("columns that change on the way", STEPS.replace("    mask =", "    cols *= 2\n    mask =")),
        ("a store that does not step", STEPS.replace("y_ptr + row * stride + cols", "y_ptr + tl.arange(0, BLOCK)")),
        ("steps of another size", STEPS.replace("range(0, n_cols, BLOCK)", "range(0, n_cols, 1024)")),
        ("one turn each element of the block", STEPS.replace("range(0, n_cols, BLOCK)", "tl.static_range(0, BLOCK)")),
        ("turns of another size", COUNTED.replace("tl.cdiv(n_cols, BLOCK)", "tl.cdiv(n_cols, 1024)")),
        ("a turn that is no step", COUNTED.replace("i * BLOCK + offs", "i + offs")),
        ("the block is compared with the row", "if n_cols <= BLOCK:\n    tl.store(y_ptr, 0.0)\n" + STEPS),
        ("the block goes to a helper", STEPS.replace("x * 2", "helper(x, BLOCK)")),
        (
            "half of the block under a name",
            "half = BLOCK // 2\n" + STEPS.replace("arange(0, BLOCK)", "arange(0, half)"),
        ),
        ("half of the block", STEPS.replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK // 2)")),
        ("no columns of the block", "for start in range(0, n_cols, BLOCK):\n    tl.store(y_ptr + start, 0.0)"),
        ("pointers that move along", STEPS.replace("start + tl.arange", "tl.arange") + "    x_ptr += BLOCK\n"),
        ("it loops until something", STEPS.replace("for start in range(0, n_cols, BLOCK):", "while start < n_cols:")),
    ],
)
def test_what_would_leave_columns_out_or_is_not_understood_takes_no_smaller_block(why: str, body: str) -> None:
    assert not steps(body), why


def test_columns_of_another_block_are_another_matter() -> None:
    two = STEPS.replace("y_ptr + row", "y_ptr + tl.arange(0, 16) + row")
    assert steps(two)
    assert not steps(two, "OTHER")


def test_the_kernels_of_the_sample() -> None:
    assert by_block(sample("jsd"), "_jsd_forward_kernel", "BLOCK_SIZE")
    assert not by_block(sample("rms_norm"), "_rms_norm_forward_kernel", "BLOCK_SIZE")
    assert not by_block(sample("rms_norm"), "_rms_norm_backward_kernel", "BLOCK_SIZE")
    assert not by_block(sample("geglu"), "_geglu_forward_kernel", "BLOCK_SIZE")


@pytest.mark.parametrize("text", ["def f(:\n", "", "x = 1\n"])
def test_a_source_without_the_kernel_says_nothing(text: str) -> None:
    assert not by_block(text, "_k", "BLOCK")
