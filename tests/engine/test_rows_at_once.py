"""A program takes several short rows at once, where each took one; a long row stays alone."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import rows_at_once, tile_rows
from tests.engine.library import changes, op, sample

# A number of each row, a sum and a maximum over it, a weight that all rows share, a branch about a constant, a helper
ROWS = '''"""An op with a program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def twice(x):
    return x + x


@triton.jit
def neighbours(x):
    return tl.cumsum(x, 0)


@triton.jit
def _k(
    y_ptr,
    x_ptr,
    x_stride,  # elements from row to row
    w_ptr,
    rstd_ptr,
    n_cols,
    BLOCK_SIZE: tl.constexpr,  # all columns
    WITH_WEIGHT: tl.constexpr,
):
    """What it does."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x_ptr += row * x_stride

    x = tl.load(x_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
    # of this row alone
    rstd = tl.load(rstd_ptr + row)
    x = tl.math.exp2(x - tl.max(x, axis=0)) * rstd
    total = tl.sum(twice(x))
    if WITH_WEIGHT:
        w = tl.load(w_ptr + cols, mask=mask, other=0.0)
        x = x * w
    tl.store(rstd_ptr + row, total)
    tl.store(y_ptr + row * n_cols + cols, x / total, mask=cols < n_cols)


def run(y, x, w, rstd):
    n_rows, n_cols = x.shape
    BLOCK_SIZE, num_warps = settings(n_cols)

    _k[(n_rows,)](
        y,
        x,
        x.stride(0),
        w,
        rstd,
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        WITH_WEIGHT=True,
        num_warps=num_warps,
    )
'''
CHOICE = [
    f"    # {rows_at_once.WHY}",
    "    row_bytes = BLOCK_SIZE * x.element_size()",
    "    block_row = 8 if row_bytes <= 1024 else 4 if row_bytes <= 2048 else 2 if row_bytes <= 4096 else 1",
    "    block_row = block_row if n_rows >= 4096 else 1",
]


def at_once(text: str) -> str | None:
    found = rows_at_once.rewrite(text)
    return found.text if found is not None else None


def test_row_loads_sums_and_launch_change_and_nothing_else() -> None:
    after = at_once(ROWS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(ROWS, after)
    assert gone == [
        "    row = tl.program_id(0).to(tl.int64)",
        '    x = tl.load(x_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)',
        "    rstd = tl.load(rstd_ptr + row)",
        "    x = tl.math.exp2(x - tl.max(x, axis=0)) * rstd",
        "    total = tl.sum(twice(x))",
        "    tl.store(rstd_ptr + row, total)",
        "    tl.store(y_ptr + row * n_cols + cols, x / total, mask=cols < n_cols)",
        "    _k[(n_rows,)](",
    ]
    assert new == [
        "    n_rows=0,",
        "    BLOCK_ROW: tl.constexpr = 1,",
        "    row = tl.program_id(0).to(tl.int64) * BLOCK_ROW + tl.arange(0, BLOCK_ROW)[:, None]",
        "    # BLOCK_ROW rows a program; one behind the last is masked.",
        "    row_mask = (row < n_rows) | (BLOCK_ROW == 1)",
        '    x = tl.load(x_ptr + cols, mask=row_mask & mask, other=-float("inf")).to(tl.float32)',
        "    rstd = tl.load(rstd_ptr + row, mask=row_mask, other=0.0)",
        "    x = tl.math.exp2(x - tl.max(x, axis=1)[:, None]) * rstd",
        "    total = tl.sum(twice(x), axis=1)[:, None]",
        "    tl.store(rstd_ptr + row, total, mask=row_mask)",
        "    tl.store(y_ptr + row * n_cols + cols, x / total, mask=row_mask & (cols < n_cols))",
        *CHOICE,
        "    _k[(triton.cdiv(n_rows, block_row),)](",
        "        n_rows=n_rows,",
        "        BLOCK_ROW=block_row,",
    ]


def test_of_a_kernel_without_sums_nothing_is_said_of_sums() -> None:
    after = at_once(
        ROWS.replace("x - tl.max(x, axis=0)", "x").replace("tl.sum(twice(x))", "rstd").replace("x / total", "twice(x)")
    )
    assert after is not None and f"    # {rows_at_once.WHY_WITHOUT_SUMS}\n" in after and rows_at_once.WHY not in after


@pytest.mark.parametrize("beside", [0, 1])
def test_parameters_that_share_a_line_share_it_with_the_new_ones_where_there_is_room(beside: int) -> None:
    """As black writes them: the break behind the last of them is none between two."""
    head = ROWS[ROWS.index("def _k(") : ROWS.index('    """What it does."""')]
    names = "y_ptr, x_ptr, s, w_ptr, r, n_cols, BLOCK_SIZE: tl.constexpr, W: tl.constexpr"
    kernel = ROWS.replace(head, f"def _k(\n    {names}\n):\n").replace("x_stride", "s").replace("rstd_ptr", "r")
    kernel = kernel.replace("WITH_WEIGHT", "W").replace("n_cols", "n_of_columns" if beside else "n_cols")
    after = at_once(kernel)
    assert after is not None
    new = "n_rows=0,\n    BLOCK_ROW: tl.constexpr = 1," if beside else "n_rows=0, BLOCK_ROW: tl.constexpr = 1"
    assert f"{new}\n):\n" in after and ("def _k(\n    y_ptr,\n" if beside else f"    {names}, {new}") in after
    assert all(line == line.rstrip() and len(line) <= 120 for line in after.splitlines())


def test_what_all_rows_share_is_loaded_as_before() -> None:
    after = at_once(ROWS)
    assert after is not None and "w = tl.load(w_ptr + cols, mask=mask, other=0.0)\n" in after


def test_bytes_are_those_of_all_tensors_with_rows() -> None:
    two = ROWS.replace("    x = tl.math", "    x += tl.load(y_ptr + row * n_cols + cols, mask=mask)\n    x = tl.math")
    after = at_once(two)
    assert after is not None and "row_bytes = BLOCK_SIZE * (x.element_size() + y.element_size())" in after


def test_what_a_constant_asks_for_may_not_be_there_and_counts_for_nothing() -> None:
    """Its host may hand over None, which has no size."""
    two = ROWS.replace("        x = x * w\n", "        x = x * w + tl.load(y_ptr + row * n_cols + cols, mask=mask)\n")
    after = at_once(two)
    assert after is not None and "row_bytes = BLOCK_SIZE * x.element_size()" in after


def test_a_parameter_that_the_kernel_changes_is_not_its_number_of_rows() -> None:
    told = ROWS.replace("    n_cols,\n    BLOCK", "    m,\n    n_cols,\n    BLOCK").replace(
        "        rstd,\n", "        rstd,\n        n_rows,\n"
    )
    after = at_once(told.replace("    row = tl", "    m = m // 2\n    row = tl"))
    assert after is not None and "(row < n_rows)" in after and "(row < m)" not in after


def test_a_kernel_that_is_told_its_rows_is_not_told_twice() -> None:
    told = ROWS.replace("    n_cols,\n    BLOCK", "    m,\n    n_cols,\n    BLOCK").replace(
        "        rstd,\n", "        rstd,\n        n_rows,\n"
    )
    after = at_once(told)
    assert after is not None and "row_mask = (row < m) | (BLOCK_ROW == 1)" in after
    assert "n_rows=" not in after


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("    grid = (n_rows,)\n", ""),
        ("    # one program a row\n    grid = (n_rows,)\n", "    # one program a row\n"),
        ("    grid = (n_rows,)  # one program a row\n", "    # one program a row\n"),
    ],
)
def test_a_grid_of_its_own_line_goes_and_what_was_said_of_it_stays(made: str, said: str) -> None:
    """layer_norm's says that a block a row is quickest; without its words the change would be refused."""
    after, same = at_once(ROWS.replace("\n    _k[(n_rows,)]", f"\n{made}    _k[grid]")), at_once(ROWS)
    ours = "    # Several short rows a program"
    assert same is not None and after == same.replace(ours, said + ours)
    apart = at_once(ROWS.replace("\n    _k[(n_rows,)]", f"\n{made}    n_rows + 1\n    _k[grid]"))
    assert apart is not None and f"    n_rows + 1\n{said}{ours}" in apart


@pytest.mark.parametrize(
    ("said", "is_true"),
    [
        ("one program a row", False),
        ("one instance per row o\n    # f the input", False),
        ("a row is in L2 by now", True),
    ],
)
def test_a_launch_that_is_said_to_have_a_program_a_row_keeps_its_rows_alone(said: str, is_true: bool) -> None:
    """The words stay right above the launch, where they would be untrue."""
    assert (at_once(ROWS.replace("\n    _k[(n_rows,)]", f"\n    # {said}\n    _k[(n_rows,)]")) is not None) == is_true


def test_a_grid_that_somebody_else_reads_stays() -> None:
    after = at_once(ROWS.replace("    _k[(n_rows,)]", "    grid = (n_rows,)\n    print(grid)\n    _k[grid]"))
    assert after is not None
    assert "    grid = (n_rows,)\n    print(grid)\n" in after and "_k[(triton.cdiv(n_rows, block_row),)](" in after


def test_a_row_in_tiles_may_have_neighbours_in_its_program() -> None:
    text = op("BLOCK_SIZE, num_warps = settings(n_cols)\n_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, num_warps=num_warps)")
    tiled = tile_rows.rewrite(text.replace("n_cols, BLOCK_SIZE, num", "n_cols, BLOCK_SIZE=BLOCK_SIZE, num"))
    assert tiled is not None
    after = at_once(tiled.text)
    assert after is not None and "(triton.cdiv(n_rows, block_row), triton.cdiv(n_cols, BLOCK_SIZE))" in after


def test_several_rows_are_not_made_more_again() -> None:
    after = at_once(ROWS)
    assert after is not None and at_once(after) is None


def test_one_kernel_may_be_asked_for_alone() -> None:
    both = rows_at_once.rewrite(sample("softmax"))
    alone = rows_at_once.rewrite(sample("softmax"), "_softmax_backward_kernel")
    assert both is not None and both.kernels == ("_softmax_forward_kernel", "_softmax_backward_kernel")
    assert alone is not None and alone.kernels == ("_softmax_backward_kernel",)


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a row without a name", "    row = tl.program_id(0).to(tl.int64)", "    row = tl.program_id(0) + 1"),
        ("the program is asked for twice", "* rstd\n", "* rstd + tl.program_id(0)\n"),
        ("the number of programs", "* rstd\n", "* rstd + tl.num_programs(0)\n"),
        ("a loop", "    total = ", "    for i in range(3):\n        x = x + 1\n    total = "),
        ("an early end", "    rstd = ", "    if WITH_WEIGHT:\n        return\n    rstd = "),
        ("a branch about a number", "if WITH_WEIGHT:", "if n_cols > 3:"),
        ("a branch about a row", "if WITH_WEIGHT:", "if rstd > 3:"),
        ("a name that may be two things", "        x = x * w\n", "        rstd = x * w\n"),
        ("a name that is one or the other", "        x = x * w\n", "        z = w\n    else:\n        z = x\n"),
        ("a second block of columns", "* rstd\n", "* rstd * tl.arange(0, BLOCK_SIZE)\n"),
        ("a scan over the row", "* rstd\n", "* tl.cumsum(x, 0)\n"),
        ("a helper that looks at other elements", "twice(x)", "neighbours(x)"),
        ("a helper that asks for its place", "return x + x", "return x + tl.program_id(0)"),
        ("a sum that says more", "tl.sum(twice(x))", "tl.sum(twice(x), axis=0, keep_dims=True)"),
        ("a number of the row taken for one of columns", "tl.sum(twice(x))", "tl.sum(rstd)"),
        ("an atomic", "    tl.store(rstd_ptr + row, total)", "    tl.atomic_add(rstd_ptr, total)"),
        ("a store to what all rows share", "tl.store(rstd_ptr + row, total)", "tl.store(w_ptr + cols, x)"),
        ("columns stored in each row", "cols, x / total", "cols, cols"),
        ("columns behind the last one", 'other=-float("inf")', "other=cols"),
        ("no row is loaded", "x = tl.load(x_ptr + cols, mask=mask", "x = tl.load(w_ptr + cols, mask=mask"),
        ("a name that the kernel needs", "    cols = ", "    row_mask = 1\n    cols = "),
        ("the kernel's own number of rows", "    cols = ", "    n_rows = 1\n    cols = "),
        ("a name that the launch needs", "    n_rows, n_cols = ", "    block_row = 1\n    n_rows, n_cols = "),
        ("rows without a name", "(n_rows,)", "(x.shape[0],)"),
        ("a sum in another type", "tl.sum(twice(x))", "tl.sum(twice(x), dtype=tl.float32)"),
        ("a sum as a method", "tl.sum(twice(x))", "x.sum()"),
        ("a mask that is none", "tl.load(rstd_ptr + row)", "tl.load(rstd_ptr + row, mask=None)"),
        ("arguments that nobody counts", "        y,\n        x,\n", "        *both,\n"),
        ("no triton", "import triton\n", "from triton import jit\n"),
        ("a grid that is a function", "(n_rows,)", "lambda meta: (n_rows,)"),
        ("a block without a name", "BLOCK_SIZE=BLOCK_SIZE", "BLOCK_SIZE=1024"),
        ("rows that come from no variable", "        x,\n", "        x.view(-1),\n"),
        ("rows that became others", "    _k[(n_rows,)]", "    grid = (n_rows,)\n    n_rows = 3\n    _k[grid]"),
    ],
)  # fmt: skip
def test_rows_stay_alone_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in ROWS
    assert at_once(ROWS.replace(before, after)) is None, why


def test_a_kernel_that_is_launched_twice_is_left_alone() -> None:
    launch = ROWS[ROWS.index("    _k[(n_rows,)]") :]
    assert at_once(ROWS + launch) is None


def test_a_maximum_of_two_is_no_reduction() -> None:
    after = at_once(ROWS.replace("* rstd\n", "* max(rstd, 0)\n"))
    assert after is not None and "* max(rstd, 0)\n" in after


def test_a_name_may_become_a_number_of_the_row() -> None:
    after = at_once(
        ROWS.replace("x / total", "x - total")
        .replace("total)\n", "x)\n")
        .replace(
            "    tl.store(rstd_ptr + row, x)", "    y = x\n    y = tl.sum(y, axis=0)\n    tl.store(rstd_ptr + row, y)"
        )
    )
    assert after is not None and "    y = tl.sum(y, axis=1)[:, None]\n" in after
