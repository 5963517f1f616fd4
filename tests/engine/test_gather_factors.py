"""What every element of a row is multiplied by, and what is added to it, is worked out in front of the loop."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from bot.engine import rewriting
from bot.engine.transforms import divide_once, gather_factors
from bot.proposers import combined
from tests.engine.library import changes, interpret, sample

LOSS = '''"""A gradient that is scaled in several ways."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, n_cols, z, n, eps, MEAN: tl.constexpr, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n_cols
    total = 0.0
    for i in range(0, n_cols, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=-1e4).to(tl.float32)
        total += tl.sum(tl.exp(x))
    lse = tl.log(total)
    # the gradient
    for i in range(0, n_cols, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        if not WEIGHTED:
            # softmax
            x = tl.exp(x) * (1.0 / total)  # of the row
            # of z
            x += 2 * z * lse * x
            # smoothing
            x += -eps
            # the mean
            if MEAN:
                x = x * (1.0 / n)
        else:
            x = x * eps
        tl.store(x_ptr + cols, x, mask=cols < n_cols)


def run(x, mean, weighted, block=8):
    x = x.clone()
    _k[(len(x),)](x, x.shape[1], 0.25, 7.0, 0.125, MEAN=mean, WEIGHTED=weighted, BLOCK=block)
    return x
'''
MEAN = "            # the mean\n            if MEAN:\n                x = x * (1.0 / n)\n"
SMOOTH = "            x += -eps\n"


def gathered(text: str) -> str | None:
    ast.parse(text)
    found = gather_factors.rewrite(text)
    return found.text if found is not None else None


def put(before: str, after: str, text: str = LOSS) -> str:
    assert before in text
    return text.replace(before, after)


def test_the_lines_go_in_front_of_the_loop_with_all_that_is_said_of_them() -> None:
    after = gathered(LOSS)
    assert after is not None
    ast.parse(after)
    assert changes(LOSS, after) == (
        [
            "            x = tl.exp(x) * (1.0 / total)  # of the row",
            "            # of z",
            "            x += 2 * z * lse * x",
            "            # smoothing",
            "            x += -eps",
            "            # the mean",
            "            if MEAN:",
            "                x = x * (1.0 / n)",
        ],
        [
            f"    # {gather_factors.WHY}",
            "    if not WEIGHTED:",
            "        factor = 1.0 / total",
            "        # of z",
            "        factor += 2 * z * lse * factor",
            "        term = 0.0",
            "        # smoothing",
            "        term += -eps",
            "        # the mean",
            "        if MEAN:",
            "            factor = factor * (1.0 / n)",
            "            term = term * (1.0 / n)",
            "            x = tl.exp(x) * factor + term  # of the row",
        ],
    )
    lines = after.splitlines()
    assert lines[lines.index(f"    # {gather_factors.WHY}") - 1] == "    # the gradient"


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import before, after

for rows, cols in ((1, 1), (3, 8), (2, 19)):
    x = torch.randn(rows, cols)
    for mean in (False, True):
        for weighted in (False, True):
            one, other = before.run(x, mean, weighted), after.run(x, mean, weighted)
            assert torch.allclose(one, other, rtol=1e-5, atol=1e-5), (rows, cols, mean, weighted)
            assert not torch.equal(one, x)
"""
SCALED = put(
    MEAN, "            if MEAN:\n                x *= n\n                x -= eps * n\n            x = x - lse\n"
)
PRODUCTS = put(SMOOTH, "            x = eps * x\n            x *= lse\n")


@pytest.mark.parametrize("text", [LOSS, SCALED, PRODUCTS, put("tl.exp(x) * (1.0 / total)", "tl.exp(x)")])
def test_the_results_are_the_same_to_their_last_places(text: str, tmp_path: Path) -> None:
    after = gathered(text)
    assert after is not None
    interpret(tmp_path, RUN, before=text, after=after)


def test_without_anything_added_there_is_no_term() -> None:
    after = gathered(PRODUCTS)
    assert after is not None and "x = tl.exp(x) * factor  # of the row" in after and "term" not in after
    assert "        factor = eps * factor\n        factor *= lse\n" in after


def test_a_term_that_is_there_is_multiplied_as_well() -> None:
    after = gathered(put(MEAN, "            x += z * x\n"))
    assert after is not None and "        factor += z * factor\n        term += z * term\n" in after


def test_done_once_it_is_not_done_again() -> None:
    after = gathered(LOSS)
    assert after is not None and gathered(after) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("two lines save nothing", SMOOTH + MEAN, ""),
        ("a number that the loop changes", "        if not WEIGHTED:", "        z = z * 2\n        if not WEIGHTED:"),
        ("a number that is a row", "2 * z * lse * x", "2 * z * cols * x"),
        ("a call", "2 * z * lse * x", "2 * tl.exp(z) * lse * x"),
        ("a branch around it about a number", "        if not WEIGHTED:", "        if n > 3:"),
        ("a line between", SMOOTH, "            y = x\n            x += -eps\n            x += y\n"),
        ("a square", "2 * z * lse * x", "2 * z * x * x"),
        ("a quotient of it", "2 * z * lse * x", "2 * z / x"),
        ("no exponential: what is taken from it may be all of it", "tl.exp(x) * (1.0", "x * (1.0"),
        ("the exponential of a number", "tl.exp(x) * (1.0", "tl.exp(lse) * (1.0"),
        ("a number that was loaded", "    lse = tl.log(total)", "    lse = tl.load(x_ptr)"),
        ("a half number", "    lse = tl.log(total)", "    lse = tl.log(total).to(tl.float16)"),
        ("a line that goes on", "(1.0 / total)  # of", "(1.0\n                / total)  # of"),
        ("a comment inside", "* (1.0 / total)  # of", "* (  # of\n                1.0 / total\n            )  # of"),
        ("a constant that the loop changes", "        else:\n", "        else:\n            WEIGHTED = True\n"),
        ("a name that is taken", "    lse = tl.log(total)", "    lse = tl.log(total)\n    factor = lse"),
        ("another axis", "    lse = tl.log(total)", "    lse = tl.log(total)\n    z = tl.arange(0, 2)[None, :]"),
    ],
)  # fmt: skip
def test_it_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert gathered(put(before, after)) is None, why


@pytest.mark.parametrize(
    "branch",
    [
        "            if n > 3:\n                x = x * (1.0 / n)\n",
        "            if MEAN:\n                x = x * n\n            else:\n                x = x + 1\n",
        "            if MEAN:\n                x = tl.exp(x)\n",
    ],
)
def test_what_is_behind_a_line_that_is_not_understood_stays_in_the_loop(branch: str) -> None:
    after = gathered(put(MEAN, branch))
    assert after is not None and branch in after and "        term += -eps\n" in after


@pytest.mark.parametrize("first", ["n", "WEIGHTED", "(n * n)", "-n"])
def test_a_number_that_may_count_does_not_begin_it(first: str) -> None:
    """Products of counts end at 2**31. Behind a factor that is a float32 they are none."""
    assert gathered(put("tl.exp(x) * (1.0 / total)", f"tl.exp(x) * {first}")) is None
    assert gathered(put("tl.exp(x) * (1.0 / total)", f"tl.exp(x) * (1.0 * {first})")) is not None
    assert gathered(put("x += 2 * z * lse * x", "x *= n")) is not None


def test_of_two_numbers_that_are_added_the_second_ends_it() -> None:
    """One may be there to be taken off again, so that the element is rounded."""
    after = gathered(put(MEAN, "            x -= -eps\n            x *= n\n"))
    assert after is not None and "            x -= -eps\n            x *= n\n" in after


def test_a_branch_on_one_line_is_no_reason_to_fail() -> None:
    after = gathered(put(MEAN, "            if MEAN: x *= n\n"))
    assert after is not None and "            if MEAN: x *= n\n" in after
    assert (
        gathered(put("        if not WEIGHTED:\n", "        if WEIGHTED: n = 2\n        if not WEIGHTED:\n"))
        is not None
    )


def test_what_is_said_behind_a_line_is_said_once() -> None:
    after = gathered(put(MEAN, "            x *= n  # the mean\n"))
    assert after is not None and after.count("# the mean") == 1
    assert "        factor *= n  # the mean\n        term *= n\n" in after


def test_many_lines_take_no_longer_than_they_are() -> None:
    began = time.process_time()
    assert gathered(put(MEAN, "            x = x * n\n" * 300)) is not None
    assert time.process_time() - began < 20


def test_a_loop_inside_of_it_is_another_matter() -> None:
    inner = "        for j in range(2):\n            total += 0\n        if not WEIGHTED:"
    assert gathered(put("        if not WEIGHTED:", inner)) is None


def test_what_divides_is_divided_once_before() -> None:
    divides = put("tl.exp(x) * (1.0 / total)", "tl.exp(x) / total", put("x * (1.0 / n)", "x / n"))
    assert gathered(divides) is None
    once = divide_once.rewrite(divides)
    assert once is not None and gathered(once.text) is not None
    whole = combined.of_file("fewer_instructions", divides)
    assert whole is not None and "* factor + term" in whole.text


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "layer_norm", "jsd"])
def test_kernels_that_scale_once_have_nothing_to_gather(kernel: str) -> None:
    assert rewriting.of_file("gather_factors", sample(kernel)) is None
