"""Two sums over the shares of all programs become one launch."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import sum_at_once, sum_together
from tests.engine.library import HEAD, changes, interpret, sample

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


def test_what_does_not_fit_into_a_line_is_written_in_three() -> None:
    longer = SUMS.replace("with_b", "all_rows_have_the_same_numbers_added_to_them_once_more")
    after = together(longer)
    assert after is not None and "    dw, DB = _sum_shares(\n        dw, w.dtype, db, b.dtype if all_" in after
    assert max(len(line) for line in changes(longer, after)[1]) <= 120


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
        ("a type by the first sum", "db.sum(0).to(b.dtype)", "db.sum(0).to(dw.dtype)"),
        ("a condition by the first sum", "if with_b else None\n    return", "if dw is None else None\n    return"),
        ("a device for a type", ".to(b.dtype)", ".to(b.device)"),
        ("a tensor for a type", ".to(b.dtype)", ".to(b)"),
        ("rows that became others", "    db = torch", "    programs = 2 * n_rows\n    db = torch"),
        ("sizes that may be several", "torch.empty((programs, n_cols)", "torch.empty((programs, *w.shape)"),
        ("something else is entered", "    _k[", "    with open(x) as y:\n        pass\n    _k["),
        ("a name that is taken", "programs = 132", "programs = 132\n    _sum_shares = 1"),
        ("torch by another name", "import torch\n", "import torch as torch\n"),
    ],
)  # fmt: skip
def test_sums_stay_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SUMS
    assert together(SUMS.replace(before, after)) is None, why


@pytest.mark.parametrize(("n", "whose"), [(2**31, "torch"), (2**31 - 1, "ours")])
def test_what_32_bits_do_not_count_is_added_up_by_torch(tmp_path: Path, n: int, whose: str) -> None:
    both, one = together(SUMS), sum_at_once.rewrite(SUMS.replace("    dw = dw.sum(dim=0).to(w.dtype)\n", "", 1))
    assert both is not None and one is not None
    interpret(tmp_path, COUNTED.format(n=n, whose=whose), both=both, one=one.text)


COUNTED = """
import sys
sys.path.insert(0, sys.argv[1])
import both, one

class Shares:
    def numel(self): return {n}
    def sum(self, dim): return self
    def to(self, dtype): return "torch"

def told(call):
    try:
        call()
        return "torch"
    except AttributeError:
        return "ours"  # it asks for the shape

assert told(lambda: both._sum_shares(Shares(), 1, Shares(), 1)) == "{whose}"
assert told(lambda: one._sum_shares(Shares(), 1)) == "{whose}"
"""
UNDER_A_CONDITION = "    if with_b:\n        DB = db.sum(0).to(b.dtype)\n"


@pytest.mark.parametrize(
    ("before", "is_sure"),
    [("", True), ("    DB = None\n", True), ("    DB = torch.zeros_like(b)\n", False), ("    a, DB = x\n", False)],
)
def test_a_sum_under_a_condition_has_nothing_else_to_stand_for(before: str, is_sure: bool) -> None:
    text = SUMS.replace("    DB = db.sum(0).to(b.dtype) if with_b else None\n", UNDER_A_CONDITION)
    text = text.replace("    _k[", f"{before}    _k[")
    assert text.count("DB") == 2 + bool(before)
    assert (together(text) is not None) == is_sure


@pytest.mark.parametrize("size", ["x.shape", "x.size()", "out_shape", "*x.shape"])
def test_a_size_alone_that_may_be_several_is_none(size: str) -> None:
    made = "torch.empty(programs, n_cols, dtype=torch.float32, device=b.device) if with_b else None"
    text = SUMS.replace(made, f"torch.zeros({size}, dtype=torch.float32, device=b.device)")
    text = text.replace("torch.empty((programs, n_cols)", f"torch.empty(({size}, n_cols)")
    assert together(text.replace("db.sum(0).to(b.dtype) if with_b else None", "db.sum().to(b.dtype)")) is None


def test_launches_are_on_the_device_of_the_tensors_where_the_others_are() -> None:
    """As in rms_norm: torch's sum follows its tensor, a launch goes to the device that was entered last."""
    launch = "    _k[(programs,)](x, dw, n_cols, BLOCK_SIZE=1024)\n"
    text = SUMS.replace(launch, f"    with device_context(x.device):\n    {launch}")
    after = together(text)
    assert after is not None
    assert "    with device_context(first.device):\n        _sum_shares_kernel[((widest" in after
    ast.parse(after)
    for said in ("with x.guard(x.device):", "with device_context(x.device), other():", "with device_context(1):"):
        assert together(text.replace("with device_context(x.device):", said)) is None, said
    for line in ("from lib import device_context", "import device_context.sub", "from lib import at as device_context"):
        assert together(text.replace("    n_rows, n_cols =", f"    {line}\n    n_rows, n_cols =")) is None, line
    again = "    with torch.cuda.device(x.device):\n        pass\n"
    assert together(text.replace("    with device_context", f"{again}    with device_context")) is None


def test_of_two_functions_with_such_sums_neither_is_changed() -> None:
    assert together(SUMS + "\n\n" + HOST.replace("def backward", "def again")) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm"])
def test_a_single_sum_and_sums_in_what_is_returned_stay(kernel: str) -> None:
    assert ".sum(dim=0).to(" in sample(kernel) and together(sample(kernel)) is None
