"""A sum over the shares of all programs becomes one launch."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import sum_at_once
from tests.engine.library import HEAD, changes, sample
from tests.engine.test_sum_together import SUMS

ONE = (
    HEAD
    + """def backward(x, w, needs_dw):
    n_rows, n_cols = x.shape
    if w is not None:
        shares = torch.empty((132, n_cols), dtype=torch.float32, device=w.device) if needs_dw else None
    else:
        shares = None
    _k[(132,)](x, shares, n_cols, BLOCK_SIZE=1024)
    if needs_dw:
        dw = shares.sum(dim=0).to(w.dtype)  # of all programs
    else:
        dw = None
    return dw
"""
)


def at_once(text: str) -> str | None:
    found = sum_at_once.rewrite(text)
    return found.text if found is not None else None


def test_the_sum_changes_where_it_stands_and_two_functions_are_new() -> None:
    after = at_once(ONE)
    assert after is not None
    ast.parse(after)
    gone, new = changes(ONE, after)
    assert gone == ["        dw = shares.sum(dim=0).to(w.dtype)  # of all programs"]
    assert new[-1] == "        dw = _sum_shares(shares, w.dtype)  # of all programs"
    assert "\n".join(new[:-1]).strip() == sum_at_once.HELPER.strip()


def test_it_is_done_once() -> None:
    after = at_once(ONE)
    assert after is not None and at_once(after) is None


def test_a_name_may_stand_for_its_own_sum() -> None:
    text = ONE.replace("dw = shares.sum", "shares = shares.sum").replace("return dw", "return shares")
    assert at_once(text) is not None


def test_two_sums_side_by_side_are_for_another_rewrite() -> None:
    assert at_once(SUMS) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a sum of all elements", ".sum(dim=0)", ".sum()"),
        ("another axis", ".sum(dim=0)", ".sum(dim=1)"),
        ("a sum that is not rounded", ".sum(dim=0).to(w.dtype)", ".sum(dim=0)"),
        ("another type", "torch.float32", "torch.float16"),
        ("one axis", "torch.empty((132, n_cols)", "torch.empty((n_cols,)"),
        ("shares that somebody else made", "shares = None", "shares = x"),
        ("shares that are a part of others", "    _k[", "    shares, x = x, shares\n    _k["),
        ("shares that are changed", "    _k[", "    shares *= 2\n    _k["),
        ("nobody made them", "torch.empty((132, n_cols), dtype=torch.float32, device=w.device)", "None"),
        ("a comment in the sum", ".sum(dim=0).to(w.dtype)", ".sum(dim=0).to(\n            w.dtype  # its\n        )"),
        ("two of them", "    return dw", "    more = shares.sum(0).to(w.dtype)\n    return dw, more"),
        ("shares that may be handed over", "(x, w, needs_dw)", "(x, w, needs_dw, shares=None)"),
        ("a device for a type", ".to(w.dtype)", ".to(w.device)"),
        ("sizes that may be several", "(132, n_cols)", "(132, *w.shape)"),
        ("something else is entered", "    _k[", "    with open(x):\n        pass\n    _k["),
        ("a name that is taken", "n_rows, n_cols = x", "_sum_shares = 1\n    n_rows, n_cols = x"),
        ("no language", "import triton.language as tl\n", "from triton import language as tl\n"),
    ],
)  # fmt: skip
def test_a_sum_stays_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in ONE
    assert at_once(ONE.replace(before, after)) is None, why


def test_a_sum_in_what_is_returned_stays() -> None:
    """As it is written in the sample: the line says what a caller gets."""
    branch = ONE[ONE.index("    if needs_dw:\n") : ONE.index("    return dw")]
    assert at_once(ONE.replace(branch, "").replace("return dw", "return x, shares.sum(dim=0).to(w.dtype)")) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm", "softmax", "jsd"])
def test_sums_in_what_is_returned_stay(kernel: str) -> None:
    assert at_once(sample(kernel)) is None
