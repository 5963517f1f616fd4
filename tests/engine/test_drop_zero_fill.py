"""Zeros go where each element is provably written before anybody reads it, and nowhere else."""

from __future__ import annotations

import pytest

from bot.engine.transforms import drop_zero_fill
from tests.engine.library import changes, op, sample

HOST = op(
    """
n_rows, n_cols = x.shape
BLOCK_SIZE = triton.next_power_of_2(n_cols)
y = torch.zeros_like(x)  # the result
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
return y
"""
).replace("def run(x, y, n_rows, n_cols)", "def run(x)")
STRIDED = HOST.replace("_k(x, y, n_cols,", "_k(x, y, y_stride, n_cols,").replace(
    "y + row * n_cols", "y + row * y_stride"
)
GOOD = STRIDED.replace("(x, y, n_cols, B", "(x, y, y.stride(0), n_cols, B")


def dropped(text: str) -> str | None:
    found = drop_zero_fill.rewrite(text)
    return found.text if found is not None else None


def test_the_call_changes_and_nothing_else() -> None:
    after = dropped(GOOD)
    assert after is not None
    gone, new = changes(GOOD, after)
    assert gone == ["    y = torch.zeros_like(x)  # the result"]
    assert new == [f"    # {drop_zero_fill.WHY}", "    y = torch.empty_like(x)  # the result"]


def test_there_is_nothing_to_drop_twice() -> None:
    after = dropped(GOOD)
    assert after is not None and dropped(after) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.zeros_like(x)", "torch.zeros((n_rows, n_cols), dtype=x.dtype, device=x.device)"),
        ("torch.zeros_like(x)", "torch.zeros(n_rows, n_cols, dtype=x.dtype, device=x.device)"),
        ("torch.zeros_like(x)", "x.new_zeros((n_rows, n_cols))"),
        ("torch.zeros_like(x)", "x if in_place else torch.zeros_like(x)"),
        ("y.stride(0)", "y.stride(-2)"),
        ("(n_rows,)](", "grid]("),
    ],
)
def test_the_same_is_understood_in_other_words(before: str, after: str) -> None:
    text = GOOD.replace(before, after).replace("    _k[grid]", "    grid = (n_rows,)\n    _k[grid]")
    assert text != GOOD
    found = dropped(text)
    assert found is not None and "zeros" not in found


def test_a_kernel_that_goes_across_its_row_in_blocks_writes_it_whole() -> None:
    text = GOOD.replace(
        "    cols = tl.arange(0, BLOCK_SIZE)  # the whole row\n    mask = cols < n_cols\n"
        "    v = tl.load(x + row * n_cols + cols, mask=mask)\n"
        "    tl.store(y + row * y_stride + cols, v * 2, mask=mask)\n",
        "    for start in range(0, n_cols, BLOCK_SIZE):\n        cols = start + tl.arange(0, BLOCK_SIZE)\n"
        "        mask = cols < n_cols\n        v = tl.load(x + row * n_cols + cols, mask=mask)\n"
        "        tl.store(y + row * y_stride + cols, v * 2, mask=mask)\n",
    )
    assert text != GOOD
    assert dropped(text) is not None
    assert dropped(text.replace("range(0, n_cols, B", "range(BLOCK_SIZE, n_cols, B")) is None
    assert dropped(text.replace("range(0, n_cols, B", "range(0, n_cols - 1, B")) is None
    assert dropped(text.replace("range(0, n_cols, BLOCK_SIZE)", "range(0, n_cols, 2 * BLOCK_SIZE)")) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the kernel reads it", "    v = tl.load(", "    w = tl.load(y + row * y_stride + cols)\n    v = tl.load("),
        ("the kernel adds to it", "tl.store(", "tl.atomic_add("),
        ("another function gets the pointer", "v * 2, mask", "helper(y), mask"),
        ("a program may leave early", "    v = tl.load(", "    if row > 3:\n        return\n    v = tl.load("),
        ("a branch depends on what was loaded", "    tl.store(", "    if row > 3:\n        tl.store("),
        ("columns are left out", "cols < n_cols", "cols < n_cols - 1"),
        ("other columns are left out", "cols < n_cols", "(cols < n_cols) & (cols > 0)"),
        ("the columns start late", "tl.arange(0, B", "tl.arange(1, B"),
        ("a neighbour's place", "y + row * y_stride + cols", "y + row * y_stride + cols + 1"),
        ("every second row", "y + row * y_stride", "y + 2 * row * y_stride"),
        ("the stride of another tensor", "y.stride(0), n", "x.stride(0), n"),
        ("fewer programs than rows", "_k[(n_rows,)]", "_k[(n_rows - 1,)]"),
        ("a grid that is not known", "_k[(n_rows,)]", "_k[grid]"),
        ("another width", "y.stride(0), n_cols, B", "y.stride(0), n_cols - 1, B"),
        ("a block of any size", "triton.next_power_of_2(n_cols)", "128"),
        ("a block that is too small", "triton.next_power_of_2(n_cols)", "min(triton.next_power_of_2(n_cols), 64)"),
        ("a launch that may not happen", "    _k[", "    if n_cols > 3:\n        _k["),
        ("a launch in a loop", "    _k[", "    for _ in (1,):\n        _k["),
        ("a return before it", "    _k[", "    if n_rows == 0:\n        return y\n    _k["),
        ("somebody else writes it", "    _k[", "    y[0] = 1\n    _k["),
        ("a view of it", "    _k[", "    z = y[1:]\n    _k["),
        ("made anew", "    _k[", "    y = y.clone()\n    _k["),
        ("handed over twice", "_k[(n_rows,)](x, y", "_k[(n_rows,)](y, y"),
        ("a kernel of another file", "@triton.jit\ndef _k", "def _k"),
        ("more rows than it writes", "zeros_like(x)", "zeros((n_rows + 1, n_cols))"),
        ("sizes without a name", "n_rows, n_cols = x.shape", "n_rows = len(x)"),
        ("a tensor that was changed since", "    y = torch", "    x = x[1:]\n    y = torch"),
        ("two launches", "    return y", "    _k[(1,)](x, y, n_cols, n_cols, BLOCK_SIZE=BLOCK_SIZE)\n    return y"),
    ],
)  # fmt: skip
def test_zeros_stay_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in GOOD
    text = GOOD.replace(before, after)
    assert dropped(text) is None, why


CHOICE = GOOD.replace("n_cols, BLOCK_SIZE: tl.c", "n_cols, whole: tl.constexpr, BLOCK_SIZE: tl.c").replace(
    "n_cols, BLOCK_SIZE=", "n_cols, whole=True, BLOCK_SIZE="
)
STORE = "    tl.store(y + row * y_stride + cols, v * 2, mask=mask)\n"


def test_a_constant_may_choose_between_two_stores_but_not_leave_both_out() -> None:
    either = f"    if whole == 1:\n    {STORE}    if whole != 1:\n    {STORE}"
    assert dropped(CHOICE.replace(STORE, either)) is not None
    assert dropped(CHOICE.replace(STORE, f"    if whole == 1:\n    {STORE}    else:\n    {STORE}")) is not None
    assert dropped(CHOICE.replace(STORE, f"    if whole == 1:\n    {STORE}")) is None
    assert dropped(CHOICE.replace(STORE, either.replace("!= 1", "!= 2"))) is None


def test_a_tensor_that_is_there_when_the_kernel_writes_it() -> None:
    text = CHOICE.replace(STORE, f"    if whole:\n    {STORE}").replace("whole=True", "whole=w is not None")
    only = text.replace("torch.zeros_like(x)", "torch.zeros((n_rows, n_cols)) if w is not None else None")
    assert dropped(only) is not None
    assert dropped(only.replace("whole=w is not None", "whole=b is not None")) is None
    assert dropped(text) is None


BACKWARD = (
    sample("layer_norm").replace("Y = torch.zeros", "Y = torch.empty").replace("dB = torch.zeros", "dB = torch.empty")
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("triton.cdiv(n_rows, n_programs)", "n_rows // n_programs"),
        ("[(n_programs,)]", "[(n_programs - 1,)]"),
        ("first_row + rows_per_program, n_rows", "first_row + rows_per_program, n_rows - 1"),
        ("first_row = program * rows_per_program", "first_row = program * rows_per_program + 1"),
    ],
)
def test_a_run_of_rows_that_leaves_one_out_keeps_the_zeros(before: str, after: str) -> None:
    assert before in BACKWARD
    less = dropped(BACKWARD.replace(before, after))
    assert less is not None and "dX = torch.zeros_like(dY)" in less


def test_a_run_of_rows_reaches_all_of_them_when_the_host_shares_them_out() -> None:
    found = drop_zero_fill.rewrite(sample("layer_norm"))
    assert found is not None and "torch.zeros" not in found.text
    assert found.kernels == ("_layer_norm_forward_kernel", "_layer_norm_backward_kernel")
