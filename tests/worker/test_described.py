"""A kernel that takes tensor descriptors is caught, compiled and written down as any other."""

from __future__ import annotations

from typing import Any

import pytest

from bot.worker.contract.tape import ELEMENTS
from tests.worker.scenes import played

BFLOAT16 = 9


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played("described", told={"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))})


def test_it_compiles_for_chips_with_a_copy_engine_and_without(seen: dict[str, Any]) -> None:
    (case,) = seen["compiled"]["cases"]
    (launch,) = case["launches"]
    assert launch["refusal"] is None and launch["regions"] == [["source", 2 * 64 * 4096], ["target", 2 * 64 * 4096]]
    assert {stamp["arch"]: stamp["refusal"] for stamp in seen["compiled"]["stamps"]} == {"sm_80": None, "gfx942": None}


@pytest.mark.parametrize("chip", ["sm_90", "sm_80"])
def test_a_recording_has_an_argument_for_each_parameter_that_was_compiled(chip: str, seen: dict[str, Any]) -> None:
    assert seen[chip]["sizes"] == seen[chip]["parameters"]


def test_on_hopper_a_descriptor_is_one_argument_and_its_sizes_and_steps_follow(seen: dict[str, Any]) -> None:
    assert seen["sm_90"]["first"] == {
        "region": 0,
        "offset": 0,
        "element": BFLOAT16,
        "shape": [64, 4096],
        "stride": [4096, 1],
        "block": [8, 64],
        "swizzle": 3,
        "nan": False,
    }
    assert ELEMENTS[BFLOAT16] == 2
    assert seen["sm_90"]["numbers"] == [64, 4096, 4096, 1, 64, 4096, 8192, 1, 4096]


def test_a_part_of_a_tensor_begins_where_it_does(seen: dict[str, Any]) -> None:
    """And what lies outside of it reads as its author wants it to."""
    last = seen["sm_90"]["last"]
    assert (last["region"], last["offset"], last["stride"], last["nan"]) == (1, 2 * 4096, [8192, 1], True)
    assert seen["sm_80"]["last"] == {"region": 1, "offset": 2 * 4096}


def test_without_a_copy_engine_it_is_taken_apart(seen: dict[str, Any]) -> None:
    """Sizes and steps twice, as Triton's launcher has them, and between them whether what lies outside is NaN."""
    sizes = [64, 4096, 4096, 1]
    beside = [64, 4096, 8192, 1]
    assert seen["sm_80"]["numbers"] == [*sizes, 0, *sizes, *beside, 1, *beside, 4096]
