"""What the bench asks of a worker that has a GPU, and what it answers."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.answers import CallAnswer, Refusal
from bot.worker.contract.calls import Call, Subject


@dataclasses.dataclass(frozen=True)
class GpuRequest:
    """Run the checks on the GPU and record every scored case."""

    job: Literal["gpu"]
    subject: Subject
    checks: tuple[Call, ...]
    cases: tuple[Call, ...]
    fills: tuple[tuple[str, str], ...]
    """How an operand of a scored case is filled while it is recorded: its name and the kind."""
    brief: bool = False
    """Recordings alone: neither memory nor what the profiler sees. For kernels of our own."""


@dataclasses.dataclass(frozen=True)
class Traced:
    """A kernel that the profiler saw while nothing was recorded."""

    name: str
    grid: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Recording:
    """One scored case. `folder` holds tape.json and the cubins; empty where the pass cannot be replayed."""

    case: str
    folder: str
    why_not: str
    peak_bytes: int
    traced: tuple[Traced, ...]
    kernels: tuple[tuple[str, str, str], ...]
    """(kernel, source file below the root, sha256 of that file) of each Triton launch."""
    refusal: Refusal | None = None


@dataclasses.dataclass(frozen=True)
class GpuAnswer:
    calls: tuple[CallAnswer, ...]
    recordings: tuple[Recording, ...]
    refusal: Refusal | None = None
