"""Readings made to measure: blocks of a kernel that is so much faster, with as much noise as a test asks for."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from bot.model.measurement import Block, Paired, Reading

V0_US = 100.0


def exact(percent: float, count: int = 16, us: float = V0_US) -> tuple[Block, ...]:
    """Blocks without any noise; above 0 is faster: v0 takes (1 + percent / 100) times as long."""
    after = us / (1 + percent / 100)
    return ((us, us, after, after),) * count


def noisy(dice: random.Random, percent: float, sd: float, count: int = 64, us: float = V0_US) -> tuple[Block, ...]:
    """`sd` in percent, of each of the four launches."""

    def read(gain: float) -> float:
        return us * math.exp(dice.gauss(0, sd / 100)) / (1 + gain / 100)

    return tuple((read(0), read(0), read(percent), read(percent)) for _ in range(count))


def reading(percent: float, count: int = 16, us: float = V0_US, voided: int = 0) -> Reading:
    return Reading(blocks=exact(percent, count, us), voided=voided)


def readings(*percents: float, us: float = V0_US) -> tuple[Reading, ...]:
    """One process each, and each quite sure of itself."""
    return tuple(reading(percent, us=us) for percent in percents)


def processes(
    dice: random.Random, percent: float, *, tau: float = 0.15, sd: float = 1.0, count: int = 8, blocks: int = 64
) -> tuple[Reading, ...]:
    """Fresh processes, each with a placement of its own; `tau` is its s.d. in percent."""
    return tuple(Reading(blocks=noisy(dice, dice.gauss(percent, tau), sd, blocks)) for _ in range(count))


def paired(confirm: Sequence[float], *, control: Sequence[float] = (), us: float = V0_US) -> Paired:
    search = reading(confirm[0] if confirm else 0.0, us=us)
    return Paired(tier="replay", search=search, confirm=readings(*confirm, us=us), control=readings(*control, us=us))
