"""Of two differences to the larger of two numbers one exponential is enough, and the numbers' own are products."""

from __future__ import annotations

import ast
import math

import pytest
import torch

from bot.engine.transforms import share_exponentials
from tests.engine.library import changes, op

MIXTURE = op(
    """
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024)
return y
"""
).replace(
    "    tl.store(y + row * n_cols + cols, v * 2, mask=mask)",
    """    w = tl.load(y + row * n_cols + cols, mask=mask)
    top = tl.maximum(v, w)
    v_less = v - top
    w_less = w - top

    # Never zero
    both = tl.exp(v_less) + tl.exp(w_less)
    log = top + tl.log(both)
    p = tl.exp(v)
    out = p * (v - log) + tl.exp(w) * (w - log)
    tl.store(y + row * n_cols + cols, out, mask=mask)""",
)


def shared(text: str) -> str | None:
    found = share_exponentials.rewrite(text)
    return found.text if found is not None else None


def test_four_exponentials_become_two() -> None:
    after = shared(MIXTURE)
    assert after is not None
    ast.parse(after)
    assert changes(MIXTURE, after) == (
        [
            "    both = tl.exp(v_less) + tl.exp(w_less)",
            "    p = tl.exp(v)",
            "    out = p * (v - log) + tl.exp(w) * (w - log)",
        ],
        [
            f"    # {share_exponentials.WHY}",
            "    exp_lesser = tl.exp(v_less + w_less)",
            "    exp_v_less = tl.where(v_less == 0.0, 1.0, exp_lesser)",
            "    exp_w_less = tl.where(w_less == 0.0, 1.0, exp_lesser)",
            "    exp_top = tl.exp(top)",
            "    both = exp_v_less + exp_w_less",
            "    p = exp_v_less * exp_top",
            "    out = p * (v - log) + (exp_w_less * exp_top) * (w - log)",
        ],
    )


def test_where_the_numbers_have_no_exponential_none_is_taken_of_the_larger() -> None:
    after = shared(MIXTURE.replace("tl.exp(v)", "v").replace("tl.exp(w)", "w"))
    assert after is not None and "exp_lesser" in after and "exp_top" not in after


def test_what_shares_already_is_left_as_it_is() -> None:
    after = shared(MIXTURE)
    assert after is not None and shared(after) is None


def test_another_branch_keeps_its_own() -> None:
    lines = MIXTURE.replace(
        "    top = tl.maximum",
        "    if n_cols == 1:\n        v_less = v - 1\n        v = tl.exp(v_less)\n    top = tl.maximum",
    )
    after = shared(lines)
    assert after is not None and "        v = tl.exp(v_less)" in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the larger changes", "    both =", "    top = v\n    both ="),
        ("a number changes", "    both =", "    w += 1\n    both ="),
        ("a number changes in a loop", "    both =", "    for w in range(2):\n        v_less = v\n    both ="),
        ("a difference is no difference", "w_less = w - top", "w_less = w + top"),
        ("a difference is of another", "w_less = w - top", "w_less = top - w"),
        ("a difference has no exponential", "tl.exp(w_less)", "w_less"),
        ("both are one", "tl.maximum(v, w)", "tl.maximum(v, v)"),
        ("one is a number", "tl.maximum(v, w)", "tl.maximum(v, 0.0)"),
        ("a name is taken", "    both =", "    exp_top = 1\n    both ="),
    ],
)
def test_it_is_left_alone_where(why: str, before: str, after: str) -> None:
    changed = MIXTURE.replace(before, after)
    assert changed != MIXTURE and shared(changed) is None, why


def test_two_pairs_in_one_kernel_are_none() -> None:
    again = MIXTURE.replace(
        "    both =", "    most = tl.maximum(v, w)\n    one = v - most\n    two = w - most\n    both ="
    )
    assert shared(again) is None


SPECIAL = [0.0, -0.5, -3.0, -60.0, -104.0, 20.0, -math.inf, math.nan]


def test_the_same_numbers_come_out_special_ones_too() -> None:
    """In float32, as the kernel computes: what is not a number stays none, and a minus infinity a zero."""
    v, w = (x.flatten() for x in torch.meshgrid(torch.tensor(SPECIAL), torch.tensor(SPECIAL), indexing="ij"))
    top = torch.maximum(v, w)
    one, other = v - top, w - top
    lesser = torch.exp(one + other)
    shared_one, shared_other = torch.where(one == 0, 1.0, lesser), torch.where(other == 0, 1.0, lesser)
    numbers = ~(v.isnan() | w.isnan())
    torch.testing.assert_close(shared_one[numbers], torch.exp(one)[numbers], equal_nan=True)
    torch.testing.assert_close(shared_other[numbers], torch.exp(other)[numbers], equal_nan=True)
    finite = numbers & top.isfinite()
    torch.testing.assert_close((shared_one * top.exp())[finite], v.exp()[finite], rtol=1e-5, atol=1e-38)
    assert shared_one[v.isnan()].isnan().all() and shared_other[w.isnan()].isnan().all()
