"""What a launch gives by its place: a block can be read there, and a launch number does not count."""

from __future__ import annotations

import pytest

from bot.engine.launch_numbers import Numbers, with_other_warps, write
from bot.engine.source import NotUnderstood
from tests.engine.library import changes, op
from tests.engine.test_launch_numbers import PER_THREAD, WHY, rewritten


def speaking(body: str, parameters: str = "num_stages: tl.constexpr, num_warps: tl.constexpr") -> str:
    """An op whose kernel has launch numbers among its parameters."""
    return op(body).replace("BLOCK_SIZE: tl.constexpr)", f"BLOCK_SIZE: tl.constexpr, {parameters})")


BY_PLACE = """
BLOCK_SIZE, num_warps = settings(n_cols)
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, 2, num_warps)
"""
"""How Liger launches fused_neighborhood_attention: Triton takes four warps, whatever it says."""


def test_a_block_that_is_given_by_its_place_is_read() -> None:
    body = "BLOCK_SIZE = 4096 * n_rows\n_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, num_warps=2)"
    assert rewritten(body, warps=PER_THREAD)[1] == [
        f"    # {WHY}",
        "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, num_warps=min(max(BLOCK_SIZE // 512, 1), 32))",
    ]
    hidden = body.replace("x, y, n_cols", "*rows")
    with pytest.raises(NotUnderstood, match="does not say its BLOCK_SIZE"):
        write(op(hidden), Numbers("_k", warps=PER_THREAD))


def test_a_number_that_is_given_by_its_place_is_given_by_name() -> None:
    """Given twice it would be an error, and by its place alone it does not count."""
    once = changes(speaking(BY_PLACE), write(speaking(BY_PLACE), Numbers("_k", warps="8", why=WHY)))
    assert once[1] == [
        f"    # {WHY}",
        "    num_warps = 8",
        "    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, 2, num_warps=num_warps)",
    ]
    others = f"{BY_PLACE}return num_warps"
    twice = changes(speaking(others), write(speaking(others), Numbers("_k", warps="8")))
    assert twice[1] == ["    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, 2, num_warps=8)"]
    named = speaking(BY_PLACE, "num_warps: tl.constexpr, n_rows").replace(
        "BLOCK_SIZE, 2, num_warps)", "BLOCK_SIZE, num_warps, n_rows)"
    )
    assert changes(named, write(named, Numbers("_k", warps=PER_THREAD, up_to=None)))[1][-1].endswith(
        "BLOCK_SIZE, num_warps=num_warps, n_rows=n_rows)"
    )


def test_what_ran_before_is_triton_s_own_choice() -> None:
    body = BY_PLACE.replace("BLOCK_SIZE, num_warps = settings(n_cols)", "BLOCK_SIZE = triton.next_power_of_2(n_cols)")
    text = write(speaking(body.replace("2, num_warps", "2, 16")), Numbers("_k", warps="8", up_to=4096))
    assert "num_warps=8 if n_cols <= 4096 else 4)" in text
    more = with_other_warps(speaking(BY_PLACE), "_k", more=True, why="Others.")
    assert "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE, 2, num_warps=8)" in more


def test_a_number_behind_which_another_would_begin_to_count_is_left_alone() -> None:
    for text in (
        speaking(BY_PLACE, "num_warps: tl.constexpr, num_stages: tl.constexpr"),
        speaking(BY_PLACE.replace("num_warps)", "num_warps, *more)")),
    ):
        with pytest.raises(NotUnderstood, match="cannot be given by name"):
            write(text, Numbers("_k", warps="8"))
    elsewhere = "from other import _k\n" + op(BY_PLACE)[op(BY_PLACE).index("def run") :]
    with pytest.raises(NotUnderstood, match="of another module"):
        write(elsewhere, Numbers("_k", warps="8"))
