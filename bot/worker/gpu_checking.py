"""The checks of a worker that has a GPU: each call several times, in fenced memory full of rubbish."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bot.worker import gpu_inputs, manners, tuning
from bot.worker.checking import collect
from bot.worker.contract import MAX_BLOB, Call, CallAnswer, Footprint, Refusal, RunAnswer, clip, read_bytes
from bot.worker.fences import Fences, Fencing
from bot.worker.observer import POISON
from bot.worker.passes import Materials, Outcome, backward, forward
from bot.worker.taping import hooked

STICKY = (
    "CUDA error",
    "illegal memory access",
    "misaligned address",
    "unspecified launch failure",
    "device-side assert",
)
"""After one of these the context is lost and every later call fails with it."""


class ContextLost(Exception):
    """The GPU context of this process is of no more use."""


def is_sticky(error: BaseException) -> bool:
    return any(words in str(error) for words in STICKY)


def nothing() -> None:
    return None


def run_pass(op: Any, call: Call, stuff: Materials, begin: Callable[[], None] = nothing) -> Outcome:
    """Forward, backward alone, or both; `begin` is called where the scored part starts."""
    if call.direction != "backward":
        begin()
    outputs = forward(op, stuff)
    if call.direction == "forward":
        return Outcome(outputs, [])
    if call.direction == "backward":
        begin()
    return Outcome(outputs, backward(outputs, stuff))


class Passes:
    """Several, one right after another: laid out beforehand with inputs of their own, a backward pass with the forward
    one before it."""

    def __init__(self, op: Any, call: Call, contents: dict[str, torch.Tensor], number: int) -> None:
        self._op, self._call = op, call
        self._stuff = [gpu_inputs.laid(call, contents) for _ in range(number)]
        backwards = call.direction == "backward"
        self._outputs = [forward(op, stuff) for stuff in self._stuff] if backwards else []
        self._kept: list[Any] = []

    def run(self) -> None:
        """What came of it is kept until nobody's clock runs."""
        if self._outputs:
            self._kept = [backward(outputs, stuff) for outputs, stuff in zip(self._outputs, self._stuff, strict=True)]
        else:
            self._kept = [run_pass(self._op, self._call, stuff) for stuff in self._stuff]


class _Turn:
    """One run of one call."""

    def __init__(self, op: Any, call: Call, blob: bytes, number: int) -> None:
        self._op, self._call, self._number = op, call, number
        self._fences = Fences()
        self._stuff = gpu_inputs.from_blob(call, blob, self._fences)
        self.odd: list[str] = []

    def _pass(self, op: Any) -> Outcome:
        self._launched: list[Footprint] = []
        with hooked(self._note), Fencing(self._fences, POISON[self._number % 2]):
            outcome = run_pass(op, self._call, self._stuff)
        torch.cuda.synchronize()
        return outcome

    def _note(self, kernel: Any, grid: tuple[int, int, int], arguments: tuple[Any, ...]) -> None:
        self._launched.append(Footprint(str(kernel.metadata.name)[:200], ()))

    def _earlier(self) -> manners.Keepsakes:
        """The same tensors held other contents a moment ago, and what came of those is still held by somebody."""
        real = manners.disturb(self._stuff.tensors)
        outcome = self._pass(self._op)
        kept = manners.keep(outcome.results, list(self._stuff.tensors.values()))
        manners.restore(self._stuff.tensors, real)
        return kept

    def _again(self, outcome: Outcome, real: dict[str, torch.Tensor]) -> list[str]:
        """A second backward pass through the same graph, with twice the gradient: linear, and in memory of its own."""
        twice = {spec.name for spec in self._call.grads}
        manners.restore(self._stuff.tensors, {name: real[name] * (2 if name in twice else 1) for name in real})
        first = [gradient for _, gradient in outcome.gradients]
        kept = manners.keep(first, list(self._stuff.tensors.values()))
        before = list(map(manners.copied, first))
        with Fencing(self._fences, POISON[1]):
            second = [gradient for _, gradient in backward(outcome.outputs, self._stuff)]
        doubled = all(map(manners.is_double, before, map(manners.copied, second)))
        return kept.rewritten() + ([] if doubled else ["a second backward pass gives another gradient"])

    def run(self, outputs: Path, switches: dict[str, Any]) -> RunAnswer:
        strange = self._number == 1
        if strange:  # before the earlier pass: the very same objects come again with other contents
            arguments = manners.handed_on(self._stuff.arguments)
            self._stuff = dataclasses.replace(self._stuff, arguments=arguments, keep_graph=True)
        earlier = self._earlier() if strange else None
        real = manners.contents(self._stuff.tensors)
        witness = manners.Witness(self._op)
        outcome = self._pass(witness)
        odd = manners.disguised(outcome.results)
        odd += witness.rewritten() if self._call.direction != "forward" else []
        odd += earlier.rewritten() if earlier else []
        with torch._C.DisableTorchFunctionSubclass():  # bytes are read, no method of the variant's is called
            tray = collect(self._call, self._stuff, outcome)
        launched, name = tuple(self._launched), f"{self._call.id}-{self._number}.bin"
        (outputs / name).write_bytes(tray.blob)
        if strange and self._call.direction != "forward":
            odd += self._again(outcome, real)
        odd += manners.switched(switches)
        hole = self._fences.broken()
        holes = (f"out of bounds: it {hole}",) if hole else ()
        return RunAnswer(name, tuple(tray.tensors), launched, holes, tuple(map(clip, odd)))


def repeat(op: Any, call: Call, inputs: Path) -> list[str]:
    """What comes of asking the same thing many times."""
    blob = read_bytes(inputs / call.blob, MAX_BLOB)

    def afresh(number: int) -> tuple[list[Any], list[torch.Tensor]]:
        stuff = gpu_inputs.from_blob(call, blob, Fences())
        manners.turned(stuff.tensors, number)
        return run_pass(op, call, stuff).results, list(stuff.tensors.values())

    same = gpu_inputs.from_blob(call, blob, Fences())
    with tuning.untimed(call.id):
        right, _ = afresh(0)
        odd = manners.stale(right, lambda: run_pass(op, call, same).results, same.tensors)
        return odd + manners.often(afresh)


def check_call(op: Any, call: Call, inputs: Path, outputs: Path, switches: dict[str, Any]) -> CallAnswer:
    blob = read_bytes(inputs / call.blob, MAX_BLOB)
    runs: list[RunAnswer] = []
    try:
        with tuning.untimed(call.id):
            for number in range(call.turns):
                runs.append(_Turn(op, call, blob, number).run(outputs, switches))
    except Exception as error:  # whatever variant code raises is news about the variant
        if is_sticky(error):
            raise ContextLost(f"{call.case}: {error}") from error
        return CallAnswer(call.id, tuple(runs), Refusal("crashed", clip(f"{type(error).__name__}: {error}")))
    return CallAnswer(call.id, tuple(runs))
