"""A kernel that takes tensor descriptors, caught, compiled and written down without a GPU. Prints what was seen as
JSON."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from bot.worker import device
from bot.worker.compiling import compile_job
from bot.worker.compiling_ahead import compile_ahead
from bot.worker.contract import ARCHES, CompileRequest, Proof, Subject
from bot.worker.contract.arches import Arch
from bot.worker.contract.tape import SCALARS, Kernel, KernelArgument, Scalar
from bot.worker.recorder import Recorder
from bot.worker.taping import Taper
from tests.worker.scenes.recorded import ROOT, call

PARAMETER = re.compile(r"\.param (?:\.align \d+ )?\.(\w+)(?: \.ptr[^,\n]*?)? (\w+)(?:\[(\d+)\])?")
BYTES = {"b8": 1, "u8": 1, "b32": 4, "u32": 4, "b64": 8, "u64": 8}
SCRATCH = [8, 8]
"""The two last parameters of every Triton kernel."""


def _blocks(given: dict[str, Any]) -> None:
    given["source"].block_shape = given["target"].block_shape = [8, given["BLOCK"]]


CONFIGS = [triton.Config({"BLOCK": size}, pre_hook=_blocks) for size in (64, 128)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def moving_kernel(source, target, n, BLOCK: triton.language.constexpr):
    row = triton.language.program_id(0) * 8
    for column in range(0, n, BLOCK):
        target.store([row, column], source.load([row, column]))


class Moving(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        y = torch.empty_like(x)
        source, target = (TensorDescriptor.from_tensor(one, [1, 1]) for one in (x, y))
        moving_kernel[(x.shape[0] // 8,)](source, target, x.shape[1])
        return y


def handed(binary: Any, directory: str) -> tuple[list[KernelArgument], list[int]]:
    """What a recording has of a launch, and the sizes of the parameters that it was compiled with."""
    x, y = torch.zeros(64, 4096, dtype=torch.bfloat16), torch.zeros(64, 8192, dtype=torch.bfloat16)[:, 4096:]
    taper = Taper({"x": x, "y": y}, Path(directory), device="cpu")
    given = TensorDescriptor.from_tensor(x, [8, 64]), TensorDescriptor.from_tensor(y, [8, 64], padding="nan")
    taper.launched(binary, (8, 1, 1), (*given, 4096, 64))
    (step,) = taper.tape("forward", []).steps
    assert isinstance(step, Kernel)
    parameters = PARAMETER.findall(binary.asm["ptx"])
    return list(step.arguments), [int(many) if many else BYTES[kind] for kind, _, many in parameters]


def sizes(arguments: list[KernelArgument]) -> list[int]:
    most = {"Pointer": 8, "Descriptor": 128}
    return [SCALARS[one.kind] if isinstance(one, Scalar) else most[type(one).__name__] for one in arguments]


def ahead() -> dict[str, Any]:
    """Blocks that were compiled beside, and in the launches that follow."""
    kernel: Any = moving_kernel.fn
    kernel.device_caches[0]  # it has a compiler from here on
    compiled: list[tuple[bool, str]] = []
    plain = kernel.compile

    def heard(source: Any, **words: Any) -> Any:
        compiled.append((threading.current_thread() is not threading.main_thread(), source.signature["source"]))
        return plain(source, **words)

    kernel.compile = heard
    x = torch.zeros(64, 512)
    args = [TensorDescriptor.from_tensor(x, [1, 1]), TensorDescriptor.from_tensor(torch.zeros(64, 512), [1, 1]), 512]
    codes = compile_ahead(moving_kernel, CONFIGS, args, {"grid": (8,), "warmup": False})
    before, after = list(compiled), [one.block_shape for one in args[:2]]
    for config in CONFIGS:
        _blocks({"source": args[0], "target": args[1], **config.kwargs})
        kernel.run(*args, grid=(8,), warmup=True, **config.all_kwargs())
    kernel.compile = plain
    return {
        "beside": sorted(signature for elsewhere, signature in before if elsewhere),
        "again": [signature for _, signature in compiled[len(before) :]],
        "codes": len(set(codes.values())),
        "blocks": after,
    }


def on(arch: Arch, recorder: Recorder, driver: Any, directory: str) -> dict[str, Any]:
    recorder.record(Moving, call("forward"))
    (capture,) = recorder.captures
    arguments, parameters = handed(capture.compile(driver, arch), directory)
    return {
        "arguments": [type(one).__name__ for one in arguments],
        "sizes": sizes(arguments) + SCRATCH,
        "parameters": parameters,
        "first": dataclasses.asdict(arguments[0]),
        "numbers": [one.bits for one in arguments if isinstance(one, Scalar)],
        "last": next(dataclasses.asdict(one) for one in reversed(arguments) if not isinstance(one, Scalar)),
    }


def main() -> None:
    arch = ARCHES["sm_90"]
    driver = device.install(arch, arch.processors)
    seen: dict[str, Any] = {"ahead": ahead()}
    recorder = Recorder(ROOT, arch)
    recorder.install()
    subject = Subject(str(ROOT), "scenes.described", "scenes/described.py", (Proof("scenes/described.py", ""),))
    order = CompileRequest("compile", subject, "sm_90", (call("forward"),), ("sm_80", "gfx942"), (), 20.0, 2, 600.0)
    seen["compiled"] = dataclasses.asdict(compile_job(Moving, recorder, driver, order))
    with tempfile.TemporaryDirectory() as directory:
        for name in ("sm_90", "sm_80"):
            seen[name] = on(ARCHES[name], recorder, driver, directory)
    print(json.dumps(seen))


if __name__ == "__main__":
    sys.exit(main())
