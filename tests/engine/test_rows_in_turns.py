"""Programs that go through runs of rows take them in turns."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import block_rows, pipeline_rows, rows_in_turns
from tests.engine.library import changes, interpret, sample

OP = '''"""An op in the shape of Liger's norms: rows are doubled, and each program adds up its own."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _double(
    x_ptr,
    x_stride,  # elements from row to row
    share_ptr,
    n_rows,
    n_cols,
    rows_per_program,
    scale,
    BLOCK_SIZE: tl.constexpr,
    ROW_STAGES: tl.constexpr = 1,
):
    pid = tl.program_id(0).to(tl.int64)
    first = pid * rows_per_program
    last = min((pid + 1) * rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    # all of them
    for row in tl.range(first, last, num_stages=ROW_STAGES):
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0)
        total += x
        tl.store(x_ptr + row * x_stride + cols, x * scale, mask=mask)
    tl.store(share_ptr + pid * n_cols + cols, total, mask=mask)


def run(x, programs=4):
    n_rows, n_cols = x.shape
    share = torch.empty(programs, n_cols)
    rows_per_program = math.ceil(n_rows / programs)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    # one launch
    _double[(programs,)](x, x.stride(0), share, n_rows, n_cols, rows_per_program, 2.0, BLOCK_SIZE=BLOCK_SIZE)
    return share.sum(0)
'''
ALONE = OP.replace("first", "start")
"""A name that a loop in blocks of rows would need is taken: it takes one a turn."""

LAUNCH = "_double[(programs,)](x, x.stride(0), share, n_rows, n_cols, "
STEP = "tl.num_programs(0) * BLOCK_ROW"


def in_turns(text: str) -> str | None:
    found = rows_in_turns.rewrite(text)
    return found.text if found is not None else None


def blocked(text: str) -> str:
    found = block_rows.rewrite(text)
    assert found is not None
    return found.text


def test_the_bounds_the_parameter_and_what_only_they_needed_go() -> None:
    after = in_turns(ALONE)
    assert after is not None
    ast.parse(after)
    assert changes(ALONE, after) == (
        [
            "",
            "import math",
            "    rows_per_program,",
            "    start = pid * rows_per_program",
            "    last = min((pid + 1) * rows_per_program, n_rows)",
            "    for row in tl.range(start, last, num_stages=ROW_STAGES):",
            "    rows_per_program = math.ceil(n_rows / programs)",
            f"    {LAUNCH}rows_per_program, 2.0, BLOCK_SIZE=BLOCK_SIZE)",
        ],
        [
            f"    # {rows_in_turns.WHY}",
            "    for row in tl.range(pid, n_rows, tl.num_programs(0), num_stages=ROW_STAGES):",
            f"    {LAUNCH}2.0, BLOCK_SIZE=BLOCK_SIZE)",
        ],
    )
    lines = after.splitlines()
    assert lines[lines.index(f"    # {rows_in_turns.WHY}") - 1] == "    # all of them"


def test_a_block_of_rows_comes_first_and_goes_on_by_all_programs() -> None:
    before = blocked(OP)
    after = in_turns(before)
    assert in_turns(OP) is None and after is not None
    assert changes(before, after) == (
        [
            "    rows_per_program,",
            "    first = pid * rows_per_program",
            "    last = min((pid + 1) * rows_per_program, n_rows)",
            "    for start in tl.range(first, last, BLOCK_ROW, num_stages=ROW_STAGES):",
            "        row_mask = row < last",
            "        rows_per_program,",
        ],
        [
            f"    # {rows_in_turns.WHY}",
            f"    for start in tl.range(pid * BLOCK_ROW, n_rows, {STEP}, num_stages=ROW_STAGES):",
            "        row_mask = row < n_rows",
        ],
    )
    assert "rows_per_program = math.ceil(n_rows / programs)\n" in after and "import math\n" in after


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, k, programs in ((0, 5, 2), (1, 5, 4), (4, 16, 4), (9, 16, 4), (31, 33, 3), (64, 8, 1), (63, 8, 4)):
    x = torch.arange(1.0, n * k + 1).reshape(n, k)
    mine, theirs = x.clone(), x.clone()
    expected, found = before.run(mine, programs), after.run(theirs, programs)
    assert torch.equal(mine, theirs) and torch.equal(theirs, 2 * x), (n, k)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found, x.sum(0))
"""


@pytest.mark.parametrize("text", [ALONE, blocked(OP)])
def test_each_row_is_taken_once(tmp_path: Path, text: str) -> None:
    after = in_turns(text)
    assert after is not None
    interpret(tmp_path, RUN, before=text, after=after)


@pytest.mark.parametrize("text", [ALONE, blocked(OP)])
def test_it_is_done_once(text: str) -> None:
    after = in_turns(text)
    assert after is not None and in_turns(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm"])
def test_rows_that_are_not_loaded_ahead_are_left_alone_and_the_others_follow_their_blocks(kernel: str) -> None:
    assert in_turns(sample(kernel)) is None
    ahead = pipeline_rows.rewrite(sample(kernel))
    assert ahead is not None and in_turns(ahead.text) is None
    after = in_turns(blocked(ahead.text))
    assert after is not None and "tl.num_programs(0) * BLOCK_ROW, num_stages=ROW_STAGES" in after


def test_a_kernel_that_others_launch_is_left_alone() -> None:
    assert rows_in_turns.rewrite(ALONE, relied_on=("_double",)) is None
    assert rows_in_turns.rewrite(ALONE, relied_on=("run",)) is not None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("not loaded ahead", "tl.range(start, last, num_stages=ROW_STAGES)", "range(start, last)"),
        ("rows in 32 bits", ".to(tl.int64)", ""),
        ("no share of all rows", "math.ceil(n_rows / programs)", "2"),
        ("a share of something else", "math.ceil(n_rows / programs)", "math.ceil(n_cols / programs)"),
        ("rows that some programs take", "_double[(programs,)]", "_double[(programs + 1,)]"),
        ("a second launch", "    return share", "    _double[(1,)](x)\n    return share"),
        ("another name for the kernel", "    return share", "    again = _double\n    return share"),
        ("a first row that something else needs", "        total += x\n", "        total += x * start\n"),
        ("a last row that something else needs", "        total += x\n", "        total += x * last\n"),
        ("a share that something else needs", "        total += x\n", "        total += x * rows_per_program\n"),
        ("an atomic", "        total += x\n", "        tl.atomic_add(share_ptr, 1.0)\n"),
        ("a barrier", "        total += x\n", "        tl.debug_barrier()\n"),
        ("a way out", "        total += x\n", "        if row > 5:\n            break\n"),
        ("a loop in it", "        total += x\n", "        for i in range(2):\n            total += x\n"),
        ("the row before it", "tl.load(x_ptr + row * x_stride + cols", "tl.load(x_ptr + (row - 1) * x_stride + cols"),
        ("a comment on the first row", "    start = pid", "    # here\n    start = pid"),
        ("a comment on the last row", "    last = min", "    # up to here\n    last = min"),
        ("a comment on the parameter", "    rows_per_program,\n", "    rows_per_program,  # of each\n"),
        ("a comment on what the host says", "    rows_per_program = math", "    # shared\n    rows_per_program = math"),
        ("a comment on the import", "import math\n", "import math  # for its ceil\n"),
        ("a first row that is made twice", "    cols = tl", "    start = start + 0\n    cols = tl"),
        ("arguments in a list", "2.0, BLOCK_SIZE=", "*[2.0], BLOCK_SIZE="),
        ("a comment in the range", "tl.range(start, last,", "tl.range(\n        start,  # of its own\n        last,"),
        ("a comment above the parameter", "    rows_per_program,\n", "    # of each\n    rows_per_program,\n"),
        ("a comment that speaks of it", "    # all of them", "    # rows_per_program of them"),
        ("a comment above the argument", "n_cols, rows_per", "n_cols,\n        # shared\n        rows_per"),
        ("a kernel that others may ask for", "def run(x", "__all__ = ['_double', 'run']\n\n\ndef run(x"),
        ("64 bits that are 32 again", ".to(tl.int64)", ".to(tl.int64).to(tl.int32)"),
        ("other rows than all", "    # all of them", "    n_rows = n_rows - 1\n    # all of them"),
        ("another share than the one that is told", "    cols = tl", "    rows_per_program = 0\n    cols = tl"),
        ("a neighbour that is asked", "        total += x\n", "        total += tl.where(row + 1 < last, x, 0.0)\n"),
        ("columns up to the last row", "        total += x\n", "        total += tl.where(cols < last, x, 0.0)\n"),
    ],
)  # fmt: skip
def test_the_runs_stay_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert ALONE.count(before) == 1
    assert in_turns(ALONE.replace(before, after)) is None, why


ADDED = "        total += x\n"
STORED = "    tl.store(share_ptr + pid * n_cols + cols, total, mask=mask)"
MADE = "    share = torch.empty(programs, n_cols)"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a running maximum", ADDED, "        total = tl.maximum(total, x)\n"),
        ("a sum that is read on the way", "x * scale, mask", "total, mask"),
        ("a product", ADDED, "        total *= x\n"),
        ("a row that is left", STORED, STORED.replace("total", "x")),
        ("which row was the last", STORED, STORED.replace("total", "total + row")),
        ("what comes of a sum is no sum", STORED, STORED.replace("total", "total * total")),
        ("the greatest of the sums", STORED, "    tl.atomic_max(share_ptr + cols, total, mask=mask)"),
        ("rows that know their program", "x * scale, mask", "x * pid, mask"),
        ("a number for each program", "    # all of them", "    scale = tl.load(share_ptr + pid)\n    # all of them"),
        ("sums of runs", "share.sum(0)", "share"),
        ("sums over columns", "share.sum(0)", "share.sum(1)"),
        ("the greatest of them for the host", "share.sum(0)", "share.max(0)"),
        ("sums in a tensor of others", f"{MADE}\n", ""),
        ("columns on the first axis", MADE, "    share = torch.empty(n_cols, programs)"),
        ("a launch that takes them", "    return share", "    _scan[(1,)](share)\n    return share"),
    ],
)  # fmt: skip
def test_the_runs_stay_where_it_matters_which_rows_a_program_has(why: str, before: str, after: str) -> None:
    assert ALONE.count(before) == 1
    assert in_turns(ALONE.replace(before, after)) is None, why


def test_the_runs_stay_where_a_row_needs_the_one_before_it() -> None:
    begun = ALONE.replace("    # all of them", "    before = total\n    # all of them")
    assert in_turns(begun) is not None
    assert in_turns(begun.replace(ADDED, "        total += x * before\n        before = x\n")) is None


def test_the_runs_stay_where_a_function_asks_which_program_it_is() -> None:
    helper = "@triton.jit\ndef _here(n):\n    return n{}\n\n\n@triton.jit\ndef _double("
    called = ALONE.replace("@triton.jit\ndef _double(", helper).replace("x * scale, mask", "x * _here(scale), mask")
    assert in_turns(called.replace("{}", "")) is not None
    assert in_turns(called.replace("{}", " + tl.program_id(0)")) is None


def test_a_launch_in_the_other_branch_may_fill_the_shares_instead() -> None:
    begin = ALONE.index("    # one launch\n")
    end = ALONE.index("    return share")
    launch = "".join(f"    {line}" for line in ALONE[begin:end].splitlines(keepends=True))
    other = "    else:\n        _others[(programs,)](x, share)\n"
    either = f"{ALONE[:begin]}    if n_cols > 1:\n{launch}{other}{ALONE[end:]}"
    assert in_turns(either) is not None
    both = either.replace("    else:\n", "    if n_rows > 1:\n")
    assert in_turns(both) is None


def test_the_runs_stay_where_the_branch_of_the_launch_counts_other_rows() -> None:
    begin, end = ALONE.index("    # one launch\n"), ALONE.index("    return share")
    launch = "".join(f"    {line}" for line in ALONE[begin:end].splitlines(keepends=True))
    within = f"{ALONE[:begin]}    with torch.no_grad():\n{launch}{ALONE[end:]}"
    assert in_turns(within) is not None
    assert in_turns(within.replace("no_grad():\n", "no_grad():\n        n_rows = 2 * n_rows\n")) is None


def test_a_loop_in_lines_becomes_one_line_and_a_share_in_the_launch_goes_with_its_import() -> None:
    lines = "tl.range(\n        start,\n        last,\n        num_stages=ROW_STAGES,\n    )"
    assert in_turns(ALONE.replace("tl.range(start, last, num_stages=ROW_STAGES)", lines)) == in_turns(ALONE)
    share = "math.ceil(n_rows / programs)"
    told = ALONE.replace(f"    rows_per_program = {share}\n", "").replace(
        "n_cols, rows_per_program,", f"n_cols, {share},"
    )
    assert in_turns(told) == in_turns(ALONE)


def test_what_the_host_reads_in_a_default_stays() -> None:
    after = in_turns(ALONE.replace("    # one launch", "    told = lambda n=rows_per_program: n\n    # one launch"))
    assert after is not None and "    rows_per_program = math.ceil(n_rows / programs)\n" in after


@pytest.mark.parametrize(
    "brought", ["from lib import half", "import lib", "from . import lib", "import lib.ops as lib"]
)
def test_what_a_function_of_another_file_does_nobody_knows(brought: str) -> None:
    called = "half" if "half" in brought else "lib.half"
    text = ALONE.replace("import torch\n", f"import torch\n{brought}\n")
    assert in_turns(text) is not None
    assert in_turns(text.replace("        total += x\n", f"        total += {called}(x)\n")) is None
    assert in_turns(text.replace("    total = tl", f"    {called}(cols)\n    total = tl")) is None
    helper = "@triton.jit\ndef twice(x):\n    return 2 * {}(x)\n\n\n@triton.jit\ndef _double("
    through = text.replace("        total += x\n", "        total += twice(x)\n")
    assert in_turns(through.replace("@triton.jit\ndef _double(", helper.format("tl.abs"))) is not None
    assert in_turns(through.replace("@triton.jit\ndef _double(", helper.format(called))) is None
    triton = ALONE.replace("import torch\n", "import torch\nfrom triton.language.math import rsqrt\n")
    assert in_turns(triton.replace("        total += x\n", "        total += rsqrt(x)\n")) is not None


def test_an_import_that_others_need_stays_and_one_among_others_goes_without_a_gap() -> None:
    needed = in_turns(ALONE.replace("share.sum(0)", "share.sum(0) * math.sqrt(1.0)"))
    assert needed is not None and "import math\n\nimport torch\n" in needed
    among = in_turns(ALONE.replace("import math\n", "import functools\nimport math\nimport os\n"))
    assert among is not None and '"""\n\nimport functools\nimport os\n\nimport torch\n' in among
    last = in_turns(ALONE.replace("import math\n", "import functools\nimport math\n"))
    assert last is not None and '"""\n\nimport functools\n\nimport torch\n' in last
    bare = in_turns(ALONE[ALONE.index("import math") :])
    assert bare is not None and bare.startswith("import torch\n")
