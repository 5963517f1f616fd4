"""Zeros go where each element is provably written before anybody reads it, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bot.engine.transforms import drop_zero_fill
from tests.engine.library import changes, interpret, op, sample

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


OTHER = "@triton.jit\ndef _k(x, y, y_stride, n_cols, BLOCK_SIZE: tl.constexpr):\n    pass\n\n\n"
CHOICE = GOOD.replace("n_cols, BLOCK_SIZE: tl.c", "n_cols, whole: tl.constexpr, BLOCK_SIZE: tl.c").replace(
    "n_cols, BLOCK_SIZE=", "n_cols, whole=True, BLOCK_SIZE="
)
STORE = "    tl.store(y + row * y_stride + cols, v * 2, mask=mask)\n"


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
    assert dropped(text.replace("        cols = start", "        start = start + 1\n        cols = start")) is None
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
        ("a size that changes", "    _k[(n_", "    n_rows = n_rows - 1\n    _k[(n_"),
        ("a size that changed before", "    y = torch", "    n_rows = n_rows - 1\n    y = torch"),
        ("a width that the kernel changes", "    mask = cols", "    n_cols = n_cols // 2\n    mask = cols"),
        ("a width that grows less", "    mask = cols", "    n_cols -= 1\n    mask = cols"),
        ("a stride that the kernel changes", "    mask = cols", "    y_stride = y_stride * 2\n    mask = cols"),
        ("a width of its own", "    mask = cols < n_cols", "    n = n_cols\n    mask = cols < n"),
        ("a width of nobody's", "    mask = cols < n_cols", "    mask = cols < WIDTH"),
        ("another name for it", "    v = tl.load(x", "    s = x\n    if row > 3:\n        s = y\n    v = tl.load(s"),
        ("a place that moves", "    v = tl", "    p = y + cols\n    p += 0\n    w = tl.load(p)\n    v = tl"),
        ("half a block", "next_power_of_2(n_cols)", "next_power_of_2(n_cols) // 2"),
        ("a block now and then", "triton.next_power_of_2(n_cols)", "8 if n_cols > 8 else n_cols"),
        ("an older width", "    y = torch.zeros_like(x)", "    n_cols += 4\n    y = x.new_zeros((n_rows, n_cols))"),
        ("a stride now and then", "y.stride(0), n_cols, B", "y.stride(0) if wide else 0, n_cols, B"),
        ("a launch now and then", "    _k[", "    None if n_cols > 3 else _k["),
        ("a launch later", "    _k[", "    go = lambda: _k["),
        ("a launch perhaps", "    _k[", "    n_cols > 3 and _k["),
        ("something else in its line", "    _k[", "    y.add_(1); _k["),
        ("two launches in its line", "    _k[", "    _k[(1,)](x, y, y.stride(0), n_cols, BLOCK_SIZE=8); _k["),
        ("zeros of somebody's", "torch.zeros_like(x)", "pool.zeros((n_rows, n_cols))"),
        ("zeros of nothing", "torch.zeros_like(x)", "torch.zeros_like()"),
        ("a store now and then", "    tl.store(", "    None if row > 3 else tl.store("),
        ("two kernels of that name", "def run", f"{OTHER}def run"),
        ("another launch before it", "    _k[(n_", "    _k[(1,)](x, y, n_cols, n_cols, BLOCK_SIZE)\n    _k[(n_"),
    ],
)  # fmt: skip
def test_zeros_stay_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in GOOD
    text = GOOD.replace(before, after)
    assert dropped(text) is None, why


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
        ("    first_row = program", "    n_rows = n_rows - 1\n    first_row = program"),
        ("    first_row = program", "    rows_per_program = rows_per_program // 2\n    first_row = program"),
        (
            "        mean = tl.load(Mean_ptr + row)",
            "        row = tl.load(Mean_ptr + row)\n        mean = tl.load(Mean_ptr + row)",
        ),
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


def test_the_rows_of_what_is_made_of_its_sizes_lie_one_behind_the_other() -> None:
    made = HOST.replace("zeros_like(x)", "zeros((n_rows, n_cols))")
    assert dropped(made) is not None and dropped(HOST) is None, "a tensor like another may have other strides"
    assert dropped(made.replace("y + row * n_cols", "y + row * 2 * n_cols")) is None
    assert dropped(made.replace("zeros((n_rows, n_cols))", "zeros((n_rows, n_rows))")) is None


def test_sizes_are_those_of_the_tensor_that_is_like_it() -> None:
    cut = GOOD.replace("    n_rows, n_cols = x.shape\n", "").replace("    BLOCK_SIZE = triton", "    SIZE = triton", 1)
    cut = cut.replace(
        "    SIZE =", "    y = torch.zeros_like(x)\n    x = x[:-1]\n    n_rows, n_cols = x.shape\n    BLOCK_SIZE ="
    )
    cut = cut.replace("    y = torch.zeros_like(x)  # the result\n", "")
    assert cut.count("zeros_like") == 1 and dropped(cut) is None
    assert dropped(cut.replace("    x = x[:-1]\n", "")) is not None


def test_a_grid_is_that_of_the_launch() -> None:
    padded = GOOD.replace(
        "    y = torch.zeros_like(x)", "    n_rows = n_rows + 8\n    y = torch.zeros((n_rows, n_cols))"
    )
    assert dropped(padded) is not None
    early = padded.replace("    n_rows = n", "    grid = (n_rows,)\n    n_rows = n").replace(
        "_k[(n_rows,)]", "_k[grid]"
    )
    assert dropped(early) is None


def test_a_condition_is_the_one_at_the_launch() -> None:
    text = CHOICE.replace(STORE, f"    if whole:\n    {STORE}").replace("whole=True", "whole=w is not None")
    only = text.replace("torch.zeros_like(x)", "torch.zeros((n_rows, n_cols)) if w is not None else None")
    assert dropped(only) is not None and dropped(only.replace("    _k[", "    w = None\n    _k[")) is None


def test_two_conditions_are_no_negation_of_one_another() -> None:
    either = f"    if whole != 0 and both != 0:\n    {STORE}    if whole == 0 and both == 0:\n    {STORE}"
    both = CHOICE.replace("whole: tl.constexpr,", "whole: tl.constexpr, both: tl.constexpr,").replace(
        "whole=True", "whole=True, both=False"
    )
    assert dropped(both.replace(STORE, either)) is None


def test_what_is_written_whole_at_first_may_be_written_again() -> None:
    again = GOOD.replace("    return y", "    _k[(1,)](x, y, n_cols, n_cols, BLOCK_SIZE=BLOCK_SIZE)\n    return y")
    assert dropped(again) is not None


TILED = '''"""An op in the shape of Liger's fused_neighborhood_attention: a tile of one batch and head a program."""

import torch
import triton
import triton.language as tl


@triton.jit
def _double(
    x_ptr, y_ptr, sb, sh, sr, sc, yb, yh, yr, yc, heads: tl.constexpr, rows, width, M: tl.constexpr, N: tl.constexpr
):
    pair = tl.program_id(0)
    tile_m = tl.program_id(1)
    tile_n = tl.program_id(2)
    batch = pair // heads
    head = pair % heads
    start = tile_m * M
    r = start + tl.arange(0, M)
    c = tile_n * N + tl.arange(0, N)
    inside = (r[:, None] < rows) & (c[None, :] < width)
    x = tl.load(x_ptr + batch * sb + head * sh + r[:, None] * sr + c[None, :] * sc, mask=inside, other=0.0)
    y_ptrs = y_ptr + batch * yb + head * yh + r[:, None] * yr + c[None, :] * yc
    tl.store(y_ptrs, 2 * x, mask=inside)


def run(x, other):
    B, H, R, C = x.shape
    M, N = 4, 8
    y = torch.zeros_like(x)
    z = torch.zeros_like(other)
    grid = (B * H, triton.cdiv(R, M), triton.cdiv(C, N))
    s = x.stride()
    _double[grid](
        x, y, s[0], s[1], s[2], s[3], y.stride(0), y.stride(1), y.stride(2), y.stride(3), H, R, C, M, N
    )
    _double[grid](
        y, z, s[0], s[1], s[2], s[3], z.stride(0), z.stride(1), z.stride(2), z.stride(-1), H, R, C, M, N
    )
    return y, z
'''
KNOWN, ASKED = "    y = torch.zeros_like(x)", "    z = torch.zeros_like(other)"


def test_tiles_on_a_grid_that_counts_them_write_all_of_it() -> None:
    after = dropped(TILED.replace("z.stride(-1)", "z.stride(3)"))
    assert after is not None
    gone, new = changes(TILED.replace("z.stride(-1)", "z.stride(3)"), after)
    assert gone == [KNOWN, ASKED]
    assert new == [
        f"    # {drop_zero_fill.WHY}",
        "    y = torch.empty_like(x)",
        f"    # {drop_zero_fill.OF_SUCH}",
        "    z = torch.empty_like(other) if other.shape == (B, H, R, C) else torch.zeros_like(other)",
    ]


def test_the_last_stride_may_be_counted_from_behind() -> None:
    after = dropped(TILED)
    assert after is not None and "z = torch.empty_like(other) if" in after


@pytest.mark.parametrize(("name", "other", "lines"), [(9, 12, 1), (10, 12, 3), (10, 14, 3), (10, 15, 5)])
def test_what_does_not_fit_behind_its_name_gets_a_line_of_its_own(name: int, other: int, lines: int) -> None:
    """As long as a line may be, and one character more."""
    text = re.sub(r"\bz\b", "n" * name, TILED).replace("other)", f"{'t' * other})")
    after = dropped(text)
    assert after is not None
    made = after.partition(f"{'n' * name} = ")[2].splitlines()
    whole = f"    {'n' * name} = {made[0] if lines == 1 else made[1].strip()}"
    assert (len(whole) == 120) if lines == 1 else made[0] == "(" and made[lines - 1] == "    )"
    assert max(map(len, made[:lines])) <= 120 and (len(whole) == 121) is ((name, other) == (10, 12))


def test_what_does_not_fit_into_a_line_is_written_in_three() -> None:
    long = TILED.replace("other)", "the_same_but_with_a_longer_name)")
    after = dropped(long)
    assert after is not None and max(map(len, after.splitlines())) <= 120
    assert (
        "    z = (\n        torch.empty_like(the_same_but_with_a_longer_name)\n"
        "        if the_same_but_with_a_longer_name.shape == (B, H, R, C)\n"
        "        else torch.zeros_like(the_same_but_with_a_longer_name)\n    )\n"
    ) in after


def test_a_reason_stands_once_above_lines_that_follow_each_other() -> None:
    kept = dropped(TILED.replace(KNOWN, "    y = torch.zeros_like(w)").replace("(x, other)", "(x, other, w)"))
    assert kept is not None and kept.count(drop_zero_fill.OF_SUCH) == 1 and kept.count("torch.empty_like") == 2


def test_sizes_that_are_said_have_to_be_the_ones_that_are_written() -> None:
    said = TILED.replace(ASKED, "    z = torch.zeros((B, H, R, C))")
    assert "torch.zeros" not in (dropped(said) or "torch.zeros")
    more = dropped(said.replace("zeros((B, H, R, C))", "zeros((B, H, R, C + 1))"))
    assert more is not None and "zeros((B, H, R, C + 1))" in more


RUN_TILED = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after

torch.use_deterministic_algorithms(True)  # fills what is empty with what is no number
for b, h, r, c in ((1, 1, 1, 1), (2, 3, 5, 9), (1, 2, 4, 8), (3, 1, 9, 7)):
    x = torch.randn(b, r, h, c).transpose(1, 2)
    for more in (0, 1):
        y, z = after.run(x, torch.randn(b + more, h, r, c))
        assert torch.equal(y, 2 * x), (b, h, r, c)
        assert not z.isnan().any() and (z[b:] == 0).all(), "what nobody writes is zero"
"""


def test_nothing_is_left_unwritten_whatever_the_shape(tmp_path: Path) -> None:
    after = dropped(TILED)
    assert after is not None
    interpret(tmp_path, RUN_TILED, after=after)


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a program ends early", "    start = ", "    if head > 3:\n        return\n    start = "),
        ("a store that depends", "    tl.store(", "    if head > 3:\n        tl.store("),
        ("two stores", "    tl.store(", "    tl.store(y_ptrs, x, mask=inside)\n    tl.store("),
        ("it is read", "    tl.store(", "    w = tl.load(y_ptrs)\n    tl.store("),
        ("more is masked", "(c[None, :] < width)", "(c[None, :] < width) & (head < 3)"),
        ("less than a size", "(c[None, :] < width)", "(c[None, :] < width - 1)"),
        ("no mask of columns", " & (c[None, :] < width)", ""),
        ("another range", "tl.arange(0, N)", "tl.arange(1, N)"),
        ("a grid that is less", "triton.cdiv(R, M)", "min(triton.cdiv(R, M), 4)"),
        ("half a grid", "triton.cdiv(R, M)", "max(1, triton.cdiv(R, M) // 2)"),
        ("rows that change behind the grid", "    s = x", "    R = R + 8\n    s = x"),
        ("a size of the kernel's own", "    start = ", "    rows = rows + 0\n    start = "),
        ("a diagonal", "r[:, None] * yr + c[None, :]", "r[:, None] * yr + c[:, None]"),
        ("a place beyond", "c[None, :] * yc", "c[None, :] * yc + 1"),
        ("two tiles in one place", "tile_n = tl.program_id(2)", "tile_n = tl.program_id(1)"),
        ("an axis that starts late", "tile_n = tl.program_id(2)", "tile_n = tl.program_id(2) + 1"),
        ("a quotient of another", "head = pair % heads", "head = pair % rows"),
        ("a quotient without its rest", "head = pair % heads", "head = 0"),
        ("pairs of other sizes", "grid = (B * H,", "grid = (B * R,"),
        ("pairs that are not all there", "grid = (B * H,", "grid = (B * H - 1,"),
        ("too few tiles", "triton.cdiv(R, M)", "R // M"),
        ("tiles of another size", "triton.cdiv(R, M)", "triton.cdiv(C, M)"),
        ("tiles counted by another block", "triton.cdiv(R, M)", "triton.cdiv(R, N)"),
        ("another block at the launch", "H, R, C, M, N", "H, R, C, N, N"),
        ("another size at the launch", "H, R, C, M, N", "H, R - 1, C, M, N"),
        ("an axis that counts nothing", "triton.cdiv(C, N))", "triton.cdiv(C, N), 1)"),
        ("an axis that is not there", "triton.cdiv(C, N))", ")"),
        ("another axis that is not there", "    batch = pair // heads", "    batch = tl.program_id(3)"),
        ("a mask of the pairs", "(c[None, :] < width)", "(c[None, :] < width) & (pair < heads)"),
        ("a size that is made anew", "    pair = ", "    rows = rows - 1\n    pair = "),
        ("a stride of another", "y.stride(2), y.stride(3)", "y.stride(2), x.stride(3)"),
        ("a stride twice", "y.stride(2), y.stride(3)", "y.stride(2), y.stride(2)"),
    ],
)  # fmt: skip
def test_zeros_stay_where_a_tile_may_be_missing(why: str, before: str, after: str) -> None:
    assert before in TILED
    left = dropped(TILED.replace(before, after))
    assert KNOWN in (left if left is not None else KNOWN), why


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a size that is not known yet", "    B, H, R, C = x.shape\n", "    R, C = x.shape[2:]\n"),
        ("a size that changes", "    grid = ", "    R = R + 0\n    grid = "),
        ("a tensor now and then", ASKED, "    z = x if R > 3 else torch.zeros_like(other)"),
        ("no name to ask", ASKED, "    z = torch.zeros_like(other[0])"),
        ("sizes of its own", ASKED, "    z = torch.zeros(other.numel()).view(other.shape)"),
    ],
)
def test_nobody_asks_for_a_shape_where(why: str, before: str, after: str) -> None:
    text = TILED.replace(before, after)
    text = text.replace("    grid = ", "    B, H = x.shape[:2]\n    grid = ") if "yet" in why else text
    left = dropped(text)
    assert left is None or ".shape ==" not in left, why
