"""Sums of a row that do not need each other are taken at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import TRANSFORMS, meet_once
from tests.engine.library import changes, interpret, sample

NORM = '''"""An op in the shape of Liger's poly_norm: several sums of one row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x_ptr, g_ptr, y_ptr, sum_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    total = 0.0

    for row in range(first, n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        squared = x * x
        # of the gradient
        total += tl.sum(g, axis=0)

        dot = tl.sum(x * g, axis=0)  # a number
        y = g * dot
        mean = tl.sum(squared, axis=0) / n_cols
        tl.store(y_ptr + row * n_cols + cols, y + mean, mask=mask)
    tl.store(sum_ptr + first, total)


def run(x, g):
    n_rows, n_cols = x.shape
    y, sums = torch.empty_like(x), torch.empty(2)
    _norm[(2,)](x, g, y, sums, n_rows, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return y, sums
'''
TAKEN = "        first_sum, second_sum, third_sum = tl.reduce((g, x * g, squared), 0, _add_each_of_3)"
HELPER = [
    "@triton.jit",
    "def _add_each_of_3(a, b, c, d, e, f):",
    "    return a + d, b + e, c + f",
]


def met(text: str) -> str | None:
    found = meet_once.rewrite(text)
    return found.text if found is not None else None


def test_all_of_them_are_taken_where_the_first_stands_and_the_others_read_theirs() -> None:
    after = met(NORM)
    assert after is not None
    ast.parse(after)
    gone, new = changes(NORM, after)
    assert gone == [
        "        total += tl.sum(g, axis=0)",
        "        dot = tl.sum(x * g, axis=0)  # a number",
        "        mean = tl.sum(squared, axis=0) / n_cols",
    ]
    assert [line for line in new if line] == [
        *HELPER,
        f"        # {meet_once.WHY}",
        TAKEN,
        "        total += first_sum",
        "        dot = second_sum  # a number",
        "        mean = third_sum / n_cols",
    ]
    lines = after.splitlines()
    assert lines[lines.index(f"        # {meet_once.WHY}") - 1] == "        # of the gradient"


def test_sums_of_several_rows_are_taken_along_the_axis_that_is_said() -> None:
    after = met(NORM.replace("axis=0", "axis=1"))
    assert after is not None and "(g, x * g, squared), 1, _add_each_of_3)" in after


REFLECTED = """import torch
import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    cols = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + cols[None, :]).to(tl.float32)
    v = tl.where(rows > 0, tl.sum(x, axis=1), 0.0)
    length = tl.sum(v * v, axis=0)
    along = tl.sum(v[:, None] * x, axis=0)
    tl.store(y_ptr + cols, along / length)
"""


@pytest.mark.parametrize(
    ("other", "together"),
    [
        ("v[:, None] * x", False),  # a column for each of x
        ("(v + rows) / 2", True),
        ("tl.load(x_ptr + cols).to(tl.float32)", False),
        ("w", False),
        ("tl.trans(x) / 2", False),
    ],
)
def test_sums_of_blocks_of_other_shapes_are_taken_by_themselves(other: str, together: bool) -> None:
    """All that `tl.reduce` adds up has to have one shape: else the kernel no longer compiles."""
    loaded = "    w = tl.load(x_ptr + cols).to(tl.float32)\n    length ="
    text = REFLECTED.replace("v[:, None] * x, axis=0", f"{other}, axis=0").replace("    length =", loaded)
    assert (met(text) is not None) is together


def test_where_nobody_can_tell_the_shape_sums_are_taken_by_themselves() -> None:
    text = REFLECTED.replace("v[:, None] * x, axis=0", "(v + rows) / 2, axis=0")
    assert met(text) is not None
    assert met(text.replace("    v = ", "    few = tl.arange(0, size())\n    v = ")) is None


def test_an_axis_may_be_said_by_its_place_or_not_at_all_where_there_is_one() -> None:
    for said in (", 0)", ")"):
        after = met(NORM.replace(", axis=0)", said))
        assert after is not None and TAKEN in after
    two = NORM.replace(", axis=0)", ")").replace("mask = cols < n_cols", "mask = (cols < n_cols)[None, :]")
    assert met(two) is None, "nobody says which of two axes"


def test_a_sum_of_what_is_made_later_is_none_of_them() -> None:
    after = met(
        NORM.replace("squared = x * x", "squared = x").replace("y = g * dot", "y = g * dot\n        squared = x * x")
    )
    assert after is not None
    assert "first_sum, second_sum = tl.reduce((g, x * g), 0, _add_each_of_2)" in after
    assert "mean = tl.sum(squared, axis=0) / n_cols" in after


def test_of_more_than_four_the_rest_are_taken_by_themselves() -> None:
    lines = "".join(f"        s{n} = tl.sum(x + {n}, axis=0)\n        y_{n} = s{n}\n" for n in range(6))
    after = met(NORM.replace("        squared = x * x\n", lines + "        squared = x * x\n"))
    assert after is not None and "first_sum, second_sum, third_sum, fourth_sum = tl.reduce(" in after
    assert "third_sum_2, fourth_sum_2 = tl.reduce(" in after and "(x + 4, x + 5, g, x * g), 0, _add_each_of_4" in after
    assert max(map(len, after.splitlines())) <= 120


def test_names_are_read_before_others_have_them() -> None:
    """The second sum is of what the first makes, and the third is taken with the first."""
    crossed = NORM.replace("dot = tl.sum(x * g, axis=0)", "dot = tl.sum(x * total, axis=0)").replace(
        "        tl.store(y_ptr", "        more = tl.sum(x, axis=0)\n        y += more\n        tl.store(y_ptr"
    )
    after = met(crossed.replace("tl.sum(squared, axis=0) /", "tl.sum(squared, axis=0) + dot /"))
    assert after is not None and after.count("tl.reduce(") == 1
    assert "first_sum, second_sum, third_sum = tl.reduce((g, squared, x), 0, _add_each_of_3)" in after
    late = met(crossed.replace("tl.sum(x, axis=0)", "tl.sum(g * total, axis=0)"))
    assert late is not None and late.count("tl.reduce(") == 1, "the fourth might be taken where the second stands"
    assert "dot = tl.sum(x * total, axis=0)" in late and "mean = second_sum / n_cols" in late


def test_a_loop_within_has_names_of_its_own() -> None:
    inner = (
        "        for k in range(2):\n            p = tl.sum(x * k, axis=0)\n            q = tl.sum(g * k, axis=0)\n"
        "            total += p * q\n"
    )
    after = met(NORM.replace("        y = g * dot", inner + "        y = g * dot"))
    assert after is not None and "first_sum_2, second_sum_2 = tl.reduce((x * k, g * k), 0, _add_each_of_2)" in after
    assert "mean = third_sum / n_cols" in after


def test_what_does_not_fit_into_a_line_is_written_in_three() -> None:
    after = met(NORM.replace("squared", "the_square_of_each_element_of_the_row"))
    assert after is not None and max(map(len, after.splitlines())) <= 120
    assert (
        "third_sum = tl.reduce(\n            (g, x * g, the_square_of_each_element_of_the_row), 0, _add_each_of_3\n"
        "        )\n"
    ) in after


def test_two_kernels_share_what_adds_up() -> None:
    second = NORM[NORM.index("@triton.jit") : NORM.index("def run")].replace("_norm", "_other")
    after = met(NORM.replace("def run", second + "def run"))
    assert after is not None and after.count("def _add_each_of_3") == 1 and after.count("_add_each_of_3)") == 2
    only = meet_once.rewrite(NORM.replace("def run", second + "def run"), "_other")
    assert only is not None and only.kernels == ("_other",) and "def _add_each_of_3" in only.text


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, c in ((5, 128), (4, 100), (1, 1), (3, 257)):
    x, g = (torch.randint(-8, 8, (n, c)).float() for _ in range(2))  # sums are exact in any order
    expected, found = (m.run(x, g) for m in (before, after))
    assert all(torch.equal(one, other) for one, other in zip(expected, found)), (n, c)
    assert found[1].sum() == g.sum()
"""


def test_the_result_is_the_one_of_before(tmp_path: Path) -> None:
    after = met(NORM)
    assert after is not None
    interpret(tmp_path, RUN, before=NORM, after=after)


def test_it_is_done_once() -> None:
    after = met(NORM)
    assert after is not None and met(after) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a count", "tl.sum(squared, axis=0)", "tl.sum(mask, axis=0)"),
        ("a count of both", "tl.sum(squared, axis=0)", "tl.sum(mask & (x > 0), axis=0)"),
        ("another axis", "mean = tl.sum(squared, axis=0)", "mean = tl.sum(squared, axis=1)"),
        ("a type of its own", "mean = tl.sum(squared, axis=0)", "mean = tl.sum(squared, axis=0, dtype=tl.float32)"),
        ("a sum that keeps its axis", "tl.sum(squared, axis=0)", "tl.sum(squared, keep_dims=True)"),
        ("a number and no row", "tl.sum(squared, axis=0)", "tl.sum(n_cols, axis=0)"),
        ("loaded for the sum alone", "tl.sum(squared, axis=0)", "tl.sum(tl.load(g_ptr + cols), axis=0)"),
        ("a condition", "mean = tl.sum(squared, axis=0)", "mean = 0 if n_cols > 3 else tl.sum(squared, axis=0)"),
        ("numbers that may be short", "squared = x * x", "squared = tl.load(g_ptr + cols, mask=mask, other=0)"),
        ("truths that are multiplied", "squared = x * x", "squared = mask * (x > 0)"),
        ("truths that are chosen", "squared = x * x", "squared = tl.where(mask, x > 0, g > 0)"),
        ("an early end", "        y = g * dot", "        if n_cols > 3:\n            return\n        y = g * dot"),
        ("what reads memory", "tl.sum(squared, axis=0)", "tl.sum(fetched(g_ptr + cols), axis=0)"),
        ("what writes memory", "tl.sum(squared, axis=0)", "tl.sum(tl.atomic_add(y_ptr + cols, 1.0), axis=0)"),
        ("a comment", "tl.sum(squared, axis=0) / n_cols", "tl.sum(\n            squared,  # mine\n            axis=0)"),
        ("two in a line", "mean = tl.sum(squared, axis=0)", "mean = tl.sum(squared, axis=0) + tl.sum(y, axis=0)"),
        ("somebody else's sum", "mean = tl.sum(squared, axis=0)", "mean = my.sum(squared, axis=0)"),
        ("a row that another sum makes", "tl.sum(squared, axis=0)", "tl.sum(y, axis=0)"),
        ("a row that changes", "        y = g * dot", "        squared += 1\n        y = g * dot"),
        ("it changes in a branch", "        y = g *", "        if dot > 1:\n            squared = x\n        y = g *"),
        ("another block", "        mean = tl", "        mean = 0.0\n        if dot > 3:\n            mean = tl"),
    ],
)  # fmt: skip
def test_a_sum_is_taken_by_itself_where(why: str, before: str, after: str) -> None:
    assert before in NORM
    left = met(NORM.replace(before, after))
    assert left is not None and "first_sum, second_sum = tl.reduce((g, x * g), 0, _add_each_of_2)" in left, why


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a name is taken", "    total = 0.0", "    third_sum = 0.0\n    total = 0.0"),
        ("what adds up is another's name", "def run", "def _add_each_of_3(a):\n    return a\n\n\ndef run"),
        ("blocks of two sizes", "    total = 0.0", "    few = tl.arange(0, 16)\n    total = 0.0"),
        ("nothing to write it with", "import triton\n", "from triton import jit, next_power_of_2\n"),
        ("a name of the second's", "    total = 0.0", "    first_sum_2 = 0.0\n    total = 0.0"),
        ("integers may be short", "squared = x * x", "squared = (x * x).to(tl.int8)"),
        ("half precision runs", ").to(tl.float32)", ")"),
    ],
)
def test_nothing_is_taken_together_where(why: str, before: str, after: str) -> None:
    assert met(NORM.replace(before, after)) is None, why


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu"])
def test_kernels_of_one_sum_have_nothing_to_take_together(kernel: str) -> None:
    assert not meet_once.applies(sample(kernel))


def test_layer_norm_meets_once_a_row_after_its_rows_are_loaded_ahead() -> None:
    ahead = TRANSFORMS["pipeline_rows"].rewrite(sample("layer_norm"))
    assert ahead is not None
    after = met(ahead.text)
    assert after is not None and "tl.reduce(" in after
