"""Elements of a row are divided by one number once, and multiplied by what that gave."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import divide_once
from tests.engine.library import changes, interpret, op, sample

SOFTMAX = op(
    """
BLOCK_SIZE = triton.next_power_of_2(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
return y
"""
).replace(
    "    tl.store(y + row * n_cols + cols, v * 2, mask=mask)",
    """    v = tl.where(mask, v, -float("inf")).to(tl.float32)
    top = tl.max(v, axis=0)
    e = tl.exp(v - top)
    d = tl.sum(e, axis=0)
    share = d / top
    # Each element's part of the whole
    out = e * 2 / d - share
    out /= d
    tl.store(y + row * n_cols + cols, out, mask=mask)""",
)

ALONE = SOFTMAX.replace("    out /= d\n", "")


def divided_once(text: str) -> str | None:
    found = divide_once.rewrite(text)
    return found.text if found is not None else None


def test_elements_are_multiplied_and_a_number_is_divided_as_before() -> None:
    after = divided_once(SOFTMAX)
    assert after is not None
    ast.parse(after)
    assert changes(SOFTMAX, after) == (
        ["    out = e * 2 / d - share", "    out /= d"],
        [f"    # {divide_once.WHY}", "    out = e * 2 * (1.0 / d) - share", "    out *= 1.0 / d"],
    )


def test_a_sum_that_has_no_name_divides_once_as_well() -> None:
    after = divided_once(ALONE.replace("2 / d - share", "2 / tl.sum(e, axis=0) - share"))
    assert after is not None and "e * 2 * (1.0 / tl.sum(e, axis=0)) - share" in after


def test_a_cap_stays_a_division() -> None:
    """cross_entropy caps the label's own logit by itself, and its row was no longer as large."""
    capped = SOFTMAX.replace("    top = tl.max", "    v = top_of * tanh(v / top_of)\n    top = tl.max")
    after = divided_once(capped)
    assert after is not None and "tanh(v / top_of)" in after and "e * 2 * (1.0 / d)" in after
    uncapped = capped.replace("tanh(v / top_of)", "abs(v / top_of)")
    assert "abs(v * (1.0 / top_of))" in (divided_once(uncapped) or "")


def test_it_says_which_figures_are_of_a_sketch() -> None:
    found = divide_once.rewrite(SOFTMAX)
    assert found is not None and found.kernels == ("_k",)
    assert found.seen.startswith("A sketch of cross_entropy")


def test_what_is_divided_once_is_not_changed_again() -> None:
    after = divided_once(SOFTMAX)
    assert after is not None and divided_once(after) is None


@pytest.mark.parametrize(("kernel", "fits"), [("softmax", True), ("cross_entropy", True), ("layer_norm", False)])
def test_kernels_of_the_sample_that_divide_a_row(kernel: str, fits: bool) -> None:
    assert (divided_once(sample(kernel)) is not None) == fits


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a row divides", "2 / d - share", "2 / e - share"),
        ("an expression divides", "2 / d - share", "2 / (d + 1) - share"),
        ("a constant divides", "2 / d - share", "2 / 3.0 - share"),
        ("what the kernel is compiled for divides", "2 / d - share", "2 / BLOCK_SIZE - share"),
        ("a constant by another name divides", "d = tl.sum(e, axis=0)", "d = 2.0**2"),
        ("a constant by a third name divides", "d = tl.sum(e, axis=0)", "half = 0.5\n    d = half * BLOCK_SIZE"),
        ("the quotient is rounded down", "2 / d - share", "2 // d - share"),
        ("places of columns alone", "e * 2 / d - share", "cols / d"),
        ("an element of the row divides", "2 / d - share", "2 / tl.exp(v) - share"),
        ("the largest element divides", "2 / d - share", "2 / tl.max(v, axis=0) - share"),
        ("a scale for 256 numbers", "d = tl.sum(e, axis=0)", "d = tl.maximum(top, 1e-10) / 127.0"),
        ("a quotient is compared", " - share\n", " - share\n    out = tl.where(out > 1.0 / d, out, 0.0)\n"),
        ("a quotient with no name is compared", "e * 2 / d - share", "tl.where(e / d > 1.0 / d, e, 0.0)"),
        ("the next turn compares", "    out = e * 2", "    out = 0.0\n    for _ in range(2):\n"
         "        e = tl.where(out > 1.0 / d, e, 0.0)\n        out = e * 2"),
        ("nothing of a row", "e * 2 / d - share", "e * share"),
        ("two axes", "e * 2 / d - share", "(e[:, None] / d)"),
        ("two axes by their shape", "e * 2 / d - share", "tl.reshape(e, (1, 2)) / d"),
    ],
)  # fmt: skip
def test_a_division_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert divided_once(ALONE) is not None and before in ALONE
    assert divided_once(ALONE.replace(before, after)) is None, why


def test_what_is_compared_before_it_is_divided_may_be() -> None:
    found = divided_once(ALONE.replace("    out = e", "    e = tl.where(e > 1.0 / d, e, 0.0)\n    out = e"))
    assert found is not None and "    out = e * 2 * (1.0 / d) - share" in found


def test_how_far_below_the_largest_something_is_may_be_a_part_of_the_sum() -> None:
    """As where a row is walked over, and a sum so far is held against a new largest element."""
    walked = ALONE.replace("d = tl.sum(e, axis=0)", "d = tl.exp(top - 1.0) + tl.sum(e, axis=0)")
    assert divided_once(walked) is not None and divided_once(walked.replace("tl.exp(top", "(top")) is None


def test_a_number_that_is_made_of_no_row_divides_float32_alone() -> None:
    """Its reciprocal is float32, and a row of float64 was divided to twice the digits."""
    counted = ALONE.replace("2 / d - share", "2 / n_cols - share")
    assert "e * 2 * (1.0 / n_cols) - share" in (divided_once(counted) or "")
    for kind in ("", ".to(tl.float64)", ".to(y.dtype.element_ty)"):
        assert divided_once(counted.replace(".to(tl.float32)", kind)) is None
        assert divided_once(ALONE.replace(".to(tl.float32)", kind)) is not None, "a sum is of its row's type"


def test_a_sum_that_began_with_a_number_is_none() -> None:
    run = ALONE.replace("d = tl.sum(e, axis=0)", "d = 0.0\n    d = d + tl.sum(e, axis=0)")
    assert "e * 2 * (1.0 / d) - share" in (divided_once(run) or "")


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_line_may_become_as_long_as_a_line_may_be(more: int, fits: bool) -> None:
    room = 120 - len("    out = e * 2 * (1.0 / d) - share - ")
    text = ALONE.replace("2 / d - share\n", f"2 / d - share - {'1' * (room + more)}\n")
    assert (divided_once(text) is not None) == fits


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for rows, cols in ((3, 7), (1, 1), (2, 130)):
    for x in (torch.randn(rows, cols) * 10, torch.full((rows, cols), -3e38), torch.ones(rows, cols)):
        expected, found = (m.run(x, torch.empty_like(x), rows, cols) for m in (before, after))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
"""


def test_the_result_is_the_one_of_before(tmp_path: Path) -> None:
    after = divided_once(SOFTMAX)
    assert after is not None
    interpret(tmp_path, RUN, before=SOFTMAX, after=after)
