"""Branches may have a dictionary of launch numbers each, or share one."""

from __future__ import annotations

import pytest

from bot.engine.launch_numbers import Numbers, write
from bot.engine.source import NotUnderstood
from tests.engine.library import changes, op
from tests.engine.test_launch_numbers import LAYER_NORM, PER_THREAD, WHY, rewritten

EACH_ITS_OWN = """
if n_cols > 8:
    kwargs = {"BLOCK_SIZE": 2048, "num_stages": 4, "num_warps": 1}
    _other[(n_rows,)](x, y, **kwargs)
else:
    kwargs = {"BLOCK_SIZE": 2048, "num_stages": 2, "num_warps": 1}
    _k[(n_rows,)](x, y, n_cols, **kwargs)
"""
"""How Liger launches the forward of grpo_loss."""
SHARED = """
kwargs = {"BLOCK_SIZE": 4096, "num_stages": 1, "num_warps": 16}
if n_cols > 8:
    _other[(n_rows,)](x, y, **kwargs)
else:
    # a row each
    _k[(n_rows,)](x, y, n_cols, **kwargs)
"""
"""And its backward."""


def test_a_branch_with_a_dictionary_of_its_own_changes_that_one() -> None:
    for warps, told in (("8", 8), (PER_THREAD, 4)):
        assert rewritten(EACH_ITS_OWN, warps=warps) == (
            ['        kwargs = {"BLOCK_SIZE": 2048, "num_stages": 2, "num_warps": 1}'],
            [f"        # {WHY}", f'        kwargs = {{"BLOCK_SIZE": 2048, "num_stages": 2, "num_warps": {told}}}'],
        ), "the block is a number, and so is what follows from it"


def test_branches_that_share_a_dictionary_change_it_each_for_itself() -> None:
    assert rewritten(SHARED, warps="8") == (
        [],
        [f"        # {WHY}", '        kwargs["num_warps"] = 8'],
    )
    once = write(op(SHARED), Numbers("_k", why=WHY, warps="8"))
    assert changes(once, write(once, Numbers("_k", why=WHY, warps="2")))[1] == ['        kwargs["num_warps"] = 2']
    unsaid = SHARED.replace(', "num_warps": 16', "")
    assert rewritten(unsaid, warps="8")[1][-1] == "        _k[(n_rows,)](x, y, n_cols, num_warps=8, **kwargs)"


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("handed to another launch", SHARED.replace("    # a row each\n", "    _other[(n_rows,)](x, y, **kwargs)\n")),
        ("used later", f"{SHARED}_other[(n_rows,)](x, y, **kwargs)"),
        ("used after the branch it is made in", f"{EACH_ITS_OWN}return kwargs"),
        ("asked by the branch", SHARED.replace("n_cols > 8", "changed(kwargs)")),
        ("changed by a branch before", SHARED.replace("if n_cols", "if x:\n    change(kwargs)\nif n_cols", 1)),
        ("kept for later", SHARED.replace("kwargs = ", "later = lambda: kwargs\nkwargs = ")),
        ("made in one branch alone", EACH_ITS_OWN.replace("else:\n    kwargs = ", "else:\n    other = ")),
    ],
)
def test_a_dictionary_that_something_else_meets_is_left_alone(why: str, body: str) -> None:
    assert body not in (SHARED, EACH_ITS_OWN)
    with pytest.raises(NotUnderstood, match="dictionary"):
        write(op(body), Numbers("_k", warps="8"))


def test_a_block_that_a_branch_may_change_is_no_block_to_follow() -> None:
    body = LAYER_NORM.replace('{"num_warps"', '{"BLOCK_SIZE": 512, "num_warps"').replace("BLOCK_SIZE=BLOCK_SIZE, ", "")
    assert rewritten(body, warps="8")[1][-1] == "    num_warps = 8"
    with pytest.raises(NotUnderstood, match="does not say its BLOCK_SIZE"):
        write(op(body), Numbers("_k", warps=PER_THREAD))
