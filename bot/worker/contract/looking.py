"""What the bench asks of a worker that is being profiled: to run passes, and to say what a timeline shows of them."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.answers import Refusal
from bot.worker.contract.calls import Call, Subject
from bot.worker.contract.dispatching import Dispatched
from bot.worker.contract.gpu import Choice


@dataclasses.dataclass(frozen=True)
class LookRequest:
    job: Literal["look"]
    subject: Subject
    cases: tuple[Call, ...]
    fills: tuple[tuple[str, str], ...]
    """How each operand is filled: its name and the kind."""
    mode: Literal["timeline", "counters"]
    """Watched by CUPTI from inside; or run once between marks, for a profiler that watches from outside."""
    passes: int = 3
    pins: tuple[Choice, ...] = ()
    """What autotuned kernels chose while they were recorded."""
    dispatches: tuple[str, ...] = ()
    """Of which ops the library's own dispatcher is asked what it takes by itself."""


@dataclasses.dataclass(frozen=True)
class Worked:
    """One kernel, in all passes together."""

    kernel: str
    launches: int
    us: float


@dataclasses.dataclass(frozen=True)
class Looked:
    """The sums over the passes of one case."""

    case: str
    passes: int
    wall_us: float
    busy_us: float
    gap_us: float
    waits: int
    kernels: tuple[Worked, ...]


@dataclasses.dataclass(frozen=True)
class LookAnswer:
    looks: tuple[Looked, ...]
    refusal: Refusal | None = None
    dispatched: tuple[Dispatched, ...] = ()
