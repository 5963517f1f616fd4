"""The space of launch numbers is found in what was recorded, and small enough to compile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.engine.space import MOST_PER_THREAD, MOST_SETTINGS, block_constant, settings
from tests.analysis import made


def pairs(*recorded: tuple[int, int]) -> list[tuple[int, int | None]]:
    found = settings(made.launch(block=block, warps=warps) for block, warps in recorded)
    return [(dict(setting.constants)["BLOCK_SIZE"], setting.num_warps) for setting in found]


def test_each_recorded_block_is_tried_with_8_16_and_32_elements_a_thread() -> None:
    found = pairs((4096, 2), (1024, 1))
    # One warp, 32 elements a thread, is what the narrow shape launches today, but not the wide one.
    assert found[:6] == [(4096, 4), (4096, 8), (4096, 16), (1024, 1), (1024, 2), (1024, 4)]


def test_smaller_blocks_are_tried_in_place_of_the_largest() -> None:
    found = pairs((16384, 4))
    assert {block for block, _ in found} == {16384, 8192, 4096, 2048, 1024}


def test_what_is_launched_today_is_not_tried_again() -> None:
    assert (4096, 8) not in pairs((4096, 8))
    # With two shapes one setting of either still changes the other.
    assert (4096, 8) in pairs((4096, 8), (1024, 2))


@given(
    st.lists(st.tuples(st.sampled_from([2**i for i in range(17)]), st.sampled_from([1, 2, 4, 8, 16, 32])), max_size=6)
)
def test_no_setting_compiles_for_minutes_and_there_are_not_many(recorded: list[tuple[int, int]]) -> None:
    found = pairs(*recorded)
    assert len(found) <= MOST_SETTINGS
    assert len(set(found)) == len(found)
    for block, warps in found:
        assert warps is not None and 1 <= warps <= 32
        assert block // (32 * warps) <= MOST_PER_THREAD


def test_each_kernel_has_settings_of_its_own() -> None:
    found = settings([made.launch("_a", block=1024, warps=8), made.launch("_b", block=1024, warps=8)])
    assert {setting.kernel for setting in found} == {"_a", "_b"}


def test_the_likeliest_of_each_kernel_come_before_the_second_of_any() -> None:
    """A survey may end before it comes to the last: no kernel is left without a word."""
    found = settings([made.launch("_a", block=256, warps=8), made.launch("_b", block=4096, warps=8)])
    mine = {kernel: [s for s in found if s.kernel == kernel] for kernel in ("_a", "_b")}
    assert len(mine["_a"]) > 1 and len(mine["_b"]) > len(mine["_a"])
    both = 2 * len(mine["_a"])
    assert [setting.kernel for setting in found] == ["_a", "_b"] * len(mine["_a"]) + ["_b"] * (len(found) - both)


def test_a_kernel_that_tunes_itself_has_none() -> None:
    plain = "@triton.jit\ndef _b(x):\n    pass\n"
    tuned = f"@triton.autotune(configs=[], key=[])\n{plain.replace('_b', '_a')}\n\n{plain}"
    recorded = [made.launch("_a", block=1024, warps=8), made.launch("_b", block=1024, warps=8)]
    assert {setting.kernel for setting in settings(recorded, tuned)} == {"_b"}
    assert {setting.kernel for setting in settings(recorded, "no Python (")} == {"_a", "_b"}


def test_stages_are_tried_only_where_the_kernel_speaks_of_them() -> None:
    plain = settings([made.launch()])
    staged = settings([made.launch(constants=(("BLOCK_SIZE", "4096"), ("NUM_STAGES", "3")))])
    assert not [setting for setting in plain if setting.num_stages is not None]
    assert [setting.num_stages for setting in staged if setting.num_stages is not None] == [1, 2, 4]


def test_a_kernel_without_a_block_is_tried_with_other_warps_alone() -> None:
    found = settings([made.launch(constants=(), warps=4)])
    assert [setting.num_warps for setting in found] == [1, 2, 8, 16, 32]
    assert not any(setting.constants for setting in found)


@pytest.mark.parametrize(
    ("constants", "found"),
    [
        ((("BLOCK_SIZE", "4096"),), ("BLOCK_SIZE", 4096)),
        ((("BLOCK_ROW", "16"), ("BLOCK_SIZE", "256")), ("BLOCK_SIZE", 256)),
        ((("BLOCK_SIZE", "4095"),), None),
        ((("BLOCK_SIZE", "-4"),), None),
        ((("BLOCK_SIZE", "0"),), None),
        ((("eps", "1e-6"), ("n_cols", "4096")), None),
    ],
)
def test_a_block_is_a_power_of_two_that_is_called_one(constants: tuple[tuple[str, str], ...], found: object) -> None:
    assert block_constant(made.launch(constants=constants)) == found


def test_nothing_recorded_is_nothing_to_try() -> None:
    assert settings([]) == ()
