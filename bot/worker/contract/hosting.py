"""What the bench asks of a worker whose host time is read, and the frames with which it is read.

The clock is the bench's: it runs from a frame asked to the same frame told. Two pipes for each arm lie in the answer
folder.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.answers import Refusal
from bot.worker.contract.calls import Call, Subject
from bot.worker.contract.gpu import Choice

V0, VARIANT = "v0", "variant"
ARMS = (V0, VARIANT)
FRAME = 8
"""Bytes of a frame: what is asked, the number of the case, and noise, so that none can be told before it was asked."""
BEGIN, READY, GO, NOTHING, END = range(1, 6)
"""Import the op; lay out what the passes need and wait for the GPU; run the passes; nothing at all; leave."""


def asked(arm: str) -> str:
    """The pipe by which an arm is asked."""
    return f"{arm}.asked"


def told(arm: str) -> str:
    """The pipe by which it tells that it has done so."""
    return f"{arm}.told"


@dataclasses.dataclass(frozen=True)
class HostRequest:
    """Run passes of v0 and of the variant, each in a process of its own, whenever asked to."""

    job: Literal["host"]
    subject: Subject
    """The variant; in the process of an arm, what that arm imports."""
    beside: Subject
    """v0."""
    cases: tuple[Call, ...]
    fills: tuple[tuple[str, str], ...]
    """How each operand is filled: its name and the kind."""
    passes: int
    """How many for one GO."""
    arm: str = ""
    """Which of the two a process is; empty in what the bench asks."""
    pins: tuple[Choice, ...] = ()
    """What autotuned kernels chose while they were recorded: neither arm tunes anew."""


@dataclasses.dataclass(frozen=True)
class HostAnswer:
    refusal: Refusal | None = None
