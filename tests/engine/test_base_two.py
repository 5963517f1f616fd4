"""Exponentials of a row are taken to the base of two, where nobody tells a zero from a very small number."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine import columns, source
from bot.engine.transforms import base_two
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
    # What is left of the row's maximum
    rest = tl.exp(top - d)
    out = e / d + rest + tl.log(d) + tl.exp(v)
    tl.store(y + row * n_cols + cols, out, mask=mask)""",
)


def to_base_two(text: str) -> str | None:
    found = base_two.rewrite(text)
    return found.text if found is not None else None


def test_exponentials_of_the_row_change_and_that_of_a_number_does_not() -> None:
    after = to_base_two(SOFTMAX)
    assert after is not None
    ast.parse(after)
    gone, new = changes(SOFTMAX, after)
    assert gone == [
        "    e = tl.exp(v - top)",
        "    out = e / d + rest + tl.log(d) + tl.exp(v)",
    ]
    assert new == [
        f"    # {base_two.WHY}",
        "    e = tl.math.exp2((v - top) * 1.4426950408889634)",
        "    out = e / d + rest + tl.log(d) + tl.math.exp2(v * 1.4426950408889634)",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(v - top)", "exp2((v - top) * 1.4426950408889634)"),
        ("((v - top))", "exp2((v - top) * 1.4426950408889634)"),
        ("(-v)", "exp2((-v) * 1.4426950408889634)"),
        ("(tl.abs(v))", "exp2(tl.abs(v) * 1.4426950408889634)"),
    ],
)
def test_an_argument_gets_parentheses_where_the_product_needs_them(before: str, after: str) -> None:
    found = to_base_two(SOFTMAX.replace("+ tl.exp(v)\n", f"+ tl.exp{before}\n"))
    assert found is not None and f"+ tl.math.{after}\n" in found


def test_it_says_what_was_measured_and_what_was_compiled() -> None:
    found = base_two.rewrite(SOFTMAX)
    assert found is not None and found.kernels == ("_k",)
    assert found.seen.startswith("1.09x for softmax's forward of 32,000 columns on an H200")


def test_the_base_of_two_is_not_changed_again() -> None:
    after = to_base_two(SOFTMAX)
    assert after is not None and to_base_two(after) is None


@pytest.mark.parametrize(("kernel", "fits"), [("softmax", True), ("rms_norm", False), ("layer_norm", False)])
def test_kernels_of_the_sample_that_take_exponentials_of_a_row(kernel: str, fits: bool) -> None:
    assert (to_base_two(sample(kernel)) is not None) == fits


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("no exponential of a row", "tl.exp(v", "tl.sin(v"),
        ("another function of that name", "tl.exp(v", "other.exp(v"),
        ("a logarithm of one", "d = tl.sum(e, axis=0)", "d = tl.sum(tl.log(e), axis=0)"),
        ("a logarithm of what is made of one", "d = tl.sum(e, axis=0)", "f = e * 2\n    d = tl.sum(tl.log(f), axis=0)"),
        ("a sum that may be small as well", "e = tl.exp(v - top)", "e = tl.exp(v)"),
        ("a difference from any number", "e = tl.exp(v - top)", "e = tl.exp(v - tl.load(y + row))"),
        ("a root below a line", "d = tl.sum(e, axis=0)", "d = tl.sum(tl.rsqrt(e), axis=0)"),
        ("a quotient by one", "e / d", "d / e"),
        ("a quotient by one in place", "    d = tl.sum(e", "    v /= e\n    d = tl.sum(e"),
        ("a comparison", "d = tl.sum(e, axis=0)", "d = tl.sum(tl.where(e > 0, 1.0, 0.0), axis=0)"),
        ("somebody who may look", "d = tl.sum(e, axis=0)", "d = mystery(e)"),
        ("sums over another axis", "d = tl.sum(e, axis=0)", "d = tl.sum(e[:, None], axis=0)"),
    ],
)  # fmt: skip
def test_exponentials_stay_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SOFTMAX
    assert to_base_two(SOFTMAX.replace(before, after)) is None, why


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_line_may_become_as_long_as_a_line_may_be(more: int, fits: bool) -> None:
    room = 120 - len("    out = e / d + rest + tl.log(d) + tl.math.exp2(v * 1.4426950408889634) + ")
    text = SOFTMAX.replace("tl.exp(v)\n", f"tl.exp(v) + {'1' * (room + more)}\n")
    assert (to_base_two(text) is not None) == fits


def test_what_is_made_of_columns_is_a_row_and_what_was_summed_is_not() -> None:
    kernel = source.kernel_named(source.parse(SOFTMAX), "_k")
    assert kernel is not None
    assert columns.of_rows(kernel) == {"cols", "mask", "v", "e", "out"}
    assert columns.spread(kernel, columns.is_place) == {"cols", "mask"}


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for rows, cols in ((3, 7), (1, 1), (2, 130)):
    for x in (torch.randn(rows, cols) * 10, torch.full((rows, cols), -3e38), torch.zeros(rows, cols)):
        expected, found = (m.run(x, torch.empty_like(x), rows, cols) for m in (before, after))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-30)
        assert torch.isfinite(found).all() or not torch.isfinite(expected).all()
"""


def test_the_result_is_the_one_of_before(tmp_path: Path) -> None:
    after = to_base_two(SOFTMAX)
    assert after is not None
    interpret(tmp_path, RUN, before=SOFTMAX, after=after)
