"""The job of a worker that puts the op where a model under torch.compile has it: its autograd function is traced, its
kernels are written anew into what torch generates. A kernel that asks for a name of its module finds none there."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from bot.worker import gpu_inputs
from bot.worker.checking import collect
from bot.worker.contract import MAX_BLOB, Call, CallAnswer, Refusal, RunAnswer, read_bytes
from bot.worker.contract.gpu import GpuAnswer
from bot.worker.contract.under_compile import UnderCompileRequest
from bot.worker.fences import Fences
from bot.worker.gpu_checking import is_sticky, run_pass

BACKEND = "inductor"
COMPILERS = ("cc", "gcc", "clang")
ADVICE = ("Explanation:", "from user code:", "Set TORCHDYNAMO", "Set TORCH_LOGS")
"""What torch adds to an error begins with one of these."""
MOST_WRAPS = 10
HEAD, TAIL = 120, 240
"""Letters of a long error that are told: what it is called, and what it ends with."""


def has_compiler() -> bool:
    return any(map(shutil.which, (*filter(None, (os.environ.get("CC"),)), *COMPILERS)))


class Compiled:
    """Stands for the op."""

    def __init__(self, op: Any, *, whole: bool, backend: str) -> None:
        def entry(*arguments: Any) -> Any:
            return op.apply(*arguments)

        self.apply = torch.compile(entry, fullgraph=whole, dynamic=False, backend=backend)


def _is_the_machine(error: BaseException) -> bool:
    """Whether it is for want of memory or of a disk, however often torch wrapped it."""
    inner: Any = error
    for _ in range(MOST_WRAPS):
        if isinstance(inner, (MemoryError, OSError, torch.cuda.OutOfMemoryError)):
            return True
        inner = getattr(inner, "inner_exception", None) or getattr(inner, "__cause__", None)
    return False


def _said(error: BaseException) -> str:
    text = str(error)
    ends = [at for words in ADVICE if (at := text.find(words)) > 0]
    line = f"{type(error).__name__}: {' '.join(text[: min(ends, default=len(text))].split())}"
    return line if len(line) <= HEAD + TAIL else f"{line[:HEAD]} ... {line[-TAIL:]}"


def _refusal(error: BaseException) -> Refusal:
    return Refusal("memory" if _is_the_machine(error) else "crashed", _said(error))


def _run(op: Any, call: Call, inputs: Path, outputs: Path) -> RunAnswer:
    fences = Fences()
    stuff = gpu_inputs.from_blob(call, read_bytes(inputs / call.blob, MAX_BLOB), fences)
    outcome = run_pass(op, call, stuff)
    with torch._C.DisableTorchFunctionSubclass():  # bytes are read, no method of the variant's is called
        tray = collect(call, stuff, outcome)
    name = f"{call.id}.bin"
    (outputs / name).write_bytes(tray.blob)
    hole = fences.broken()
    return RunAnswer(name, tuple(tray.tensors), (), (f"out of bounds: it {hole}",) if hole else ())


def checks(op: Any, request: UnderCompileRequest, inputs: Path, outputs: Path, *, backend: str = BACKEND) -> GpuAnswer:
    """What became of those that were begun."""
    if not has_compiler():
        return GpuAnswer((), (), Refusal("compile_failed", "there is no C compiler here"))
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # processes of its own would outlive a check
    until, answers = time.monotonic() + request.seconds, []
    for call in request.checks:
        if time.monotonic() > until:
            break
        torch._dynamo.reset()
        try:
            run = _run(Compiled(op, whole=request.whole, backend=backend), call, inputs, outputs)
            answers.append(CallAnswer(call.id, (run,)))
        except Exception as error:  # neither torch's compiler nor variant code has a closed list of exceptions
            answers.append(CallAnswer(call.id, (), _refusal(error)))
            if is_sticky(error):
                break
    return GpuAnswer(tuple(answers), ())
