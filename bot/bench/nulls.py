"""A null campaign on a GPU: many that are v0 in other words, searched in one process as a race searches, and the one
that looks fastest confirmed in fresh processes as a finalist is, also where a race would have let it go. No control is
read beside it: a control can only refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.analysis import racing
from bot.analysis.nulls import best
from bot.bench.effort import Effort
from bot.bench.side_by_side import groups, read_alone, read_together
from bot.worker.contract.timing import Blocks, Common, Four

CONFIRMED = Effort()
PROCESSES = 1 + CONFIRMED.processes
"""Of one campaign."""
AHEAD = 3
"""Processes that start while another one is read."""


@dataclass(frozen=True)
class Clock:
    """What a clock does for one size of kernel."""

    start: Callable[[int], object]
    """So many processes ahead of time."""
    open: Callable[[Sequence[int], bool], object]
    """Put v0 and these kernels on the process that plays, or on a fresh one."""
    read: Callable[[int, int], Blocks]
    """So many blocks of one of those that were opened."""
    together: Callable[[Sequence[int], int], Common]
    """So many that several of them share."""


def _search(clock: Clock, variants: Sequence[int]) -> tuple[list[tuple[Four, ...]], int]:
    """(blocks of each, voided): who is clearly behind after a glance is not read on."""
    found: list[tuple[Four, ...]] = []
    voided, leader = 0, None

    def shared(places: Sequence[int], blocks: int) -> dict[int, tuple[Four, ...]]:
        nonlocal voided
        told = clock.together(places, blocks)
        voided += told.voided
        return dict(zip(places, told.blocks, strict=True))

    def alone(place: int, blocks: int) -> tuple[Four, ...]:
        nonlocal voided
        told = clock.read(place, blocks)
        voided += told.voided
        return told.blocks

    for number, some in enumerate(groups(variants)):
        clock.open(some, number == 0)
        together, leader = read_together(len(some), leader, shared)
        for place in range(len(some)):
            blocks = together[place] if together else read_alone(leader, partial(alone, place))
            leader = racing.ahead(racing.glanced(blocks), leader)
            found.append(blocks)
    return found, voided


def campaign(clock: Clock, variants: Sequence[int], first: int) -> dict[str, Any] | None:
    """What was read, as a calibration's file holds it; None where too little of it was undisturbed. `first` is the
    number of the process that searches."""
    clock.start(AHEAD)
    searched, voided = _search(clock, variants)
    place = best(searched)
    if place is None:
        return None
    readings = []
    for turn in range(CONFIRMED.processes):
        clock.start(min(AHEAD, CONFIRMED.processes - turn))
        clock.open([variants[place]], True)
        told = clock.read(0, CONFIRMED.blocks)
        if not told.blocks:
            return None
        readings.append({"process": first + 1 + turn, "blocks": told.blocks, "voided": told.voided})
    return {
        "variants": list(variants),
        "chosen": variants[place],
        "searched": {"process": first, "blocks": searched, "voided": voided},
        "readings": readings,
    }
