"""Programs that run side by side become neighbours along the grid's last axis."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

from bot.engine import fitting
from bot.engine.transforms import last_axis_first
from tests.analysis import made
from tests.engine.library import changes, interpret, sample

TWO = '''"""Tiles of a matrix, scaled by their row's number."""

import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh


@triton.jit
def _twice(v):
    return v * 2


@triton.jit
def _scale(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    """One program a row and tile."""
    # the row
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)  # of its tiles

    at = tile * BLOCK + tl.arange(0, BLOCK)
    mask = at < cols
    v = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
    tl.store(y_ptr + row * cols + at, _twice(v) + row + min(BLOCK, 1), mask=mask)


def run(x, block=4):
    y = torch.empty_like(x)
    rows, cols = x.shape
    _scale[(rows, triton.cdiv(cols, block))](x, y, rows, cols, BLOCK=block)
    return y
'''
THREE = """import torch
import triton
import triton.language as tl


@triton.jit
def _number(y_ptr, nx, ny, nz):
    z = tl.program_id(2)
    x = tl.program_id(0)
    y = tl.program_id(axis=1)
    tl.store(y_ptr + (x * ny + y) * nz + z, x * 10000 + y * 100 + z)


def run(nx, ny, nz):
    out = torch.full((nx, ny, nz), -1, dtype=torch.int32)
    _number[(nx, ny, nz)](out, nx, ny, nz)
    return out
"""
CALLS = TWO.replace("_twice(v) + row", "_twice(v) + row + tanh(v) * 0")
"""It calls a function of Triton's as well."""
SAID = f"    # {last_axis_first.COMMENT}"


@lru_cache
def turned(text: str) -> str | None:
    found = last_axis_first.rewrite(text)
    return found.text if found is not None else None


def test_two_axes_change_places_below_what_is_said_of_them() -> None:
    after = turned(TWO)
    assert after is not None
    ast.parse(after)
    assert changes(TWO, after) == (
        ["    row = tl.program_id(0).to(tl.int64)", "    tile = tl.program_id(1)  # of its tiles"],
        [
            SAID,
            "    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)",
            "    row = (program // tl.num_programs(1)).to(tl.int64)",
            "    tile = program % tl.num_programs(1)  # of its tiles",
        ],
    )
    lines = after.splitlines()
    assert lines[lines.index(SAID) - 1] == "    # the row"


def test_two_places_in_a_line_have_no_brackets() -> None:
    both = "    row, tile = tl.program_id(0), tl.program_id(1)\n"
    text = TWO.replace("    row = tl.program_id(0).to(tl.int64)\n", both)
    after = turned(text.replace("    tile = tl.program_id(1)  # of its tiles\n", ""))
    line = "    row, tile = program // tl.num_programs(1), program % tl.num_programs(1)\n"
    assert after is not None and line in after


def test_three_axes_are_counted_from_the_last_one() -> None:
    after = turned(THREE)
    assert after is not None
    assert changes(THREE, after)[1] == [
        SAID,
        f"    program = {last_axis_first.NUMBERS[3]}",
        "    z = program % tl.num_programs(2)",
        "    x = program // (tl.num_programs(1) * tl.num_programs(2))",
        "    y = program // tl.num_programs(2) % tl.num_programs(1)",
    ]


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import two, two_after, three, three_after

for rows, cols in ((1, 1), (3, 4), (4, 3), (5, 17), (1, 30), (30, 1)):
    x = torch.randn(rows, cols)
    assert torch.equal(two.run(x), two_after.run(x)), (rows, cols)
for grid in ((1, 1, 1), (2, 3, 4), (4, 3, 2), (1, 5, 1), (7, 1, 2), (3, 2, 1)):
    found = three_after.run(*grid)
    assert torch.equal(three.run(*grid), found) and (found >= 0).all(), grid
"""


def test_every_program_finds_its_place_and_none_has_two(tmp_path: Path) -> None:
    after, other = turned(TWO), turned(THREE)
    assert after is not None and other is not None
    interpret(tmp_path, RUN, two=TWO, two_after=after, three=THREE, three_after=other)


CONSTANT = TWO.replace("rows, cols, BLOCK: tl.constexpr", "rows, cols: tl.constexpr, BLOCK: tl.constexpr").replace(
    "y, rows, cols, BLOCK=block", "y, rows, cols, block"
)
"""How wide a row is, is a constant of the kernel as well."""
PLACE = "    tile = program % tl.cdiv(cols, BLOCK)  # of its tiles"


def test_where_constants_say_how_many_tiles_there_are_they_are_divided_by(tmp_path: Path) -> None:
    """And not by what only the launch knows: that takes longer than all else before a program can load."""
    after = turned(CONSTANT)
    assert after is not None
    assert changes(CONSTANT, after)[1][2:] == ["    row = (program // tl.cdiv(cols, BLOCK)).to(tl.int64)", PLACE]
    interpret(tmp_path, RUN, two=CONSTANT, two_after=after, three=THREE, three_after=turned(THREE) or "")


AGAIN = """

def run_again(x, cols, block=4):
    _scale[(1, triton.cdiv(cols, block))](x, x, 1, cols, block)
"""


def test_every_launch_says_it_in_its_own_words() -> None:
    other = AGAIN.replace("cols", "width")
    assert PLACE in (turned(CONSTANT + AGAIN) or "") and PLACE in (turned(CONSTANT + other) or "")


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the width is no constant", "cols: tl.constexpr", "cols"),
        ("nor is the block", "BLOCK: tl.constexpr", "BLOCK"),
        ("it is cut into something else", "triton.cdiv(cols, block)", "triton.cdiv(cols, 4)"),
        ("it is cut in other words", "triton.cdiv(cols, block)", "-(-cols // block)"),
        ("by hand", "triton.cdiv(cols, block)", "triton.cdiv(x=cols, y=block)"),
        ("another width than the kernel is told", "triton.cdiv(cols, block)", "triton.cdiv(rows, block)"),
        ("the launch is told in a function", "[(rows, triton.cdiv(cols, block))]", "[lambda meta: (rows, 8)]"),
        ("the kernel makes it another number", "    mask = ", "    cols = cols + 0\n    mask = "),
        ("two constants are given the same", "y, rows, cols, block)", "y, cols, cols, block)"),
        ("one launch says nothing", '"""Tiles', 'def more(x):\n    _scale[(1, 8)](x, x, 1, 8, 1)\n\n\n"""Tiles'),
        (
            "it is launched by what was decorated",
            "@triton.jit\ndef _scale",
            "@triton.heuristics({})\n@triton.jit\ndef _scale",
        ),
    ],
)
def test_and_by_what_the_launch_knows_where_they_do_not(why: str, before: str, after: str) -> None:
    assert before in CONSTANT
    text = CONSTANT.replace(before, after, 1)
    text = text.replace("rows, cols: tl", "rows: tl.constexpr, cols: tl") if "two constants" in why else text
    assert "tl.cdiv(" not in (turned(text) or ""), why


def test_and_of_a_kernel_that_other_files_launch_too_as_their_grids_may_be_narrower() -> None:
    alone = last_axis_first.of_kernels(CONSTANT, ["_scale"])
    shared = last_axis_first.of_kernels(CONSTANT, ["_scale"], relied_on=("_scale",))
    assert alone is not None and PLACE in alone.text
    assert shared is not None and "tile = program % tl.num_programs(1)" in shared.text


NAMED = re.sub(r"\brow\b(?! ?=)(?=[ )*])", "program_id", TWO.replace("row = tl", "program_id = tl")).replace(
    '"""One program a program_id', '"""One program a row'
)
"""Liger's element-wise kernels call their row so."""


def test_a_row_may_be_called_as_the_question_is(tmp_path: Path) -> None:
    assert NAMED.count("program_id") == 6
    after = turned(NAMED)
    assert after is not None
    assert "    program_id = (program // tl.num_programs(1)).to(tl.int64)\n" in after
    interpret(tmp_path, RUN, two=NAMED, two_after=after, three=THREE, three_after=turned(THREE) or "")


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("it is the row and then something else", "    mask = ", "    program_id = program_id + 1\n    mask = "),
        ("it is the row in one case", "    mask = ", "    if BLOCK > 2:\n        program_id = tile\n    mask = "),
        ("a loop counts with it", "    mask = ", "    for program_id in range(3):\n        tile += 0\n    mask = "),
        ("something else asks", "    mask = ", "    asked = program_id(1)\n    mask = "),
        ("it is Triton's", "    program_id = tl.program_id(0)", "    row = tl.program_id(0)"),
        ("it is one of two", "    program_id = tl", "    program_id, other = tl"),
    ],
)
def test_and_stays_where_that_is_more_than_a_row(why: str, before: str, after: str) -> None:
    assert before in NAMED and turned(NAMED) is not None
    assert turned(NAMED.replace(before, after, 1)) is None, why


def test_it_is_done_once() -> None:
    after = turned(TWO)
    assert after is not None and turned(after) is None


def test_of_several_kernels_those_that_are_asked_for() -> None:
    both = TWO + THREE.split("import triton.language as tl\n")[1].replace("def run(", "def run_other(")
    found = last_axis_first.rewrite(both)
    assert found is not None and found.kernels == ("_scale", "_number")
    alone = last_axis_first.of_kernels(both, {"_number", "_other"})
    assert alone is not None and alone.kernels == ("_number",)
    assert "row = tl.program_id(0).to(tl.int64)" in alone.text and "z = program % tl.num_programs(2)" in alone.text
    assert last_axis_first.of_kernels(both, {"_other"}) is None


def test_a_kernel_that_tunes_itself_is_one_too() -> None:
    tuned = "@triton.autotune(configs=[triton.Config({'BLOCK': 4})], key=['cols'])\n@triton.jit\ndef _scale"
    assert turned(TWO.replace("@triton.jit\ndef _scale", tuned)) is not None


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy", "layer_norm", "jsd"])
def test_kernels_with_one_axis_have_nothing_to_change(kernel: str) -> None:
    assert not last_axis_first.applies(sample(kernel))


MORE = "@triton.jit\ndef _more(v):\n    return v + tl.program_id(0)\n"
WAITS = "    while tl.atomic_add(v, 0) < 1:\n        pass\n"
OTHER = "@triton.jit\ndef _other(x, y):\n    _scale(x, y, 1, 1, 4)\n"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("one axis", "    tile = tl.program_id(1)", "    tile = 0"),
        ("an axis between is missing", "tl.program_id(1)", "tl.program_id(2)"),
        ("an axis that nobody knows", "tl.program_id(1)", "tl.program_id(BLOCK // 4)"),
        ("an axis that is asked for twice", "    mask = ", "    tile = tl.program_id(1)\n    mask = "),
        ("how many there are", "    mask = ", "    rows = tl.num_programs(0)\n    mask = "),
        ("another name of Triton's", "tl.program_id(1)", "triton.language.program_id(1)"),
        ("what the axis is called", "tl.program_id(1)", "tl.program_id(dim=1)"),
        ("the program by another name", "    mask = ", "    asked = tl.program_id\n    mask = "),
        ("assembly", "    mask = ", "    rows = tl.inline_asm_elementwise('', '', [], rows, True, 1)\n    mask = "),
        ("a name that is taken", "    mask = ", "    program = 1\n    mask = "),
        ("what it calls asks as well", "return v * 2", "return v * 2 + tl.program_id(0)"),
        ("what that calls asks", "return v * 2\n", f"return _more(v)\n\n\n{MORE}"),
        ("what it calls is another module's", "from triton.language.extra.libdevice", "from elsewhere"),
        ("what it calls is a module's", "tanh(v)", "elsewhere.tanh(v)"),
        ("a kernel calls it", "\n\ndef run", f"\n\n{OTHER}\n\ndef run"),
        ("a kernel has it by another name", "\n\ndef run", "\n\nother = _scale\n\n\ndef run"),
        ("nobody launches it", "_scale[(rows", "_skale[(rows"),
        ("it waits for another", "    mask = ", "    while tl.atomic_add(y_ptr, 0) < rows:\n        pass\n    mask = "),
        ("what it calls waits", "    return v * 2\n", f"{WAITS}    return v * 2\n"),
        ("a comment in the question", "tl.program_id(1)", "tl.program_id(\n        1  # tiles\n    )"),
        ("who asks has another name", "import tanh", "import tanh\nfrom triton.language import program_id as pid"),
        ("what asks is handed over", "v * 2\n", f"tl.reduce(v, 0, _more)\n\n\n{MORE}"),
        ("two helpers of one name", "\n\ndef run", "\n\n@triton.jit\ndef _twice(v):\n    return v\n\n\ndef run"),
        ("it hands something back", "min(BLOCK, 1), mask=mask)", "min(BLOCK, 1), mask=mask)\n    return row"),
    ],
)  # fmt: skip
def test_it_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in CALLS and turned(CALLS) is not None
    assert turned(CALLS.replace(before, after, 1)) is None, why


def test_a_kernel_on_one_line_is_left_alone() -> None:
    line = "def _k(x): tl.store(x + tl.program_id(0) * 3 + tl.program_id(1), 1)"
    text = f"import triton\nimport triton.language as tl\n\n\n@triton.jit\n{line}\n\n\ndef run(x):\n    _k[(1, 1)](x)\n"
    assert turned(text) is None and turned(text.replace("tl.store", "\n    tl.store")) is not None


def test_a_kernel_that_tunes_itself_is_no_part_of_another() -> None:
    tuned = "@triton.autotune(configs=[triton.Config({'BLOCK': 4})], key=['cols'])\n@triton.jit\ndef _scale"
    elsewhere = TWO.partition("def run")[0]
    assert turned(elsewhere) is None and turned(elsewhere.replace("@triton.jit\ndef _scale", tuned)) is not None


@pytest.mark.parametrize(
    ("grid", "is_it"), [((8, 1, 1), False), ((1, 8, 1), False), ((8, 2, 1), True), ((8, 1, 2), True), ((1, 2, 2), True)]
)
def test_only_launches_with_several_axes_are_counted_otherwise(grid: tuple[int, int, int], is_it: bool) -> None:
    facts = made.measurement(made.result(made.case("forward"), made.launch("_scale", grid=grid, block=128)))
    assert fitting.is_about("last_axis_first", ("_scale",), facts) is is_it
    assert not fitting.is_about("last_axis_first", ("_other",), facts)
