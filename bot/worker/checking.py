"""The check job: every call runs twice in the interpreter and whatever it left behind is handed back as raw bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

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
from bot.worker.footprint import Launch
from bot.worker.interpreter import Books
from bot.worker.observer import POISON, Observer
from bot.worker.passes import NAMES, Materials, Outcome, materials, run_pass

PROCESSORS = 5
"""What the interpreted chip says it has: few enough to be quick, and no divisor of the usual row counts, so that grids
sized by it have a short last program."""


class _Tray:
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
    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _footprint(launch: Launch) -> Footprint:
    return Footprint(
        launch.kernel,
        tuple(Touched(r.name, r.share(r.read), r.share(r.written_by)) for r in launch.regions),
    )


def _collect(call: Call, stuff: Materials, outcome: Outcome) -> _Tray:
    tray = _Tray(stuff)
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

    def __init__(self, op: Any, books: Books, inputs: Path, outputs: Path) -> None:
        self._op, self._books, self._inputs, self._outputs = op, books, inputs, outputs

    def _once(self, call: Call, blob: bytes, turn: int) -> RunAnswer:
        self._books.clear()
        self._books.backwards = turn == 1
        stuff = materials(call, "cpu", blob)
        observer = Observer(POISON[turn])
        self._books.around = observer.look_away
        begin = self._books.launches.clear
        outcome = run_pass(self._op, call, stuff, "cpu", observer, begin)
        tray = _collect(call, stuff, outcome)
        name = f"{call.id}-{turn}.bin"
        (self._outputs / name).write_bytes(tray.blob)
        races = tuple(race for launch in self._books.launches for race in launch.races)
        return RunAnswer(name, tuple(tray.tensors), tuple(_footprint(x) for x in self._books.launches), races)

    def run(self, call: Call) -> CallAnswer:
        blob = read_bytes(self._inputs / call.blob, MAX_BLOB)
        runs: list[RunAnswer] = []
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


def check(op: Any, books: Books, request: CheckRequest, inputs: Path, outputs: Path) -> CheckAnswer:
    bench = _Bench(op, books, inputs, outputs)
    return CheckAnswer(tuple(bench.run(call) for call in request.calls))
