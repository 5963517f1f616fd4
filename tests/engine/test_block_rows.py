"""A loop over a program's run of rows goes on in blocks of two or four, as far as they are short."""

from __future__ import annotations

import ast

import pytest

from bot.engine import runs, shapes, source
from bot.engine.shapes import Nothing
from bot.engine.source import NotUnderstood
from bot.engine.transforms import block_rows, more_programs, pipeline_rows
from tests.engine.library import changes, sample
from tests.engine.test_pipeline_rows import RUN


def blocked(text: str) -> str | None:
    found = block_rows.rewrite(text)
    return found.text if found is not None else None


# A number of each row, a sum over the row, a running number, a store of the row, a branch about a constant
NORM = (
    RUN.replace("    out_ptr,\n", "    out_ptr,\n    rstd_ptr,\n    dx_ptr,\n    each_ptr,\n", 1)
    .replace("        out,\n", "        out,\n        rstd,\n        dx,\n        each,\n", 1)
    .replace("def run(x, out):", "def run(x, out, rstd, dx, each):")
    .replace(
        "    for row in",
        "    largest = 0.0\n    for row in",
    )
    .replace(
        "        total += tl.load(row_ptr + cols, mask=mask, other=0.0).to(tl.float32)\n",
        """        v = tl.load(row_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        v = v * rstd
        slope = tl.sum(v * v, axis=0) / n_cols
        if WITH_SUM:
            total += v * rstd
        largest += slope
        tl.store(dx_ptr + row * n_cols + cols, v - slope, mask=mask)
""",
    )
    .replace(
        "    tl.store(out_ptr + pid * n_cols",
        "    tl.store(each_ptr + pid, largest)\n    tl.store(out_ptr + pid * n_cols",
    )
)
LINES = [
    "    # Several short rows a turn: their loads are under way together, and all their sums wait once.",
    "    row_bytes = BLOCK_SIZE * x.element_size()",
    "    block_row = 4 if row_bytes <= 8192 else 2 if row_bytes <= 16384 else 1",
    "    block_row = block_row if rows_per_program >= 4 else 1",
]


def test_loop_loads_sums_and_launch_change_and_nothing_else() -> None:
    after = blocked(NORM)
    assert after is not None
    ast.parse(after)
    gone, new = changes(NORM, after)
    assert gone == [
        "    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
        "    largest = 0.0",
        "    for row in range(first, last):  # one after the other",
        "        v = tl.load(row_ptr + cols, mask=mask, other=0.0).to(tl.float32)",
        "        rstd = tl.load(rstd_ptr + row)",
        "        slope = tl.sum(v * v, axis=0) / n_cols",
        "        tl.store(dx_ptr + row * n_cols + cols, v - slope, mask=mask)",
        "    tl.store(each_ptr + pid, largest)",
        "    tl.store(out_ptr + pid * n_cols + cols, total, mask=mask)",
    ]
    assert new == [
        "    BLOCK_ROW: tl.constexpr = 1,",
        "    total = tl.zeros((BLOCK_ROW, BLOCK_SIZE), dtype=tl.float32)",
        "    largest = tl.zeros((BLOCK_ROW, 1), dtype=tl.float32)",
        "    for start in range(first, last, BLOCK_ROW):  # one after the other",
        "        # A row behind the last one is masked and adds nothing.",
        "        row = start + tl.arange(0, BLOCK_ROW)[:, None]",
        "        row_mask = row < last",
        "        v = tl.load(row_ptr + cols, mask=row_mask & mask, other=0.0).to(tl.float32)",
        "        rstd = tl.load(rstd_ptr + row, mask=row_mask, other=0.0)",
        "        slope = tl.sum(v * v, axis=1)[:, None] / n_cols",
        "        tl.store(dx_ptr + row * n_cols + cols, v - slope, mask=row_mask & mask)",
        "    tl.store(each_ptr + pid, tl.sum(largest))",
        "    tl.store(out_ptr + pid * n_cols + cols, tl.sum(total, axis=0), mask=mask)",
        *LINES,
        "        BLOCK_ROW=block_row,",
    ]


def test_a_loop_that_loads_ahead_goes_on_so_in_blocks() -> None:
    ahead = pipeline_rows.rewrite(RUN)
    assert ahead is not None
    after = blocked(ahead.text)
    assert after is not None
    assert "for start in tl.range(first, last, BLOCK_ROW, num_stages=ROW_STAGES):" in after
    assert "    ROW_STAGES: tl.constexpr = 1,\n    BLOCK_ROW: tl.constexpr = 1,\n):" in after
    assert "        ROW_STAGES=row_stages,\n        BLOCK_ROW=block_row,\n        **more,\n" in after


def test_programs_that_share_a_multiprocessor_share_its_registers() -> None:
    """Two programs with as many rows each as one would have had do not fit beside each other."""
    two = more_programs.rewrite(NORM)
    assert two is not None
    after = blocked(two.text)
    assert after is not None
    assert "    block_row = 4 if row_bytes <= 4096 else 2 if row_bytes <= 8192 else 1\n" in after


def test_a_block_is_not_blocked_again() -> None:
    after = blocked(RUN)
    assert after is not None and blocked(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm"])
def test_no_sum_of_the_sample_needs_to_be_told_which_rows_are_there(kernel: str) -> None:
    after = blocked(sample(kernel))
    assert after is not None
    assert "tl.where(row_mask" not in after and after.count("row_mask & mask") == 3


@pytest.mark.parametrize(
    ("why", "value"),
    [
        ("a number that no load made", "v + 1.0"),
        ("a function of zero", "tl.exp(v)"),
        ("a row that is filled with something else", "tl.load(row_ptr + cols, mask=mask, other=1.0)"),
        ("a name that may be one", "w"),
    ],
)  # fmt: skip
def test_a_row_that_is_not_there_is_left_out_of_a_sum_it_might_add_to(why: str, value: str) -> None:
    text = NORM.replace("            total += v * rstd\n", f"            total += {value}\n").replace(
        "        v = v * rstd\n", "        v = v * rstd\n        w = v - 1\n"
    )
    after = blocked(text)
    assert after is not None and "            total += tl.where(row_mask, " in after, why


@pytest.mark.parametrize("value", ["-v / n_cols", "(v + v) * 2.0", "tl.cast(v, tl.float32) * rstd"])
def test_a_row_of_zeros_adds_nothing_and_is_not_asked(value: str) -> None:
    after = blocked(NORM.replace("total += v * rstd", f"total += {value}"))
    assert after is not None and f"            total += {value}\n" in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the last row is used behind the loop", "tl.store(each_ptr + pid, largest)", "tl.store(each_ptr + pid, rstd)"),
        ("a sum that is read in the loop", "largest += slope", "largest += slope * largest"),
        ("a number from row to row", "largest += slope", "largest = slope"),
        ("a sum that does not begin with zero", "largest = 0.0", "largest = 1.0"),
        ("a sum of what is the same in each row", "largest += slope", "largest += n_cols"),
        ("a branch about a number", "if WITH_SUM:", "if n_rows > 3:"),
        ("a branch about a row", "if WITH_SUM:", "if slope > 3:"),
        ("a sum of rows' numbers", "tl.sum(v * v, axis=0)", "tl.sum(rstd, axis=0)"),
        ("something unknown", "v - slope", "mystery(v)"),
        ("a second block of columns", "v - slope", "v * tl.arange(0, BLOCK_SIZE)"),
        ("a store that is not of its row", "dx_ptr + row * n_cols + cols", "dx_ptr + cols"),
        ("a name for two things", "        v = v * rstd\n", "        v = v * rstd\n        v = tl.sum(v, axis=0)\n"),
        ("an atomic", "        v = v * rstd\n", "        v = v * rstd\n        tl.atomic_add(each_ptr, 1.0)\n"),
        ("a name that the loop needs", "largest = 0.0", "largest = 0.0\n    start = 1"),
        ("a name that the launch needs", "    more = {}", "    more = {}\n    row_bytes = 1\n    print(row_bytes)"),
        ("rows of a program without a name", "rows_per_program=rows_per_program", "rows_per_program=7"),
    ],
)  # fmt: skip
def test_rows_stay_alone_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in NORM
    assert blocked(NORM.replace(before, after)) is None, why


def test_what_is_zero_for_a_row_that_is_not_there() -> None:
    kernel = source.kernel_named(source.parse(NORM), "_k")
    assert kernel is not None
    found = shapes.shapes_of(kernel, runs.run_of(kernel))
    nothing = Nothing(found)
    assert found.sums == {"total": shapes.PER_COLUMN, "largest": shapes.NUMBER}
    assert nothing.zero == {"v", "rstd", "slope"} and "row_ptr" in nothing.tame


def test_a_kernel_without_columns_has_no_shapes() -> None:
    text = NORM.replace("cols = tl.arange(0, BLOCK_SIZE)", "cols = n_cols")
    kernel = source.kernel_named(source.parse(text), "_k")
    assert kernel is not None
    with pytest.raises(NotUnderstood, match="block of columns"):
        shapes.shapes_of(kernel, runs.run_of(kernel))
