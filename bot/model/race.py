"""A race: versions of one source, with other numbers at their launches or rewritten, each timed for a dozen blocks
beside v0.

It says what is worth a round and nothing else: what comes out of it is judged like any other variant.
"""

from __future__ import annotations

from math import exp, fsum, log
from typing import Annotated

from pydantic import Field

from bot.model.ids import VariantNumber
from bot.model.word import Word

MOST_RACERS = 64
"""Beside the incumbent. One costs a compilation on each side of a pass, and a dozen blocks of each case."""

NEARBY_TECHNIQUE = "nearby_numbers"
"""How the technique begins of a version that has numbers of an earlier rewrite at their neighbours."""
NO_CHANGE = "launches the same as the source as it stands"
TWICE = "launches the same as another that races"
"""Why one left that need not run: its time is another's."""
Speedup = Annotated[float, Field(gt=0)]
Technique = Annotated[str, Field(max_length=120, pattern=r"^([a-z][a-z0-9_]*(:[A-Za-z_][A-Za-z0-9_]*)?)?$")]


class Numbers(Word):
    """Launch numbers of one kernel. Its warps are a count, or follow from the elements that a thread gets."""

    kernel: str
    block_name: str
    """Empty where no block says how much a program holds: then there is a count of warps."""
    warps: int | None = Field(default=None, ge=1, le=32)
    each: int | None = Field(default=None, ge=1)
    cap: int | None = Field(default=None, ge=1)
    """The widest block it may take; None leaves the block as it is."""
    held: int = Field(default=1, ge=1)
    """Blocks that a program holds at a time."""


class Lap(Word):
    """One scored case: v0's time over this one's, with the interval of its blocks."""

    case: str
    speedup: Speedup
    low: Speedup
    high: Speedup
    blocks: int = Field(ge=1)
    peak_bytes: int = Field(default=0, ge=0)
    """What is allocated at most. 0 where nobody counted."""
    spills: int = Field(default=0, ge=0)
    """Bytes a thread, where the source as it stands keeps all of a kernel in registers: such a variant is refused."""


class Racer(Word):
    """One that raced. With neither numbers nor an idea it is the source as it stands, which the others are held
    against."""

    numbers: tuple[Numbers, ...] = ()
    """Of several kernels where no case launches two of them."""
    idea: Technique = ""
    """The technique of a rewrite."""
    title: str = Field(default="", max_length=200)
    """What people call that idea."""
    laps: tuple[Lap, ...] = ()
    left: str = ""
    """Why it left before its last lap."""
    gpu_ms: float = Field(default=0.0, ge=0)
    """What it cost: its share of the blocks, with all that prepares a slot. 0 where nobody kept count."""

    @property
    def is_itself(self) -> bool:
        return not self.numbers and not self.idea

    @property
    def is_nearby(self) -> bool:
        """Whether it is the source as it stands but for a number that a rewrite brought along."""
        return self.idea.partition(":")[0] == NEARBY_TECHNIQUE

    @property
    def is_nothing_new(self) -> bool:
        """Whether what it launches had its place in the race without it."""
        return self.left in (NO_CHANGE, TWICE)

    @property
    def most_spilled(self) -> int:
        return max((lap.spills for lap in self.laps), default=0)

    @property
    def spills(self) -> bool:
        """Whether it would be refused for that as it stands."""
        return self.most_spilled > 0


class Race(Word):
    of: VariantNumber
    """The incumbent whose versions raced."""
    opening: bool = False
    """Of ideas alone, before the first of them has a round."""
    racers: tuple[Racer, ...] = ()
    seconds: float = Field(default=0.0, ge=0)
    recording_seconds: float = Field(default=0.0, ge=0)
    """Of these, until everybody was recorded."""
    gpu_ms: float = Field(default=0.0, ge=0)
    note: str = ""
    """Why nobody raced, where nobody did."""

    @property
    def itself(self) -> Racer | None:
        return next((racer for racer in self.racers if racer.is_itself), None)

    @property
    def others(self) -> tuple[Racer, ...]:
        return tuple(racer for racer in self.racers if not racer.is_itself)

    def gain(self, racer: Racer) -> float | None:
        """Over the incumbent, geometric mean of the cases both ran; None where there is none."""
        now = {lap.case: lap.speedup for lap in self.itself.laps} if self.itself is not None else {}
        both = [log(lap.speedup / now[lap.case]) for lap in racer.laps if lap.case in now]
        return exp(fsum(both) / len(both)) if both else None

    @property
    def first(self) -> Racer | None:
        """The fastest of those that came home and could be accepted."""
        fit = [racer for racer in self.others if not racer.left and not racer.spills]
        home = [(gain, racer) for racer in fit if (gain := self.gain(racer)) is not None]
        return max(home, key=lambda pair: pair[0])[1] if home else None
