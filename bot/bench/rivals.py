"""What plain PyTorch and torch.compile make of the same cases, played beside v0 while no variant is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bot.bench.bailiff import Objection
from bot.model.measurement import Reading
from bot.model.rivals import EVERYWHERE, OF_WINNER, Rival, RivalName
from bot.worker.contract.timing import Blocks

BLOCKS = 16
"""One process, and so no interval that more of them would narrow."""
MOST_WORDS = 400


@dataclass(frozen=True)
class Heat:
    """Who is played, and how long all of it may take: torch compiles each pass of each shape anew. What is being
    compiled when the time is over is waited for."""

    names: tuple[RivalName, ...]
    seconds: float

    @property
    def late(self) -> str:
        return f"the {self.seconds:.0f} s for rivals were over"

    @property
    def slow(self) -> str:
        return f"torch was still compiling it when the {self.seconds:.0f} s for that were over"


PROFILED = Heat(EVERYWHERE, 40.0)
WON = Heat(OF_WINNER, 60.0)
"""Beside v0 once there is a winner."""


def read(
    heat: Heat,
    cases: Sequence[str],
    begin: Callable[[str, RivalName, bool], None],
    blocks: Callable[[str], Blocks],
    wrong: type[Exception],
    slow: Collection[tuple[RivalName, str]] = (),
    now: Callable[[], float] = time.monotonic,
) -> tuple[Rival, ...]:
    """`begin` puts v0 and one of them on a process, a fresh one where it is told so. One that cannot be played is named
    with the reason and keeps nobody else from it; nor does one whose compiling was given up."""
    until, found = now() + heat.seconds, []
    for name in heat.names:
        fresh = True
        for case in cases:
            if (name, case) in slow:
                found.append(Rival(name=name, case=case, why_not=heat.slow))
                continue
            if now() > until:
                found.append(Rival(name=name, case=case, why_not=heat.late))
                continue
            try:
                begin(case, name, fresh)
                fresh = False
                told = blocks(case)
            except wrong as error:
                found.append(Rival(name=name, case=case, why_not=f"its result is not right: {error}"[:MOST_WORDS]))
            except Objection as error:
                fresh = True
                found.append(Rival(name=name, case=case, why_not=str(error)[-MOST_WORDS:]))
            else:
                found.append(Rival(name=name, case=case, reading=Reading(blocks=told.blocks, voided=told.voided)))
    return tuple(found)
