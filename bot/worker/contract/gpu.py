"""What the bench asks of a worker that has a GPU, and what it answers."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from bot.worker.contract.answers import CallAnswer, Refusal
from bot.worker.contract.calls import Call, Subject

MAX_CHOICES = 32
"""Of one case."""
MAX_CONSTANTS = 16
AXES = 3
MAX_NAME = 200
MAX_KEY = 500
Plain = bool | int | float | str | None


@dataclasses.dataclass(frozen=True)
class Choice:
    """The configuration that an autotuned kernel took, of those in its list, for some of its launches."""

    kernel: str
    """With the module it is defined in."""
    key: str
    """For which launches: the values by which its autotuner tells them apart."""
    among: str
    """Stands for the whole list it was taken from."""
    constants: tuple[tuple[str, Plain], ...]
    num_warps: int | None
    num_stages: int | None
    num_ctas: int | None = None
    maxnreg: int | None = None
    source: str = ""
    """Stands for the text of the kernel and of what it calls."""
    grid: tuple[int, ...] = ()
    """How many programs it was launched with, by axis."""


def _is_short(text: str, most: int) -> bool:
    return len(text) <= most and text.isascii() and text.isprintable()


def _is_plain(value: Plain) -> bool:
    if isinstance(value, str):
        return _is_short(value, MAX_NAME)
    return not isinstance(value, float) or math.isfinite(value)


def is_sound(choice: Choice) -> bool:
    """Whether it may cross the border: it is handed on to every worker that follows."""
    texts = (choice.kernel, choice.among, choice.source, *(name for name, _ in choice.constants))
    numbers = (choice.num_warps, choice.num_stages, choice.num_ctas, choice.maxnreg)
    values = (*numbers, *choice.grid, *(value for _, value in choice.constants))
    return (
        len(choice.constants) <= MAX_CONSTANTS
        and len(choice.grid) <= AXES
        and _is_short(choice.key, MAX_KEY)
        and all(_is_short(text, MAX_NAME) for text in texts)
        and all(_is_plain(value) for value in values)
        and all(abs(value) < 2**63 for value in values if isinstance(value, int))
    )


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
    pins: tuple[Choice, ...] = ()
    """What autotuned kernels chose before: the same one, with the same list and on the same grid, is not tuned anew."""
    recorders: int = 1
    """So many processes record at most, side by side; 0 for one of them that is not the first."""


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
    choices: tuple[Choice, ...] = ()
    """Of its autotuned kernels."""
    local_bytes: tuple[tuple[str, int], ...] = ()
    """What a thread of each kernel keeps in memory at most, for want of registers."""


@dataclasses.dataclass(frozen=True)
class GpuAnswer:
    calls: tuple[CallAnswer, ...]
    recordings: tuple[Recording, ...]
    refusal: Refusal | None = None
    marks: tuple[tuple[str, float], ...] = ()
    """What was done when, by the machine's own clock: for whoever wonders where a round's time goes."""
