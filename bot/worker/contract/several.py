"""What the bench asks of a worker that records several sources, and what it answers."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.answers import Refusal
from bot.worker.contract.calls import Call, Subject
from bot.worker.contract.gpu import Choice, GpuAnswer


@dataclasses.dataclass(frozen=True)
class RecordRequest:
    """Record some scored cases of each of these, briefly."""

    job: Literal["record"]
    subjects: tuple[Subject, ...]
    """Each below a root of its own."""
    cases: tuple[Call, ...]
    """All that any of them records."""
    wanted: tuple[tuple[str, ...], ...]
    """Which of them each records, by name."""
    fills: tuple[tuple[str, str], ...]
    pins: tuple[Choice, ...] = ()
    at_once: int = 1
    """So many processes side by side."""
    seconds: float = 60.0
    """For one of them."""
    within: float = 60.0
    """For all of them: who has not begun by then is not begun."""


@dataclasses.dataclass(frozen=True)
class RecordAnswer:
    answers: tuple[GpuAnswer, ...]
    """Of each source, in their order; a refusal in one is news of that one."""
    refusal: Refusal | None = None
    """Why none was recorded."""


def place_of(number: int) -> str:
    """The folder of a source's recordings in the answer."""
    return f"of-{number}"
