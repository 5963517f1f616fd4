"""Two sums over the shares of all programs become one launch."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import sum_together
from tests.engine.library import HEAD, changes, sample

HOST = """def backward(x, w, b, with_b):
    n_rows, n_cols = x.shape
    programs = 132
    dw = torch.empty((programs, n_cols), dtype=torch.float32, device=w.device)
    db = torch.empty(programs, n_cols, dtype=torch.float32, device=b.device) if with_b else None
    _k[(programs,)](x, dw, n_cols, BLOCK_SIZE=1024)

    # the weight
    dw = dw.sum(dim=0).to(w.dtype)
    # and what is added to it
    DB = db.sum(0).to(b.dtype) if with_b else None
    return dw, DB
"""
SUMS = HEAD + HOST


def together(text: str) -> str | None:
    found = sum_together.rewrite(text)
    return found.text if found is not None else None


def test_both_sums_become_one_line_and_three_functions_are_new() -> None:
    after = together(SUMS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(SUMS, after)
    assert gone == [
        "    dw = dw.sum(dim=0).to(w.dtype)",
        "    DB = db.sum(0).to(b.dtype) if with_b else None",
    ]
    line = "    dw, DB = _sum_shares(dw, w.dtype, db, b.dtype if with_b else None)"
    assert new[-2:] == [f"    # {sum_together.WHY}", line]
    assert "\n".join(new[:-2]).strip() == sum_together.HELPER.strip()


def test_it_is_done_once() -> None:
    after = together(SUMS)
    assert after is not None and together(after) is None


def test_a_sum_may_stand_under_the_condition_under_which_its_shares_were_made() -> None:
    old = "    DB = db.sum(0).to(b.dtype) if with_b else None\n    return dw, DB\n"
    text = SUMS.replace(old, "    if with_b:\n        # too\n        db = db.sum(0).to(b.dtype)\n    return dw, db\n")
    after = together(text)
    assert after is not None and changes(text, after)[0][-1] == "        db = db.sum(0).to(b.dtype)"
    assert "    # too\n" in after and "    dw, db = _sum_shares(dw, w.dtype, db, b.dtype if with_b else None)" in after


def test_a_tensor_of_one_number_a_program_is_added_up_whole() -> None:
    made = "torch.empty(programs, n_cols, dtype=torch.float32, device=b.device) if with_b else None"
    text = SUMS.replace(made, "torch.zeros((programs,), dtype=torch.float32, device=b.device)")
    text = text.replace("db.sum(0).to(b.dtype) if with_b else None", "db.sum().to(b.dtype)")
    after = together(text)
    assert after is not None and "dw, DB = _sum_shares(dw, w.dtype, db, b.dtype)" in after
    assert together(text.replace("zeros((programs,)", "zeros((programs, 4)")) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("one sum alone", "    dw = dw.sum(dim=0).to(w.dtype)\n", ""),
        ("something between them", "    # and what", "    print(dw)\n    # and what"),
        ("another number of rows", "torch.empty(programs, n_cols", "torch.empty(2 * programs, n_cols"),
        ("another axis", "dw.sum(dim=0)", "dw.sum(dim=1)"),
        ("an axis that stays", "dw.sum(dim=0)", "dw.sum(dim=0, keepdim=True)"),
        ("three axes", "torch.empty((programs, n_cols)", "torch.empty((programs, n_cols, 2)"),
        ("another type", "dtype=torch.float32, device=w", "dtype=torch.float16, device=w"),
        ("shares that somebody else made", "dw = torch.empty((programs", "dw = make((programs"),
        ("shares that are made anew", "    _k[(programs,)]", "    dw = dw[:3]\n    _k[(programs,)]"),
        ("shares that are changed", "    _k[(programs,)]", "    dw += 1\n    _k[(programs,)]"),
        ("shares that a branch makes", "    _k[(programs,)]", "    if n_rows:\n        dw = x\n    _k[(programs,)]"),
        ("another condition", "(b.dtype) if with_b", "(b.dtype) if with_w"),
        ("no condition", "device=b.device) if with_b else None", "device=b.device)"),
        ("another way to say nothing", "(b.dtype) if with_b else None", "(b.dtype) if with_b else 0"),
        ("the sum of a sum", "DB = db.sum(0)", "DB = dw.sum(0)"),
        ("a name that is taken", "programs = 132", "programs = 132\n    _sum_shares = 1"),
        ("torch by another name", "import torch\n", "import torch as torch\n"),
    ],
)  # fmt: skip
def test_sums_stay_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SUMS
    assert together(SUMS.replace(before, after)) is None, why


def test_of_two_functions_with_such_sums_neither_is_changed() -> None:
    assert together(SUMS + "\n\n" + HOST.replace("def backward", "def again")) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm"])
def test_a_single_sum_and_sums_in_what_is_returned_stay(kernel: str) -> None:
    assert ".sum(dim=0).to(" in sample(kernel) and together(sample(kernel)) is None
