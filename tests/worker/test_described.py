"""A kernel that takes tensor descriptors is caught, compiled and written down as any other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bot.worker.contract.tape import ELEMENTS, Descriptor, Kernel, KernelArgument, Scalar
from bot.worker.taping import Taper
from tests.worker.scenes import played

BFLOAT16 = 9
SINGLE, ROUNDED = 7, 11


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


ENCODED = {"swizzle": 3, "elem_size": 4, "elem_type": SINGLE, "block_size": [8, 32], "fp4_padded": False}
"""As a chip with a copy engine has it from the compiler."""


def taped(folder: Path, encoding: dict[str, Any] | None, **told: Any) -> tuple[str, list[KernelArgument]]:
    """(why it cannot be recorded, the arguments) of a kernel that is handed a descriptor as Triton 3.8 has it."""
    x = torch.zeros(64, 32)
    facts = SimpleNamespace(name="kernel", global_scratch_size=0, profile_scratch_size=0, num_warps=4, shared=0)
    facts.tensordesc_meta = [encoding] if encoding else []
    source = SimpleNamespace(signature={"source": "tensordesc<fp32[8, 32]>"})
    taper = Taper({"x": x}, folder, device="cpu")
    given = SimpleNamespace(base=x, shape=[64, 32], strides=[32, 1], padding="zero", **told)
    taper.launched(SimpleNamespace(metadata=facts, src=source, asm={"cubin": b"\x7fELF"}), (8, 1, 1), (given,))
    found = taper.tape("forward", []).steps if not taper.why_not else ()
    return taper.why_not, [one for step in found if isinstance(step, Kernel) for one in step.arguments]


@pytest.mark.parametrize("told", [{}, {"round_f32_to_tf32": False}])
def test_single_precision_stays_what_it_is(told: dict[str, bool], tmp_path: Path) -> None:
    """Up to Triton 3.6 nobody can ask for anything else."""
    _, (first, *_) = taped(tmp_path, ENCODED, **told)
    assert isinstance(first, Descriptor) and first.element == SINGLE


def test_what_is_rounded_to_tf32_on_its_way_is_told_so(tmp_path: Path) -> None:
    _, (first, *_) = taped(tmp_path, ENCODED, round_f32_to_tf32=True)
    assert isinstance(first, Descriptor) and first.element == ROUNDED and ELEMENTS[ROUNDED] == 4


@pytest.mark.parametrize(
    ("told", "flags"), [({}, [0]), ({"round_f32_to_tf32": False}, [0, 0]), ({"round_f32_to_tf32": True}, [0, 1])]
)
def test_without_a_copy_engine_a_kernel_is_told_whether_to_round(
    told: dict[str, bool], flags: list[int], tmp_path: Path
) -> None:
    """By a parameter more since Triton 3.7: all behind it would be in the place of another."""
    _, found = taped(tmp_path, None, **told)
    assert [one.bits for one in found if isinstance(one, Scalar) and one.kind == "i1"] == flags
    assert [one.bits for one in found if isinstance(one, Scalar)][4:-4] == flags


def test_a_descriptor_of_windows_is_not_recorded(tmp_path: Path) -> None:
    """As convolutions have them: they are encoded by another call of the driver."""
    why, _ = taped(tmp_path, {**ENCODED, "is_im2col": True}, round_f32_to_tf32=False)
    assert why == "a kernel takes a tensor descriptor of windows"
