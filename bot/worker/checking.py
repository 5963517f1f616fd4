"""The check job: every call runs twice in the interpreter and whatever it left behind is handed back as raw bytes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import torch

from bot.worker import manners
from bot.worker.contract import (
    ALIGN,
    MAX_BLOB,
    Call,
    CallAnswer,
    CheckAnswer,
    CheckRequest,
    Footprint,
    Refusal,
    RunAnswer,
    TensorOut,
    Touched,
    clip,
    read_bytes,
)
from bot.worker.device import PretendCuda, resize
from bot.worker.footprint import Launch
from bot.worker.interpreter import Books
from bot.worker.observer import POISON, Observer, Recycling
from bot.worker.passes import NAMES, Materials, Outcome, backward, materials, run_pass
from bot.worker.reach import wrapping

PROCESSORS = 5
"""What the interpreted chip says it has: few enough to be quick, and no divisor of the usual row counts, so that grids
sized by it have a short last program."""


TALL = 64
"""From so many rows on the chip has one processor: a program that takes many rows is met without thousands of rows."""


class Leftovers(Observer):
    """Hands out memory in which the last results still lie, as an allocator does that was given them back. Their first
    half is right, so that whoever looks at the head of a row believes that the work is done."""

    def __init__(self, poison: tuple[float, int], results: list[Any]) -> None:
        super().__init__(poison)
        self._left: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}
        for result in results:
            if isinstance(result, torch.Tensor):
                self._left.setdefault((result.numel(), result.dtype), []).append(_nearly(result.detach()))

    def _spoil(self, results: list[torch.Tensor]) -> None:
        super()._spoil(results)
        for tensor in results:
            left = self._left.get((tensor.numel(), tensor.dtype), [])
            if left and tensor.dim():
                tensor.copy_(left[0].reshape(tensor.shape))
                left.append(left.pop(0))


def _nearly(result: torch.Tensor) -> torch.Tensor:
    """The second half of each row is in another order; of a row of one element the sign."""
    if not result.dim() or result.shape[-1] < 2:
        return -result
    head, tail = result.tensor_split([result.shape[-1] // 2], dim=-1)
    return torch.cat([head, tail.flip(-1)], dim=-1) if tail.shape[-1] > 1 else torch.cat([head, -tail], dim=-1)


class Tray:
    """Collects the tensors of one run into one blob."""

    def __init__(self, stuff: Materials) -> None:
        self.blob = bytearray()
        self.tensors: list[TensorOut] = []
        self._owners = {t.untyped_storage().data_ptr(): name for name, t in stuff.tensors.items() if t.numel()}

    def put(self, role: Any, name: str, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            self.tensors.append(TensorOut(role, name, "float32", (), (), "cpu", 0, 0, absent=True))
            return
        tensor = value.detach()
        raw = _raw(tensor)
        shares = self._owners.get(tensor.untyped_storage().data_ptr(), "") if tensor.numel() else ""
        self.tensors.append(
            TensorOut(
                role=role,
                name=name,
                dtype=NAMES.get(tensor.dtype, str(tensor.dtype)),
                shape=tuple(tensor.shape),
                stride=tuple(tensor.stride()),
                device=tensor.device.type,
                offset=len(self.blob),
                nbytes=len(raw),
                shares=shares,
            )
        )
        self.blob += raw + bytes(-len(raw) % ALIGN)
        if len(self.blob) > MAX_BLOB:
            raise MemoryError(f"the results are larger than {MAX_BLOB} bytes")


def _raw(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1).cpu()
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _footprint(launch: Launch) -> Footprint:
    return Footprint(
        launch.kernel,
        tuple(
            Touched(
                r.name, r.share(r.read_by), r.share(r.written_by), r.again / max(1, r.used_bytes), launch.between(r)
            )
            for r in launch.regions
        ),
        tuple((name[:200], str(value)) for name, value in launch.flags.items()),
    )


def _named(call: Call, stuff: Materials, outcome: Outcome) -> list[tuple[str, Any]]:
    """What the op was handed and what it hands back; not what it allocated for itself."""
    outputs = [(f"output {spec.name[1:]}", one) for spec, one in zip(call.grads, outcome.outputs, strict=False)]
    gradients = [(f"gradient {name}", gradient) for name, gradient in outcome.gradients]
    return [*stuff.tensors.items(), *outputs, *gradients]


def collect(call: Call, stuff: Materials, outcome: Outcome) -> Tray:
    tray = Tray(stuff)
    if call.direction != "backward":
        for index, output in enumerate(outcome.outputs):
            tray.put("output", str(index), output)
    for name, gradient in outcome.gradients:
        tray.put("gradient", name, gradient)
    grad_names = {spec.name for spec in call.grads}
    for name, tensor in stuff.tensors.items():
        tray.put("grad_output" if name in grad_names else "input", name, tensor)
    return tray


class _Bench:
    """The op between its request folder and its answer folder."""

    def __init__(self, op: Any, books: Books, inputs: Path, outputs: Path, switches: dict[str, Any]) -> None:
        self._op, self._books, self._inputs, self._outputs = op, books, inputs, outputs
        self._switches = switches
        self._results: list[Any] = []
        """Of the turn before, with the same inputs."""

    def _pass(self, op: Any, call: Call, stuff: Materials, turn: int) -> Outcome:
        observer = Leftovers(POISON[turn], self._results)
        self._books.around = observer.look_away
        return run_pass(op, call, stuff, "cpu", observer, self._books.launches.clear)

    def _earlier(self, call: Call, stuff: Materials, turn: int) -> manners.Keepsakes:
        """The same tensors held other contents a moment ago, and what came of those is still held by somebody."""
        real = manners.disturb(stuff.tensors)
        outcome = self._pass(self._op, call, stuff, turn)
        kept = manners.keep(outcome.results, list(stuff.tensors.values()))
        manners.restore(stuff.tensors, real)
        return kept

    def _again(self, call: Call, stuff: Materials, outcome: Outcome, real: dict[str, Any]) -> list[str]:
        """A second backward pass through the same graph, with twice the gradient: linear, and in memory of its own."""
        twice = {spec.name for spec in call.grads}
        manners.restore(stuff.tensors, {name: real[name] * (2 if name in twice else 1) for name in real})
        first = [gradient for _, gradient in outcome.gradients]
        kept, before = manners.keep(first, list(stuff.tensors.values())), list(map(manners.copied, first))
        with PretendCuda("cpu"), Observer(POISON[1]):
            second = [gradient for _, gradient in backward(outcome.outputs, stuff)]
        doubled = all(map(manners.is_double, before, map(manners.copied, second)))
        return kept.rewritten() + ([] if doubled else ["a second backward pass gives another gradient"])

    def _once(self, call: Call, blob: bytes, turn: int) -> RunAnswer:
        self._books.clear()
        self._books.backwards = turn == 1
        stuff = materials(call, "cpu", blob)
        if turn == 1:  # before the earlier pass: the very same objects come again with other contents
            stuff = dataclasses.replace(stuff, arguments=manners.handed_on(stuff.arguments), keep_graph=True)
        earlier = self._earlier(call, stuff, turn) if turn == 1 else None
        real = manners.contents(stuff.tensors)
        self._books.clear()
        witness = manners.Witness(self._op)
        outcome = self._pass(witness, call, stuff, turn)
        odd = manners.disguised(outcome.results)
        odd += witness.rewritten() if call.direction != "forward" else []
        odd += earlier.rewritten() if earlier else []
        with torch._C.DisableTorchFunctionSubclass():  # bytes are read, no method of the variant's is called
            tray = collect(call, stuff, outcome)
            odd += wrapping(self._books.launches, _named(call, stuff, outcome))
        name = f"{call.id}-{turn}.bin"
        (self._outputs / name).write_bytes(tray.blob)
        races = tuple(race for launch in self._books.launches for race in launch.races)
        footprints = tuple(_footprint(launch) for launch in self._books.launches)
        if turn == 1 and call.direction != "forward":
            odd += self._again(call, stuff, outcome, real)
        odd += manners.switched(self._switches)
        self._results = outcome.results
        return RunAnswer(name, tuple(tray.tensors), footprints, races, tuple(map(clip, odd)))

    def run(self, call: Call) -> CallAnswer:
        blob = read_bytes(self._inputs / call.blob, MAX_BLOB)
        runs: list[RunAnswer] = []
        self._results = []
        try:
            for turn in range(call.turns):
                runs.append(self._once(call, blob, turn))
        except MemoryError:
            raise
        except Exception as error:  # whatever variant code raises is news about the variant
            stray = self._books.out_of_bounds
            kind, detail = ("memory", stray) if stray else ("crashed", f"{type(error).__name__}: {error}")
            return CallAnswer(call.id, tuple(runs), Refusal(kind, clip(detail)))
        return CallAnswer(call.id, tuple(runs))

    def repeat(self, call: Call) -> list[str]:
        """What comes of asking the same thing many times."""
        blob = read_bytes(self._inputs / call.blob, MAX_BLOB)
        self._results = []

        def afresh(number: int) -> tuple[list[Any], list[torch.Tensor]]:
            stuff = materials(call, "cpu", blob)
            manners.turned(stuff.tensors, number)
            return self._pass(self._op, call, stuff, 0).results, list(stuff.tensors.values())

        right, _ = afresh(0)
        same = materials(call, "cpu", blob)
        given_back: list[torch.Tensor] = []

        def again() -> list[Any]:
            observer = Recycling(POISON[0], given_back[:])
            self._books.around = observer.look_away
            results = run_pass(self._op, call, same, "cpu", observer, self._books.launches.clear).results
            given_back[:] = observer.handed_out
            return results

        return manners.stale(right, again, same.tensors) + manners.often(afresh)


def check(
    op: Any, books: Books, request: CheckRequest, inputs: Path, outputs: Path, switches: dict[str, Any]
) -> CheckAnswer:
    """`switches` as they were before the op was imported."""
    bench = _Bench(op, books, inputs, outputs, switches)
    answers = [_on_its_chip(bench, call) for call in request.calls]
    return CheckAnswer(manners.asked_often(request.calls, answers, bench.repeat))


def _rows(call: Call) -> int:
    return max((math.prod(spec.shape[:-1]) for spec in call.tensors if len(spec.shape) > 1), default=1)


def _on_its_chip(bench: _Bench, call: Call) -> CallAnswer:
    if _rows(call) < TALL:
        return bench.run(call)
    resize(1)
    try:
        return bench.run(call)
    finally:
        resize(PROCESSORS)
