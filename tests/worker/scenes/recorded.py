"""Launches caught and compiled without a GPU. Prints what was seen as JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from pathlib import Path

import torch
import triton
import triton.language as tl

from bot.worker import device
from bot.worker.compiling import compile_job
from bot.worker.contract import ARCHES, Argument, Call, CompileRequest, Override, Proof, Subject, TensorSpec
from bot.worker.recorder import Recorder

HERE = Path(__file__)
ASSERTS = 11.0
"""A factor with which the op asserts something of its values."""
ROOT = HERE.parents[1]


@triton.jit
def scale_kernel(y, x, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 512}, num_warps=2), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned_kernel(y, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def speaking_kernel(y, x, n, BLOCK: tl.constexpr, num_stages: tl.constexpr, num_warps: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def quiet_kernel(y, x, n, BLOCK: tl.constexpr, num_warps: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def partial_kernel(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + i, tl.load(x + i, mask=i < n, other=0.0))


class Op(torch.autograd.Function):
    """Sizes its grid by the chip, asks the host for a value, and allocates beside its result."""

    @staticmethod
    def forward(ctx, x, factor):
        assert x.device.type == "cuda" and x.is_cuda
        y = torch.empty_like(x)
        n = x.numel()
        if torch.equal(x, y) or x.sum().item() < -1e9:
            raise ValueError("nothing is known of values")
        if factor == ASSERTS:
            assert x.max() < 7, "nor here"
            assert x.min() >= 0, "nor here"
        scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](y, x, n, factor, BLOCK=1024, num_warps=8)
        spare = torch.zeros(x.shape, device=x.device)
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](spare, x, n)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        chip = torch.cuda.get_device_properties(x.device)
        assert dy.device.type == "cuda" and torch.cuda.is_available()
        parts = torch.empty((chip.multi_processor_count, 256), dtype=torch.float32, device=x.device)
        with torch.cuda.device(x.device):
            partial_kernel[(chip.multi_processor_count,)](parts, dy, x.numel(), BLOCK=256)
        return dy * parts.sum(), None


class Speaking(torch.autograd.Function):
    """Its kernels have launch numbers among their parameters: said by name, by position, and not at all."""

    @staticmethod
    def forward(ctx, x, factor):
        y, n = torch.empty_like(x), x.numel()
        grid = (triton.cdiv(n, 1024),)
        speaking_kernel[grid](y, x, n, BLOCK=1024, num_stages=2, num_warps=16)
        speaking_kernel[grid](y, x, n, 1024, 2, 32)
        quiet_kernel[grid](y, x, n, BLOCK=1024)
        return y


@functools.cache
def is_hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_properties(device).major == 9


class Choosing(torch.autograd.Function):
    """Launches by the chip that it has, and knows two."""

    @staticmethod
    def forward(ctx, x, factor):
        y, n = torch.empty_like(x), x.numel()
        if torch.version.hip is not None:
            raise ValueError("not for this one")
        if is_hopper(x.device):
            scale_kernel[(n // 1024,)](y, x, n, factor, BLOCK=1024)
        else:
            tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](y, x, n)
        return y


class Roomy(torch.autograd.Function):
    """Has room for more than its result where `factor` says so: the more, the more rows there are."""

    @staticmethod
    def forward(ctx, x, factor):
        y = torch.empty(x.numel() + max(int(factor), 0) * x.shape[0], dtype=x.dtype, device=x.device)
        if factor < 0:  # a part of it first
            scale_kernel[(1,)](y[:64], x[:1, :64], 64, factor, BLOCK=64)
        scale_kernel[(x.shape[0],)](y, x, x.numel(), factor, BLOCK=x.shape[1])
        return y[: x.numel()].view(x.shape)


def shaped(rows: int, columns: int, factor: float) -> Call:
    arguments = (Argument("x", tensor=TensorSpec("x", "bfloat16", (rows, columns))), Argument("factor", value=factor))
    return Call(f"{rows}", f"{rows}", "forward", arguments, ())


def call(direction: str, factor: float = 2.5) -> Call:
    x = TensorSpec("x", "bfloat16", (64, 4096), grad=True)
    arguments = (Argument("x", tensor=x), Argument("factor", value=factor))
    return Call(direction, direction, direction, arguments, (TensorSpec("dy", "bfloat16", (64, 4096)),))


def main() -> None:
    arch = ARCHES["sm_90"]
    driver = device.install(arch, arch.processors)
    recorder = Recorder(ROOT, arch)
    recorder.install()
    subject = Subject(str(ROOT), "scenes.recorded", "scenes/recorded.py", (Proof("scenes/recorded.py", ""),))
    calls = (call("forward"), call("backward"), call("full"))
    plain = CompileRequest("compile", subject, "sm_90", calls, ("sm_80", "gfx942"), (), 20.0, 2, 600.0)
    tries = (
        Override("scale_kernel", num_warps=2, constants=(("BLOCK", 2048), ("nothing", 1))),
        Override("scale_kernel", num_stages=5),
        Override("no_such_kernel", num_warps=1),
    )
    survey = dataclasses.replace(plain, calls=calls[:1], passports=(), overrides=tries)
    chips = dataclasses.replace(plain, calls=calls[:1], passports=("sm_80", "gfx942", "sm_90"))
    other = tuple(
        Override(kernel, **{number: 8})
        for kernel, number in (
            ("speaking_kernel", "num_warps"),
            ("speaking_kernel", "num_stages"),
            ("quiet_kernel", "num_warps"),
        )
    )
    recorder.record(Speaking, calls[0])
    captures = tuple(recorder.captures)
    eight = [one.with_numbers(Override(one.kernel, num_warps=8)) for one in captures]
    seen = {
        "plain": dataclasses.asdict(compile_job(Op, recorder, driver, plain)),
        "asserting": dataclasses.asdict(recorder.record(Op, call("forward", ASSERTS))[0]),
        "survey": dataclasses.asdict(compile_job(Op, recorder, driver, survey)),
        "choosing": dataclasses.asdict(compile_job(Choosing, recorder, driver, chips)),
        "roomy": {
            name: dataclasses.asdict(compile_job(Roomy, recorder, driver, dataclasses.replace(chips, calls=passes)))
            for name, passes in {
                "stingy": (shaped(64, 4096, 0.0), shaped(4096, 64, 0.0)),
                "roomy": (shaped(64, 4096, 8.0), shaped(4096, 64, 8.0)),
                "later": (shaped(64, 64, 0.0), shaped(64, 4096, 0.0)),
                "twice": (shaped(64, 4096, -1.0),),
            }.items()
        },
        "choosing_again": dataclasses.asdict(recorder.record(Choosing, calls[0])[0]),
        "speaking": dataclasses.asdict(
            compile_job(Speaking, recorder, driver, dataclasses.replace(survey, overrides=other))
        ),
        "compiled": [one.compile(driver, arch).metadata.num_warps for one in (*captures, *eight)],
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    sys.exit(main())
