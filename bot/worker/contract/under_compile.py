"""What the bench asks of a worker that puts an op under torch.compile. It answers as one that was asked for checks."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.calls import Call, Subject


@dataclasses.dataclass(frozen=True)
class UnderCompileRequest:
    """Run each of these once."""

    job: Literal["under_compile"]
    subject: Subject
    checks: tuple[Call, ...]
    whole: bool
    """Whether it has to come out as one graph; otherwise torch may run in Python what it cannot trace."""
    seconds: float
    """What has not begun by then is not begun."""
