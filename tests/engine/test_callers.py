"""Whoever asks for four warps gets four."""

import pytest

from bot.engine import launch_numbers
from bot.engine.launch_numbers import Numbers
from bot.engine.source import NotUnderstood

KERNEL = """import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, n, BLOCK_SIZE: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK_SIZE), 0.0)


def launch(x, n, num_warps=None):
    BLOCK_SIZE = triton.next_power_of_2(n)

    # The device knows best.
    num_warps = best(n) if num_warps is None else num_warps
    _kernel[(1,)](x, n, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
TWICE = "min(2 * num_warps, 16 if torch.version.hip else 32) if given_num_warps is None else num_warps"


def twice(text: str) -> str:
    text = text if "import torch" in text else "import torch\n" + text
    return launch_numbers.with_other_warps(text, "_kernel", more=True, why="Twice.")


def test_what_is_chosen_instead_is_for_those_who_ask_for_nothing() -> None:
    """mhc_post_res's winner launched eight warps for a caller who had said four."""
    text = twice(KERNEL)
    assert "\n\n    given_num_warps = num_warps\n    # The device knows best.\n    num_warps = best(n)" in text
    assert f"num_warps={TWICE}" in text


def test_what_was_chosen_twice_is_kept_from_callers_once() -> None:
    text = twice(twice(KERNEL))
    assert f"num_warps={TWICE.replace('2 *', '4 *')}" in text
    assert text.count("given_num_warps = num_warps") == 1


def test_a_number_of_a_table_is_not_for_callers_either() -> None:
    text = launch_numbers.write(KERNEL, Numbers("_kernel", warps="min(max({block} // 512, 1), 32)", why="16 each."))
    assert "given_num_warps = num_warps\n" in text
    assert "num_warps=min(max(BLOCK_SIZE // 512, 1), 32) if given_num_warps is None else num_warps" in text


@pytest.mark.parametrize("default", ["num_warps", "num_warps=8"])
def test_a_number_that_callers_always_say_is_no_choice_to_keep(default: str) -> None:
    assert "given_num_warps" not in twice(KERNEL.replace("num_warps=None", default))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    num_warps = best(n) if num_warps is None else num_warps\n", ""),
        ("    BLOCK_SIZE = triton", "    given_num_warps = 3\n    BLOCK_SIZE = triton"),
    ],
)
def test_where_nobody_knows_who_chose_it_stays(old: str, new: str) -> None:
    with pytest.raises(NotUnderstood, match="num_warps is chosen, or a name is taken"):
        twice(KERNEL.replace(old, new))
