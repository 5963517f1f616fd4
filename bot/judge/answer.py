"""Reads a worker's answer folder. Sizes, types and offsets in it are claims until they were checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from bot.judge.inputs import DTYPES
from bot.worker.contract import (
    ANSWER,
    ITEM_SIZE,
    MAX_BLOB,
    MAX_MANIFEST,
    CheckAnswer,
    ContractError,
    RunAnswer,
    TensorOut,
    parse,
    read_bytes,
)
from bot.worker.contract.gpu import GpuAnswer


@dataclass(frozen=True)
class Found:
    """One tensor of a run as it came back."""

    record: TensorOut
    raw: bytes

    @property
    def key(self) -> tuple[str, str]:
        return (self.record.role, self.record.name)

    @property
    def form(self) -> tuple[object, ...]:
        """What must be equal however it was computed."""
        r = self.record
        return (r.absent, r.dtype, r.shape, r.stride, r.device)

    def values(self) -> torch.Tensor:
        if self.record.absent or not self.raw:
            return torch.zeros(self.record.shape if not self.record.absent else (0,), dtype=torch.float32)
        return torch.frombuffer(bytearray(self.raw), dtype=DTYPES[self.record.dtype]).reshape(self.record.shape)


Run = dict[tuple[str, str], Found]


def _elements(record: TensorOut) -> int:
    total = 1
    for size in record.shape:
        if size < 0:
            raise ContractError(f"{record.name}: a negative size")
        total *= size
    return total


def _found(record: TensorOut, blob: bytes) -> Found:
    if record.absent:
        return Found(record, b"")
    if record.dtype not in DTYPES:
        raise ContractError(f"{record.name}: {record.dtype[:40]!r} is not a type that may come back")
    if record.nbytes != _elements(record) * ITEM_SIZE[record.dtype]:
        raise ContractError(f"{record.name}: {record.nbytes} bytes do not make {record.dtype} {list(record.shape)}")
    if not 0 <= record.offset <= record.offset + record.nbytes <= len(blob):
        raise ContractError(f"{record.name}: lies outside of its file")
    return Found(record, blob[record.offset : record.offset + record.nbytes])


def _run(folder: Path, answer: RunAnswer) -> Run:
    if Path(answer.blob).name != answer.blob:
        raise ContractError("the name of a file leaves its folder")
    blob = read_bytes(folder / answer.blob, MAX_BLOB)
    return {found.key: found for found in (_found(record, blob) for record in answer.tensors)}


@dataclass(frozen=True)
class Returned:
    """One call as it came back: its runs, what raced, and the error that ended it, if one did."""

    runs: tuple[Run, ...]
    races: tuple[str, ...]
    error: str
    oddities: tuple[str, ...] = ()
    """What it did beside its results."""
    launches: int = 0
    """Kernels that the run with fewest of them launched, where that was counted."""


def read_answer(folder: Path, *, on_gpu: bool = False) -> dict[str, Returned]:
    """By the id of the call. A broken promise ends the reading with a ContractError."""
    text = read_bytes(folder / ANSWER, MAX_MANIFEST)
    answer: CheckAnswer | GpuAnswer = parse(GpuAnswer, text) if on_gpu else parse(CheckAnswer, text)
    returned = {}
    for call in answer.calls:
        races = tuple(dict.fromkeys(race for run in call.runs for race in run.races))
        error = call.refusal.detail if call.refusal is not None else ""
        odd = tuple(dict.fromkeys(oddity for run in call.runs for oddity in run.oddities))
        launches = min((len(run.footprints) for run in call.runs), default=0)
        returned[call.id] = Returned(tuple(_run(folder, run) for run in call.runs), races, error, odd, launches)
    return returned
