"""What pictures show beyond the campaign itself: intervals, roofs, and results of earlier nights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.model.ids import KernelName, VariantNumber
from bot.model.measurement import Evidence


@dataclass(frozen=True, slots=True)
class Spread:
    """How sure the readings of one variant are. A model has no spread, and nothing is drawn for it."""

    cases: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Case -> 95 % interval of its speed-up over v0."""
    noise_percent: float | None = None
    """What v0 against itself showed on that machine that day."""


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """One case: the bytes it has to move over the time it took, before and after, in GB/s."""

    case: str
    before: float | None = None
    after: float | None = None
    plain: float | None = None
    """What a plain pass over the same bytes reached on this very GPU, measured."""
    intensity: float | None = None
    """FLOP a byte; None where nobody counted the operations."""


@dataclass(frozen=True, slots=True)
class Roof:
    points: tuple[RoofPoint, ...]
    ceiling: float | None = None
    """GB/s of the datasheet; None where nobody published one."""
    peak: float | None = None
    """TFLOP/s of the units that do the arithmetic, by the datasheet."""
    gpu: str = ""
    """Whose datasheet."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything the pictures of one campaign need that only the analysis knows."""

    spreads: Mapping[VariantNumber, Spread] = field(default_factory=dict)
    roof: Roof | None = None

    def spread(self, number: VariantNumber) -> Spread:
        return self.spreads.get(number, Spread())


@dataclass(frozen=True, slots=True)
class PastResult:
    """One kernel on one GPU as one sweep found it. A trend is a list of these, in any order."""

    day: str
    """ISO date of the sweep, e.g. 2026-11-22."""
    kernel: KernelName
    gpu: str
    """Name of the GPU; results of two GPUs are never joined by a line."""
    us: float
    """Geometric mean over the suite, in microseconds."""
    evidence: Evidence
    low_us: float | None = None
    high_us: float | None = None
    """95 % interval of `us`, where it was measured."""
    noise_percent: float | None = None
    mark: str = ""
    """A word on that night, e.g. `v3 merged` or `triton 3.7`."""


NO_FIGURES = Figures()
