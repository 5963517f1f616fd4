"""A launch with tensor descriptors, recorded and played on two lanes of other memory. Prints how far off each is."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from bot.judge.arms import Arm, Lane
from bot.judge.driver import Driver
from bot.judge.layout import layout_of
from bot.worker.contract import Argument, Call, TensorSpec
from bot.worker.contract.tape import Descriptor, Kernel, Tape
from bot.worker.taping import Taper, hooked

ROWS, COLUMNS, LANES = 48, 200, 2
"""No whole number of blocks."""
SHAPE = (ROWS, COLUMNS)


@triton.jit
def doubling_kernel(source, target, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * 32
    for column in range(0, columns, BLOCK):
        target.store([row, column], source.load([row, column]) * 2)


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Into the right half of something wider, whose rows are further apart."""
    y = torch.empty(ROWS, 2 * COLUMNS, dtype=x.dtype, device=x.device)[:, COLUMNS:]
    source, target = (TensorDescriptor.from_tensor(one, [32, 64]) for one in (x, y))
    doubling_kernel[(triton.cdiv(ROWS, 32),)](source, target, COLUMNS, BLOCK=64)
    return y


def recorded(folder: Path) -> Tape:
    x = torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)
    doubled(x)  # compiled
    taper = Taper({"x": x}, folder)
    with taper, hooked(taper.launched):
        y = doubled(x)
    assert torch.equal(y, 2 * x), "Triton itself"
    return taper.tape("forward", [("output", "0", y)])


def main() -> None:
    arguments = (Argument("x", TensorSpec("x", "bfloat16", SHAPE)),)
    call = Call("c", "forward", "forward", arguments, (), blob="", turns=1)
    with tempfile.TemporaryDirectory() as directory:
        tape = recorded(Path(directory))
        (step,) = tape.steps
        assert isinstance(step, Kernel)
        driver, layout = Driver(), layout_of(call, tape, LANES)
        arm = Arm(tape, Path(directory), layout, driver)
        size = layout.bank_bytes + arm.scratch_bytes
        memory = torch.zeros(LANES * size, dtype=torch.uint8, device="cuda")
        off = []
        for number in range(LANES):
            lane = Lane(memory, number * size)
            x = torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)
            memory.view(torch.bfloat16).as_strided(SHAPE, (COLUMNS, 1), number * size // 2).copy_(x)
            arm.body(lane, torch.cuda.current_stream().cuda_stream)
            into = [torch.empty(SHAPE, device="cuda", dtype=torch.bfloat16)]
            arm.hand_over(lane, into)
            torch.cuda.synchronize()
            off.append(float((into[0] - 2 * x).abs().max()))
    kinds = [isinstance(one, Descriptor) for one in step.arguments]
    print(json.dumps({"off": off, "descriptors": sum(kinds)}))


if __name__ == "__main__":
    sys.exit(main())
