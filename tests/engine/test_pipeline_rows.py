"""A loop over a program's run of rows loads ahead, as far as its rows fit into shared memory."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import pipeline_rows
from tests.engine.library import changes, sample

RUN = '''"""An op in the shape that the norms of Liger have."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _k(
    x_ptr,
    x_stride,  # elements from row to row
    out_ptr,
    n_rows,
    n_cols,
    rows_per_program: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,  # all columns
    WITH_SUM: tl.constexpr = True,
):
    pid = tl.program_id(0).to(tl.int64)
    first = pid * rows_per_program
    last = min((pid + 1) * rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for row in range(first, last):  # one after the other
        row_ptr = x_ptr + row * x_stride
        total += tl.load(row_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + pid * n_cols + cols, total, mask=mask)


def run(x, out):
    n_rows, n_cols = x.shape
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    BLOCK_SIZE, num_warps = settings(n_cols)
    rows_per_program = math.ceil(n_rows / programs)
    more = {}

    # a program on each multiprocessor
    _k[(programs,)](
        x,
        x.stride(0),
        out,
        n_rows,
        n_cols,
        rows_per_program=rows_per_program,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
        **more,
    )
'''


def pipelined(text: str) -> str | None:
    found = pipeline_rows.rewrite(text)
    return found.text if found is not None else None


def test_the_loop_the_constant_and_the_launch_change_and_nothing_else() -> None:
    after = pipelined(RUN)
    assert after is not None
    ast.parse(after)
    gone, new = changes(RUN, after)
    assert gone == ["    for row in range(first, last):  # one after the other"]
    assert new == [
        "    ROW_STAGES: tl.constexpr = 1,",
        "    for row in tl.range(first, last, num_stages=ROW_STAGES):  # one after the other",
        f"    # {pipeline_rows.WHY}",
        "    row_stages = 3 if n_cols % 16 == 0 and BLOCK_SIZE * x.element_size() <= 49152 else 1",
        "        ROW_STAGES=row_stages,",
    ]
    assert "    WITH_SUM: tl.constexpr = True,\n    ROW_STAGES: tl.constexpr = 1,\n):" in after
    assert "49152 else 1\n    # a program on each" in after


def test_rows_of_all_tensors_count_that_a_turn_loads() -> None:
    after = pipelined(sample("rms_norm"))
    assert after is not None
    assert "BLOCK_SIZE * (dY.element_size() + X.element_size()) <= 49152" in after


def test_a_loop_that_loads_ahead_is_left_alone() -> None:
    after = pipelined(RUN)
    assert after is not None and pipelined(after) is None


def test_a_launch_in_a_branch_asks_there() -> None:
    start = RUN.index("    # a program on each")
    indented = "".join(f"    {line}\n" for line in RUN[start:].splitlines())
    after = pipelined(f"{RUN[:start]}    if n_cols > 256:\n{indented}")
    assert after is not None
    ast.parse(after)
    assert "        row_stages = 3 if n_cols % 16 == 0 and BLOCK_SIZE * x.element_size() <= 49152 else 1\n" in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("rows that are not its own", "(pid + 1) * rows_per_program", "(pid + 2) * rows_per_program"),
        ("no end", "min((pid + 1) * rows_per_program, n_rows)", "(pid + 1) * rows_per_program"),
        ("another start", "first = pid * rows_per_program", "first = pid"),
        ("a stride", "range(first, last)", "range(first, last, 2)"),
        ("a loop of constants", "range(first, last)", "tl.static_range(first, last)"),
        ("a second loop", "    tl.store(", "    for _ in range(2):\n        pass\n    tl.store("),
        ("a loop in it", "        row_ptr =", "        for _ in range(2):\n            pass\n        row_ptr ="),
        ("no rows are loaded", "tl.load(row_ptr + cols, mask=mask, other=0.0)", "tl.load(row_ptr)"),
        ("the same row each time", "x_ptr + row * x_stride", "x_ptr + pid * x_stride"),
        ("an atomic to what is read", "        row_ptr =", "        tl.atomic_add(x_ptr, 1.0)\n        row_ptr ="),
        ("an atomic that is asked", "        row_ptr =", "        a = tl.atomic_add(out_ptr, 1.0)\n        row_ptr ="),
        ("another atomic", "        row_ptr =", "        tl.atomic_max(out_ptr, 1.0)\n        row_ptr ="),
        ("an atomic to who knows what", "        row_ptr =", "        tl.atomic_add(there, 1.0)\n        row_ptr ="),
        ("a store to one place", "        total +=", "        tl.store(x_ptr + pid + cols, 0)\n        total +="),
        ("a store to the next", "        total +=", "        tl.store(row_ptr + x_stride + cols, 0)\n        total +="),
        ("a barrier", "        row_ptr =", "        tl.debug_barrier()\n        row_ptr ="),
        ("a second axis", "tl.program_id(0)", "tl.program_id(0) + tl.program_id(1)"),
        ("a comment behind the last parameter", "constexpr = True,", "constexpr = True,  # or not"),
        ("a tensor that has no name", "        x,\n", "        x[1:],\n"),
        ("a block that has no name", "BLOCK_SIZE=BLOCK_SIZE", "BLOCK_SIZE=1024"),
        ("a name that is taken", "    more = {}", "    more = {}\n    row_stages = 1\n    print(row_stages)"),
        ("a decorator of its own", "@triton.jit\ndef _k", "@triton.autotune([], [])\n@triton.jit\ndef _k"),
        ("a launch in a loop", "    _k[(programs,)](", "    for _ in (1,):\n     _k[(programs,)]("),
    ],
)  # fmt: skip
def test_a_loop_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in RUN
    assert pipelined(RUN.replace(before, after)) is None, why


MADE = RUN.replace("def run(x, out):\n", "def run(x):\n    out = torch.zeros_like(x)\n")
ADDS = MADE.replace(
    "        row_ptr =", "        tl.atomic_add(out_ptr + row % 2 * n_cols + cols, 1.0, mask=mask)\n        row_ptr ="
)
"""A program adds to what it never reads, and the host has made."""


def test_rows_may_be_added_to_what_nobody_reads() -> None:
    after = pipelined(ADDS)
    assert after is not None
    assert changes(ADDS, after) == changes(MADE, pipelined(MADE) or "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    out = torch.zeros_like(x)\n", "    out = x\n"),
        ("    out = torch.zeros_like(x)\n", "    out = x.view(-1, 8)\n"),
        ("    out = torch.zeros_like(x)\n", "    out = torch.zeros_like(x, out=x)\n"),
        ("    out = torch.zeros_like(x)\n", "    out = torch.zeros_like(x)\n    if x.is_cuda:\n        out = x\n"),
        ("    out = torch.zeros_like(x)\n", "    out = torch.zeros_like(x)\n    x = out[1:]\n"),
        ("        out,\n", "        x,\n"),
        ("        out,\n", "        out[0],\n"),
        ("    total = tl.zeros", "    out_ptr = x_ptr\n    total = tl.zeros"),
    ],
)  # fmt: skip
def test_what_is_added_to_must_not_be_read_by_another_name(before: str, after: str) -> None:
    assert before in ADDS and pipelined(ADDS) is not None
    assert pipelined(ADDS.replace(before, after)) is None


def test_either_of_two_new_tensors_is_new() -> None:
    either = "    out = torch.zeros_like(x)\n    if x.is_cuda:\n        also = torch.empty(4)\n        out = also\n"
    assert pipelined(ADDS.replace("    out = torch.zeros_like(x)\n", either)) is not None


def test_a_store_to_where_the_row_was_loaded_is_no_hindrance() -> None:
    back = RUN.replace(
        "    tl.store(out_ptr", "        tl.store(row_ptr + cols, total, mask=mask)\n    tl.store(out_ptr"
    )
    assert back != RUN and pipelined(back) is not None
    twice = back.replace("    out_ptr,\n", "    out_ptr,\n    also_ptr,\n").replace(
        "        out,\n", "        out,\n        x,\n"
    )
    twice = twice.replace("tl.store(row_ptr + cols", "tl.store(also_ptr + pid * x_stride + cols")
    assert pipelined(twice) is None
    assert pipelined(twice.replace("        out,\n        x,\n", "        out,\n        out,\n")) is not None


HELPER = """@triton.jit
def _of(ptr, cols, mask):
    return tl.load(ptr + cols, mask=mask, other=0.0)


@triton.jit
def _more(ptr, cols, mask):
    return _of(ptr, cols, mask) + 1


@triton.jit
def _twice(x):
    return x + x


"""


@pytest.mark.parametrize(
    ("brought", "called", "taken"),
    [
        ("from lib import half", "half", False),
        ("import lib", "lib.half", False),
        ("from lib import half", "tl.abs", True),
    ],
)
def test_a_function_of_another_file_may_load(brought: str, called: str, taken: bool) -> None:
    text = RUN.replace("import torch\n", f"import torch\n{brought}\n")
    text = text.replace("        row_ptr =", f"        total += {called}(total)\n        row_ptr =")
    assert (pipelined(text) is not None) is taken


@pytest.mark.parametrize(("called", "taken"), [("_of", False), ("_more", False), ("_twice", True)])
def test_a_function_of_the_file_may_work_out_but_not_load(called: str, taken: bool) -> None:
    handed = "total" if taken else "out_ptr + row * x_stride, cols, mask"
    text = RUN.replace("@triton.jit\ndef _k", f"{HELPER}@triton.jit\ndef _k")
    text = text.replace("        row_ptr =", f"        total += {called}({handed})\n        row_ptr =")
    ast.parse(text)
    assert (pipelined(text) is not None) is taken


@pytest.mark.parametrize(
    ("asks", "taken"),
    [
        ("w.stride(0) if w is not None else 0", False),
        ("w is not None and w.stride(0)", False),
        ("w.stride(0), w is not None", True),
        ("w.stride(0)", True),
    ],
)
def test_rows_of_what_may_not_be_there_are_not_asked_for_their_size(asks: str, taken: bool) -> None:
    load = "        if WITH_SUM:\n            total += tl.load(w_ptr + row * x_stride + cols)\n"
    text = RUN.replace("        row_ptr =", f"{load}        row_ptr =").replace(
        "    out_ptr,\n", "    out_ptr,\n    w_ptr,\n"
    )
    text = text.replace("        out,\n", "        out,\n        w,\n").replace(
        "    more = {}", f"    more = {{}}\n    print({asks})"
    )
    ast.parse(text)
    assert (pipelined(text) is not None) is taken


@pytest.mark.parametrize(
    ("why", "before", "after", "asked"),
    [
        ("rows that are never cut", ", mask=mask", "", True),
        ("nobody compares columns", "    mask = cols < n_cols\n", "    mask = cols != n_cols\n", False),
        ("two widths", "    mask = cols < n_cols\n", "    mask = (cols < n_cols) & (cols < x_stride)\n", False),
        (
            "rows are compared as well",
            "    mask = cols < n_cols\n",
            "    mask = (cols < n_cols) & (cols < n_rows)\n",
            True,
        ),
        ("something else is", "    mask = cols < n_cols\n", "    mask = (cols < n_cols) & (pid < n_rows)\n", True),
        ("a width that is counted out", "        n_cols,\n", "        x.shape[1],\n", False),
        (
            "what was loaded is compared",
            "    tl.store(",
            "    total = tl.where(total < x_stride, total, 0.0)\n    tl.store(",
            True,
        ),
        ("with what is no width", "cols < n_cols", "cols <= n_cols", False),
        ("a width of its own", "cols < n_cols", "cols < BLOCK_SIZE // 2", False),
        (
            "a number beside the columns",
            "    mask = cols < n_cols\n",
            "    edge = 8\n    mask = (cols < n_cols) & (cols < edge)\n",
            True,
        ),
    ],
)
def test_rows_that_are_no_whole_vectors_are_loaded_when_they_are_needed(
    why: str, before: str, after: str, asked: bool
) -> None:
    text = RUN.replace(before, after)
    assert text != RUN, why
    found = pipelined(text)
    assert found is not None
    assert ("row_stages = 3 if n_cols % 16 == 0 and " in found) is asked
    assert ("row_stages = 3 if BLOCK_SIZE" in found) is not asked


def test_a_width_that_no_launch_says_is_not_asked_for() -> None:
    text = (
        RUN.replace("    n_cols,\n    rows", "    rows")
        .replace("        n_cols,\n        rows", "        rows")
        .replace("    WITH_SUM: tl.constexpr = True,", "    n_cols: tl.constexpr = 128,")
    )
    found = pipelined(text)
    assert found is not None and "row_stages = 3 if BLOCK_SIZE" in found


def test_each_load_of_a_turn_counts_whatever_it_is_of() -> None:
    loads = "        total += tl.load(w_ptr + cols) + tl.load(w_ptr + 2 * n_cols + cols)\n"
    text = RUN.replace("        row_ptr =", f"{loads}        row_ptr =").replace(
        "    out_ptr,\n", "    out_ptr,\n    w_ptr,\n"
    )
    after = pipelined(text.replace("        out,\n", "        out,\n        w,\n"))
    assert after is not None
    assert "and BLOCK_SIZE * (2 * w.element_size() + x.element_size()) <= 49152 else 1" in after


def test_what_is_new_is_a_constant_wherever_the_others_stand() -> None:
    plain = RUN.replace("    WITH_SUM: tl.constexpr = True,\n", "    scale: tl.float32 = 1.0,\n")
    after = pipelined(plain)
    assert after is not None and "    scale: tl.float32 = 1.0,\n    ROW_STAGES: tl.constexpr = 1,\n" in after
    assert pipelined(plain.replace(": tl.constexpr", "")) is None


def test_rows_that_some_of_the_others_share_count_as_well() -> None:
    load = "        w = tl.load(w_ptr + row // 4 * x_stride + cols)\n"
    shared = RUN.replace("        row_ptr =", f"{load}        row_ptr =")
    shared = shared.replace("    out_ptr,\n", "    out_ptr,\n    w_ptr,\n")
    shared = shared.replace("        out,\n", "        out,\n        w,\n")
    after = pipelined(shared)
    assert after is not None
    assert "and BLOCK_SIZE * (w.element_size() + x.element_size()) <= 49152 else 1" in after


TUNED = '''"""An op in the shape that dyt of Liger has."""

import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": n}) for n in (512, 1024)], key=["n_cols"])
@triton.jit
def _k(x_ptr, y_ptr, n_rows, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    first = tl.cast(tl.program_id(1), tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(first, n_rows, tl.num_programs(1)):
        total += tl.load(x_ptr + row * n_cols + col, mask=col < n_cols, other=0.0)
    tl.store(y_ptr + first * n_cols + col, total, mask=col < n_cols)
'''


def test_a_kernel_that_tunes_itself_may_take_every_nth_row() -> None:
    after = pipelined(TUNED)
    assert after is not None
    gone, new = changes(TUNED, after)
    assert gone == ["    for row in range(first, n_rows, tl.num_programs(1)):"]
    assert new == [
        f"    # {pipeline_rows.WHY_TUNED}",
        "    for row in tl.range(first, n_rows, tl.num_programs(1), num_stages=4):",
    ]
    assert pipelined(after) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("nobody drops what does not fit", '@triton.autotune(configs=[512, 1024], key=[""])\n', ""),
        ("one set, of which nobody drops any", "configs=[512, 1024]", "configs=[1024]"),
        ("what it stores", "    total += ", "    tl.store(x_ptr + first * n_cols + col, total)\n        total += "),
        ("the step of another axis", "tl.num_programs(1)", "tl.num_programs(0)"),
        ("a step of its own", "tl.num_programs(1)", "7"),
        ("an atomic", "    total += ", "    tl.atomic_add(y_ptr, 1.0)\n        total += "),
        ("the same row each time", "x_ptr + row * n_cols", "x_ptr + first * n_cols"),
    ],
)  # fmt: skip
def test_every_nth_row_waits_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    sets = '[triton.Config({"BLOCK": n}) for n in (512, 1024)], key=["n_cols"]'
    text = TUNED.replace(sets, '[512, 1024], key=[""]')
    assert before in text and pipelined(text) is not None
    assert pipelined(text.replace(before, after)) is None, why
