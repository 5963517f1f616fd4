"""Named rewrites: what they change, what they leave, and what they refuse."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from bot.analysis.bottleneck import STRATEGIES
from bot.engine import source
from bot.engine.source import LONGEST
from bot.engine.transforms import ACROSS_FILES, TRANSFORMS, more_programs, tile_rows
from bot.engine.transforms.rewrite import Rewrite
from tests.engine.library import OPS, changes, op, sample

ROW_OP = op(
    """
BLOCK_SIZE, num_warps = settings(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
)


LAUNCH = "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)"


@lru_cache
def rewritten(name: str, kernel: str) -> Rewrite | None:
    """What a transform makes of a kernel of the sample; it takes up to a second."""
    return TRANSFORMS[name].rewrite(sample(kernel))


def tiled(text: str) -> str | None:
    found = tile_rows.rewrite(text)
    return found.text if found is not None else None


def test_the_diagnosis_speaks_of_strategies_that_exist() -> None:
    known = {*TRANSFORMS, *ACROSS_FILES, "launch_parameters"}
    assert {name for order in STRATEGIES.values() for name in order} == known


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("text", ["", "def f(:\n", "x = 1\n", "import os\n\x00"])
def test_a_source_without_a_kernel_is_left_alone(name: str, text: str) -> None:
    assert TRANSFORMS[name].rewrite(text) is None
    assert not TRANSFORMS[name].applies(text)


@pytest.mark.parametrize(
    ("kernel", "applying"),
    [
        ("geglu", {"tile_rows", "rows_at_once"}),
        ("rms_norm", {"pipeline_rows", "block_rows", "rows_at_once", "more_programs", "cache_hints"}),
        ("softmax", {"walk_rows", "rows_at_once", "divide_once", "base_two"}),
        (
            "layer_norm",
            {
                *("drop_zero_fill", "walk_rows", "pipeline_rows", "block_rows", "rows_at_once"),
                *("more_programs", "meet_once", "cache_hints"),
            },
        ),
        (
            "cross_entropy",
            {
                *("drop_zero_fill", "tile_rows", "walk_rows", "rows_at_once"),
                *("divide_once", "base_two", "cache_hints"),
            },
        ),
        ("jsd", {"pipeline_steps", "quick_log"}),
    ],
)
def test_each_kernel_of_the_sample_gets_the_rewrites_that_fit_it(kernel: str, applying: set[str]) -> None:
    assert {name for name in TRANSFORMS if rewritten(name, kernel) is not None} == applying


@pytest.mark.parametrize("kernel", ["geglu", "rms_norm", "softmax", "jsd", "layer_norm", "cross_entropy"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_rewrite_parses_and_keeps_every_comment_and_docstring(name: str, kernel: str) -> None:
    before, found = sample(kernel), rewritten(name, kernel)
    if found is None:
        return
    ast.parse(found.text)
    gone, _ = changes(before, found.text)
    assert not any(line.lstrip().startswith(("#", '"""')) for line in gone)
    assert ast.get_docstring(ast.parse(found.text)) == ast.get_docstring(ast.parse(before))


def test_a_row_is_cut_into_tiles_in_three_places_and_nowhere_else() -> None:
    after = tiled(ROW_OP)
    assert after is not None
    gone, new = changes(ROW_OP, after)
    assert gone == [
        "    cols = tl.arange(0, BLOCK_SIZE)  # the whole row",
        "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)",
    ]
    assert new == [
        "    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)  # the whole row",
        f"    # {tile_rows.WHY}",
        "    BLOCK_SIZE, num_warps = min(BLOCK_SIZE, 1024), 4",
        "    _k[(n_rows, triton.cdiv(n_cols, BLOCK_SIZE))](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)",
    ]


def test_a_tiled_kernel_is_not_tiled_again() -> None:
    after = tiled(ROW_OP)
    assert after is not None and tiled(after) is None


def test_forward_and_backward_of_a_file_are_tiled_together() -> None:
    found = tile_rows.rewrite(sample("geglu"))
    assert found is not None
    assert found.kernels == ("_geglu_forward_kernel", "_geglu_backward_kernel")


def test_a_rule_of_ours_makes_room_for_the_tile() -> None:
    with_rule = ROW_OP.replace(
        "settings(n_cols)\n", "settings(n_cols)\n    # Eight (estimated for sm_90).\n    num_warps = 8\n"
    )
    assert tiled(with_rule) == tiled(ROW_OP)


def test_a_kernel_that_calls_an_element_wise_helper_of_its_file_is_tiled() -> None:
    helper = "@triton.jit\ndef twice(v):\n    return tl.exp(v) * 2\n\n\n"
    text = ROW_OP.replace("@triton.jit\ndef _k", f"{helper}@triton.jit\ndef _k").replace(
        "v * 2, mask", "twice(v), mask"
    )
    assert tiled(text) is not None
    assert tiled(text.replace("tl.exp(v) * 2", "v / tl.sum(v)")) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a reduction", "v * 2, mask", "v / tl.sum(v, axis=0), mask"),
        ("a maximum", "v * 2, mask", "v - tl.max(v, axis=0), mask"),
        ("a scan", "v * 2, mask", "tl.cumsum(v, 0), mask"),
        ("a product of matrices", "v * 2, mask", "tl.dot(v, v), mask"),
        ("an atomic", "tl.store(", "tl.atomic_add("),
        ("something unknown", "v * 2, mask", "mystery(v), mask"),
        ("a loop", "    v = tl.load(", "    for _ in range(2):\n        pass\n    v = tl.load("),
        ("a store without a mask", "v * 2, mask=mask", "v * 2"),
        ("a load without a mask", "cols, mask=mask)", "cols)"),
        ("a neighbour", "x + row * n_cols + cols,", "x + row * n_cols + cols - 1,"),
        ("columns as numbers", "v * 2, mask", "v * cols, mask"),
        ("another mask", "cols < n_cols", "cols <= n_cols"),
        ("two bounds", "cols < n_cols", "(cols < n_cols) & (cols < 7)"),
        ("a bound that is no parameter", "cols < n_cols", "cols < BLOCK"),
        ("the block as a number", "v * 2, mask", "v * BLOCK_SIZE, mask"),
        ("a second axis", "tl.program_id(0)", "tl.program_id(0) + tl.program_id(1)"),
        ("another axis", "tl.program_id(0)", "tl.program_id(1)"),
        ("the number of programs", "tl.program_id(0)", "tl.program_id(0) + tl.num_programs(0)"),
        ("an early return", "    v = tl.load(", "    if row > 3:\n        return\n    v = tl.load("),
        ("one value a row", "v * 2, mask=mask)", "v * 2, mask=mask)\n    tl.store(y + row, row)"),
        ("an offset start", "tl.arange(0, BLOCK_SIZE)", "tl.arange(1, BLOCK_SIZE)"),
        ("a decorator of its own", "@triton.jit\ndef _k", "@triton.autotune(configs=[], key=[])\n@triton.jit\ndef _k"),
        ("a grid from a function", "_k[(n_rows,)]", "_k[lambda meta: (n_rows,)]"),
        ("a grid in a variable", "_k[(n_rows,)]", "_k[grid]"),
        ("a width that has no name", "(x, y, n_cols, B", "(x, y, n_cols * 1, B"),
        ("a block that has no name", "BLOCK_SIZE=BLOCK_SIZE", "BLOCK_SIZE=1024"),
        ("two launches", "num_warps=num_warps)\n", f"num_warps=num_warps)\n{LAUNCH}\n"),
        ("a launch in a loop", "    _k[(n_rows,)]", "    for _ in (1,):\n        _k[(n_rows,)]"),
    ],
)  # fmt: skip
def test_a_kernel_is_not_tiled_when_it_might_look_beyond_an_element(why: str, before: str, after: str) -> None:
    assert before in ROW_OP
    assert tiled(ROW_OP.replace(before, after)) is None, why


RUN = """
import importlib, sys, torch

for module in sys.argv[2:]:
    sys.path[0] = sys.argv[1]
    op = importlib.import_module("sample_kernels.ops." + module)
    torch.manual_seed(0)
    for cols in (1, 1025, 2500):
        a, b, g = (torch.randn(3, cols, requires_grad=True) for _ in range(3))
        c = op.GELUMulFunction.apply(a, b)
        for found in (c, *torch.autograd.grad(c, (a, b), g)):
            print(found.detach().double().sum().item(), found.detach().double().pow(2).sum().item())
"""


def numbers_of(package_root: Path, *modules: str) -> list[str]:
    """One process for all of them: its start takes most of the time."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(package_root), *modules],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_tiled_kernel_computes_what_it_computed_before(tmp_path: Path) -> None:
    package = tmp_path / "sample_kernels"
    for file in OPS.parent.rglob("*.py"):
        place = package / file.relative_to(OPS.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    after = tiled(sample("geglu"))
    assert after is not None
    (package / "ops" / "geglu_tiled.py").write_text(after, encoding="utf-8")
    found = numbers_of(tmp_path, "geglu", "geglu_tiled")
    assert len(found) == 18
    assert found[:9] == found[9:]


def test_a_grid_sized_by_multiprocessors_gets_twice_the_programs() -> None:
    before = sample("rms_norm")
    found = more_programs.rewrite(before)
    assert found is not None and found.kernels == ("_rms_norm_backward_kernel",)
    gone, new = changes(before, found.text)
    assert gone == ["    n_programs = max(min(multiprocessor_count(X.device), n_rows), 1)"]
    assert new == [
        "    # Two on each, not one: while one waits for a row, the others work.",
        "    n_programs = max(min(2 * multiprocessor_count(X.device), n_rows), 1)",
    ]


def test_and_twice_again_when_that_was_accepted() -> None:
    once = more_programs.rewrite(sample("rms_norm"))
    assert once is not None
    twice = more_programs.rewrite(once.text)
    assert twice is not None
    assert (once.title, twice.title) == ("Two programs on each multiprocessor", "Four programs on each multiprocessor")
    gone, new = changes(once.text, twice.text)
    assert gone[0].startswith("    # Two on each") and new[0].startswith("    # Four on each")
    assert new[1] == "    n_programs = max(min(4 * multiprocessor_count(X.device), n_rows), 1)"


def test_rows_too_wide_for_a_neighbour_keep_their_one_program() -> None:
    before = sample("rms_norm")
    found = more_programs.rewrite(before, up_to=4096)
    assert found is not None and found.title == "Two programs on each multiprocessor, up to 4096 columns"
    _, new = changes(before, found.text)
    assert new == [
        "    # Two on each where a row of up to 4096 columns leaves room: while one waits for a row, the others work.",
        "    n_programs = max(min((2 if n_cols <= 4096 else 1) * multiprocessor_count(X.device), n_rows), 1)",
    ]
    assert more_programs.rewrite(found.text) is None, "how many there are follows the width already"
    assert more_programs.rewrite(found.text, up_to=2048) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("no column is held against a width", "cols < n_cols", "cols < 4096"),
        ("the width is made later", "    _k[(n,)]", "    n_cols = y.shape[1]\n    _k[(n,)]"),
        ("a branch makes the width", "    n = props", "    if n_rows:\n        n_cols = 8\n    n = props"),
        ("no variable holds the width", "_k[(n,)](x, y, n_cols,", "_k[(n,)](x, y, x.shape[1],"),
    ],
)
def test_without_a_width_there_is_no_rule_for_wide_rows(why: str, before: str, after: str) -> None:
    assert before in SIZED
    assert more_programs.rewrite(SIZED, up_to=4096) is not None
    text = SIZED.replace(before, after)
    assert more_programs.rewrite(text) is not None
    assert more_programs.rewrite(text, up_to=4096) is None, why


IN_BLOCKS = "cols = tl.program_id(1) * BLOCK_SIZE + tl.arange"


def test_a_program_that_takes_a_part_of_its_row_has_no_widest_row() -> None:
    assert more_programs.rewrite(in_blocks(), up_to=4096) is None


STEPS = "range(tl.program_id(0), n_rows, tl.num_programs(0))"


def in_blocks(steps: str = STEPS) -> str:
    """dyt's shape: a grid of blocks and programs, each of which takes every n-th row."""
    text = SIZED.replace("cols = tl.arange", IN_BLOCKS).replace("range(2)", steps)
    return text.replace("n_cols, BLOCK", "n_cols, n_rows, BLOCK")


@pytest.mark.parametrize("steps", [STEPS, f"tl.{STEPS[:-1]}, num_stages=4)"])
def test_a_grid_with_an_axis_for_the_blocks_of_a_row_gets_more_programs_where_rows_are_short(steps: str) -> None:
    text = in_blocks(steps)
    found = more_programs.rewrite(text)
    assert found is not None
    assert found.title == "Up to four programs on each multiprocessor, up to 2048 columns"
    assert changes(text, found.text)[1] == [
        "    # Up to four on each where rows are short and many: while one waits for a row, the others work.",
        "    n = min(4 if n_cols <= 1024 else 2 if n_cols <= 2048 else 1, 1 + n_rows // 4096) * "
        "props(x).multi_processor_count",
    ]
    assert more_programs.rewrite(found.text) is None, "how many there are follows the width already"


@pytest.mark.parametrize("more", [0, 1])
def test_how_many_there_are_is_written_in_two_lines_where_one_has_no_room(more: int) -> None:
    known = "n = min(4 if n_cols <= 1024 else 2 if n_cols <= 2048 else 1, 1 + n_rows // 4096) * "
    whose = "properties_of_the_device"[: LONGEST - 4 - len(f"{known}(x).multi_processor_count")] + "_" * more
    text = in_blocks().replace("props(x)", f"{whose}(x)")
    found = more_programs.rewrite(text)
    assert found is not None
    lines = changes(text, found.text)[1][1:]
    one, two = f"    {known}{whose}(x).multi_processor_count", "        * {}(x).multi_processor_count"
    assert len(one) == LONGEST + more
    assert lines == ([one] if not more else ["    n = (", f"        {known[4:-3]}", two.format(whose), "    )"])
    assert more_programs.rewrite(found.text) is None


def programs(rows: int, columns: int) -> int:
    found = more_programs.rewrite(in_blocks())
    assert found is not None
    (line,) = (line for line in found.text.splitlines() if " n = min(" in line)
    value = line.split(" = ", 1)[1].replace("props(x).multi_processor_count", "1")
    return int(eval(value, {"n_rows": rows, "n_cols": columns}))


@pytest.mark.parametrize(
    ("rows", "columns", "times"),
    [
        *((8192, 1024, 3), (12288, 1024, 4), (1 << 20, 64, 4), (4095, 1024, 1), (4096, 1024, 2), (0, 0, 1)),
        *((1 << 20, 1025, 2), (1 << 20, 2048, 2), (1 << 20, 2049, 1), (8192, 4096, 1)),
    ],
)
def test_rows_in_blocks_get_as_many_as_width_and_memory_leave_room_for(rows: int, columns: int, times: int) -> None:
    """dyt's third variant was 1.35x, and refused: of 8192 rows four shares of two sums were 6.3 % more memory."""
    assert programs(rows, columns) == times


@pytest.mark.parametrize("rows", [4096, 8191, 8192, 12288, 50_000])
def test_shares_of_sums_stay_below_what_a_verdict_allows_of_memory(rows: int) -> None:
    n, one = 1024, 132 * 1024 * 4 * 2
    before = 3 * rows * n * 2 + one
    after = before + (programs(rows, n) - 1) * one
    assert programs(rows, n) > 1 and after / before < 1.045


@pytest.mark.parametrize(
    ("before", "after"),
    [("cols < n_cols", "cols < 4096"), (STEPS, "range(2)"), ("tl.program_id(0), n_rows", "tl.program_id(0), 7")],
)
def test_rows_in_blocks_of_no_known_size_keep_their_programs(before: str, after: str) -> None:
    text = in_blocks()
    assert before in text
    assert more_programs.rewrite(text.replace(before, after)) is None


@pytest.mark.parametrize(
    ("times", "most"),
    [
        ("", 1),
        ("2 * ", 2),
        ("4 * ", 4),
        ("(2 if n_cols <= 4096 else 1) * ", 2),
        ("(1 if n_cols > 9 else 4) * ", 4),
        ("min(2, n_rows) * ", 2),
    ],
)
def test_how_many_programs_a_multiprocessor_has_at_most(times: str, most: int) -> None:
    text = SIZED.replace("n = props", f"n = {times}props")
    (function,) = [f for f in source.functions(source.parse(text)) if f.name.value == "run"]
    assert more_programs.programs_on_each(function) == most


def test_a_launch_number_that_a_dictionary_may_hold_is_not_said_beside_it() -> None:
    """Triton refuses a call that says a number twice, and only when it is made."""
    call = "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE"
    assert tiled(ROW_OP.replace(", num_warps=num_warps)", ")")) is not None
    assert tiled(ROW_OP.replace(", num_warps=num_warps)", ", **kernel_args)")) is None
    named = ROW_OP.replace("num_warps=num_warps)", "num_warps=num_warps, **kernel_args)")
    assert call in named and tiled(named) is not None


def test_eight_programs_are_enough() -> None:
    text = sample("rms_norm").replace("min(multi", "min(8 * multi")
    assert more_programs.rewrite(text) is None


LOOPING = ROW_OP.replace("    v = tl.load(", "    for _ in range(2):\n        pass\n    v = tl.load(")
SIZED = LOOPING.replace("    _k[(n_rows,)]", "    n = props(x).multi_processor_count\n    _k[(n,)]")


def test_the_property_of_a_device_is_known_as_well() -> None:
    found = more_programs.rewrite(SIZED)
    assert found is not None and "n = 2 * props(x).multi_processor_count" in found.text


@pytest.mark.parametrize("before", ["n_rows // ", "n_rows % ", "n_rows - ", "n_rows / "])
def test_what_is_divided_by_the_number_has_no_more_programs(before: str) -> None:
    """`rows // 2 * count` would be fewer rows for more programs."""
    assert more_programs.rewrite(SIZED.replace("n = props", f"n = {before}props")) is None


@pytest.mark.parametrize("read", ["2 * n", "n * 2", "n * -(-4 // num_warps)", "max(4, 2 * n // n_rows)"])
def test_where_the_author_has_several_on_each_already_there_are_as_many_as_before(read: str) -> None:
    """`Two on each, not one` would be said of four."""
    assert more_programs.rewrite(SIZED.replace("_k[(n,)]", f"_k[({read},)]")) is None
    assert more_programs.rewrite(SIZED.replace("_k[(n,)]", "_k[(n, n_rows * 2)]")) is not None


REDUCED = """

@triton.jit
def _reduce(y, n_programs, n_cols, MOST: tl.constexpr):
    idx = tl.arange(0, MOST)
    for col in range(n_cols):
        part = tl.load(y + idx * n_cols + col, mask=idx < n_programs)
        tl.store(y + col, tl.sum(part))


def run("""


def test_shares_that_are_taken_at_once_are_as_many_as_before() -> None:
    """Of 256 places 132 are taken, and 264 would not fit."""
    text = SIZED.replace("\n\ndef run(", REDUCED)
    launch = "    _reduce[(1,)](y, n, n_cols, MOST={most})\n"
    assert text != SIZED and text.endswith("\n")
    assert more_programs.rewrite(text + launch.format(most=256)) is None
    assert more_programs.rewrite(text + launch.format(most="triton.next_power_of_2(n)")) is not None


@pytest.mark.parametrize("makes", ["torch.zeros(n, 8)", "torch.empty((n, 8))", "x.new_zeros(n)"])
def test_where_another_function_makes_room_for_the_programs_there_are_as_many_as_before(makes: str) -> None:
    other = f"\n\ndef room(x):\n    n = props(x).multi_processor_count\n    return {makes}\n"
    assert more_programs.rewrite(SIZED + other) is None
    assert more_programs.rewrite(SIZED + other.replace(makes, "n")) is not None


def test_a_kernel_that_does_not_loop_gets_no_more_programs() -> None:
    assert more_programs.rewrite(SIZED.replace("for _ in range(2):\n        pass", "pass")) is None


def test_two_counts_in_one_function_are_not_told_apart() -> None:
    assert (
        more_programs.rewrite(SIZED.replace("n = props(x)", "m = props(x).multi_processor_count\n    n = props(x)"))
        is None
    )


@pytest.mark.parametrize("product", ["tl.dot(v, v)", "tl.dot_scaled(v, s, v, s)", "_twice(v)"])
def test_a_kernel_that_multiplies_tiles_has_no_more_programs(product: str) -> None:
    """It waits for no row, and its tiles fill the shared memory. So does what a helper multiplies."""
    helper = f"@triton.jit\ndef _twice(v):\n    return tl.dot(v, v)\n\n\n{SIZED[SIZED.index('@triton.jit') :]}"
    text = SIZED[: SIZED.index("@triton.jit")] + helper
    assert more_programs.rewrite(text) is not None
    assert more_programs.rewrite(text.replace("        pass\n", f"        v = {product}\n")) is None
