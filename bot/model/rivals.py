"""Other implementations of what a kernel does, timed beside it: a winner that plain PyTorch beats is no news. What was
read of them, and how they did: against v0, and against the best variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import Field

from bot.model.ids import VariantNumber
from bot.model.measurement import Reading
from bot.model.word import Word

RivalName = Literal["eager", "compiled", "max-autotune"]
RIVALS: tuple[RivalName, ...] = get_args(RivalName)
EVERYWHERE: tuple[RivalName, ...] = ("eager", "compiled")
"""Played in every scored case, while the kernel is profiled."""
OF_WINNER: tuple[RivalName, ...] = ("max-autotune",)
"""Played where there is a winner, in the few cases in which v0 takes longest: to compile one takes long."""


class Rival(Word):
    """The mathematics of the kernel as plain PyTorch says it, as it is or under torch.compile, played against v0 block
    by block by a process that no variant ever was in."""

    name: RivalName
    case: str
    reading: Reading | None = None
    """Blocks of v0, v0, rival, rival; None where it could not be played."""
    why_not: str = Field(default="", max_length=400)


@dataclass(frozen=True, slots=True)
class RivalCase:
    """One rival in one case. Every ratio is another's time over the rival's: above 1 the rival is faster."""

    case: str
    v0_us: float
    rival_us: float
    """Medians of the slots; the ratios come of the blocks."""
    over_v0: float
    low: float
    high: float
    """Slowest and fastest of the blocks that `over_v0` is the mean of: one process has no interval."""
    blocks: int
    best_over_v0: float | None = None
    """What the best variant reads against v0. None where nothing won, or it was not confirmed in this case."""
    best_span: tuple[float, float] | None = None
    """Its interval over the processes that confirmed it."""

    @property
    def over_best(self) -> float | None:
        """Both were played against v0, never against each other."""
        return self.over_v0 / self.best_over_v0 if self.best_over_v0 is not None else None


@dataclass(frozen=True, slots=True)
class RivalTally:
    """One rival over all cases it was played in."""

    name: RivalName
    cases: tuple[RivalCase, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    """Case, and why it counts nowhere."""
    over_v0: float | None = None
    shapes: int = 0
    """A geometric mean over so many shapes, the passes of each added up. None where none was played both ways."""
    over_best: float | None = None
    """The same, of the cases in which the best variant was confirmed as well."""
    held: int = 0
    """Cases in which it is held against the best variant, or against v0 where nothing won."""
    held_shapes: int = 0
    """How many shapes the mean over those is of."""
    faster: tuple[tuple[str, float], ...] = ()
    """Those of them in which the rival is the faster one, and by how much; the clearest first."""
    leads: bool = False
    """Whether it is the faster one in the geometric mean."""


@dataclass(frozen=True, slots=True)
class BelowRoof:
    """A case in which memory is the limit and the best variant stays away from it."""

    case: str
    before: float
    """Percent of the roof that v0 reaches."""
    after: float
    why: tuple[str, ...] = ()
    """What was counted, compiled and estimated; empty where nothing is known."""


@dataclass(frozen=True, slots=True)
class NearRoof:
    """Where memory is the limit, how near the best variant comes to it."""

    percent: float
    """From where on it is near."""
    cases: int = 0
    """That memory limits, and in which it was confirmed."""
    below: tuple[BelowRoof, ...] = ()
    """The farthest first."""


@dataclass(frozen=True, slots=True)
class Rivalry:
    """All rivals of one kernel on one GPU."""

    tallies: tuple[RivalTally, ...]
    best: VariantNumber = 0
    """What they are held against; 0 where nothing won."""
    best_over_v0: float | None = None
    """Geometric mean over what any rival was played in; None where the best was not confirmed in one of the cases."""
    best_shapes: int = 0
    gpu: str = ""
    roof: NearRoof | None = None
    """The rival that nobody passes; None where nothing won."""
