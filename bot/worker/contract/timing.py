"""What bench and judge say to each other about clocks. The judge starts replayers, plays two tapes, verifies each slot
and tells what it read."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.calls import Call

TIED = "tied"
"""Said to a judge that may be made to stand still: it goes with whoever started it."""
Four = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class StartRequest:
    """Start replayers ahead of time: each is used for one case once."""

    do: Literal["start"]
    count: int
    alone: bool = False
    """So many and no more: others are not wanted before they can come up while something else is done."""
    still: int = 0
    """How many processes on the GPU were made to stand still."""


@dataclasses.dataclass(frozen=True)
class Started:
    waiting: int


@dataclasses.dataclass(frozen=True)
class CompileRivalRequest:
    """Have torch compile one, so that whoever plays it finds that done."""

    do: Literal["compile"]
    kernel: str
    call: Call
    name: str


@dataclasses.dataclass(frozen=True)
class RivalCompiled:
    seconds: float


@dataclasses.dataclass(frozen=True)
class OpenRequest:
    """Put v0 and some variants on a replayer; one more arm, v0 again, is the control."""

    do: Literal["open"]
    case: str
    baseline: str
    variants: tuple[str, ...]
    lanes: int
    fresh: bool
    """In a new process, or in the one that is playing."""
    rivals: tuple[str, ...] = ()
    """Arms of the judge's own behind v0, and then there is no variant."""
    still: int = 0
    """Processes of the bench's own that stand still on the GPU: no strangers."""


@dataclasses.dataclass(frozen=True)
class Opened:
    lanes: int
    pilot_us: float
    """One cold pass of v0, roughly."""
    slot_us: float = 0.0
    """What its slot takes in all: what runs before the pass, and what is filled and flushed for it."""


@dataclasses.dataclass(frozen=True)
class BlocksRequest:
    do: Literal["blocks"]
    variant: int
    """Which of those opened."""
    blocks: int
    control: int


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Microseconds: v0, v0, other, other. `wrong` says why a slot's results were not right."""

    blocks: tuple[Four, ...]
    control: tuple[Four, ...]
    voided: int
    wrong: str
    gpu_ms: float
    """Time the GPU spent in these slots, all that prepares them included."""


@dataclasses.dataclass(frozen=True)
class CommonRequest:
    """Blocks that several variants share with one v0: four take ten slots, and sixteen with a v0 for each."""

    do: Literal["common"]
    variants: tuple[int, ...]
    blocks: int


@dataclasses.dataclass(frozen=True)
class Common:
    blocks: tuple[tuple[Four, ...], ...]
    """Of each variant, in the order asked for. None at all where so many do not fit between two looks at them."""
    voided: int
    wrong: str
    gpu_ms: float


@dataclasses.dataclass(frozen=True)
class BurstRequest:
    do: Literal["burst"]


@dataclasses.dataclass(frozen=True)
class Burst:
    """Variant over v0 in long uninterrupted runs, by the judge's own clock and by the events of the same runs."""

    wall_ratio: float
    event_ratio: float
    covered: float
    """Least share of a run's wall time that its events account for."""


@dataclasses.dataclass(frozen=True)
class CloseRequest:
    do: Literal["close"]


@dataclasses.dataclass(frozen=True)
class Closed:
    pass


@dataclasses.dataclass(frozen=True)
class RoofRequest:
    """How long this GPU takes to move so many bytes, half of them read and half written, from a cold cache."""

    do: Literal["roof"]
    nbytes: int
    lanes: int


@dataclasses.dataclass(frozen=True)
class Roof:
    copy_us: float
    scale_us: float
    """In place: two buffers may lie so that their rows of memory collide, and one never does."""
    triad_us: float

    @property
    def fastest_us(self) -> float:
        return min(self.copy_us, self.scale_us, self.triad_us)
