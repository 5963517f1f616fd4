"""Why a kernel is slow, with the evidence for saying so."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import Field

from bot.model.reasons import ReasonCode
from bot.model.word import Word

Confidence: TypeAlias = Literal["high", "medium", "low"]
Basis: TypeAlias = Literal["counters", "timeline", "timed", "compiled", "counted", "model"]
"""What a conclusion rests on: the GPU's own counters, a timeline of one run, its clock, the compiled kernel, what the
interpreter counted; or the model of time, and then it is a heuristic."""


class Bottleneck(StrEnum):
    MEMORY = "memory"
    COMPUTE = "compute"
    BALANCED = "balanced"
    RESOURCE = "resource"
    """Registers, shared memory or spills hold it back."""
    LATENCY = "latency"
    """It waits, and too little runs beside it to hide that."""
    LAUNCH = "launch"
    """Too short, or too few programs, to fill the machine."""
    HOST = "host"
    """The GPU waits for the host most of the time."""


class Clue(Word):
    """evidence -> inference -> action."""

    evidence: str
    inference: str
    action: str
    confidence: Confidence = "medium"
    basis: Basis = "model"


class Strategy(Word):
    """Something to try, by the name the transform or parameter has in its table."""

    name: str
    techniques: tuple[str, ...] = ()
    """What the source systems call it: P0, M1 to M6, C1 to C6, G1 to G4."""
    because: str = ""
    at_most: float | None = Field(default=None, ge=1)
    """Speed-up if all of the time it is about went away, by the model; None where the model cannot say. Never what it
    will give: that stands in the record once it was measured."""


class Ceiling(Word):
    """One limit of the GPU, cited like every other number."""

    what: Literal["memory", "arithmetic"]
    value: float = Field(gt=0)
    unit: Literal["GB/s", "TFLOP/s"]
    kind: Literal["measured", "datasheet"]
    source: str


class CaseRoof(Word):
    """How near one case comes to what the GPU can do."""

    case: str
    minimum_bytes: int
    flops: int = 0
    """Of the reference; 0 where nobody counted them."""
    intensity: float | None = None
    """FLOP a byte."""
    ridge: float | None = None
    """The intensity from which arithmetic is the limit."""
    bound: Literal["memory", "compute"] | None = None
    roof_us: float | None = None
    """The least time, by the ceiling that binds."""
    ceiling: Ceiling | None = None
    """The one that binds."""
    peak: Ceiling | None = None
    """Of the arithmetic, from which the ridge comes."""
    percent: float | None = None
    target_us: float | None = None
    """The time at which there is nothing left worth a patch."""
    reason: ReasonCode | None = None
    """Why there is no percent although there are a time and a ceiling."""
    detail: str = ""


class Diagnosis(Word):
    bottleneck: Bottleneck
    confidence: Literal["measured", "heuristic"]
    """Whether the GPU's own counters say so, or compiled kernels and a model."""
    certainty: Confidence = "low"
    sentence: str
    clues: tuple[Clue, ...] = ()
    strategies: tuple[str, ...] = ()
    """Names of transforms or parameters that fit this source, in the order to try them."""
    unfit: tuple[str, ...] = ()
    """Those that find nothing in it to change."""
    roof_percent: float | None = None
    """Share of the roof the baseline reaches on its scored cases; None when no ceiling is known."""
    rival: float | None = None
    """How many times as fast the fastest rival is of those played in all shapes, the passes of each added up."""
    plan: tuple[Strategy, ...] = ()
    """The strategies with their reasons and what each could give at most."""
    tier: Literal[1, 2, 3] | None = None
    """Element-wise, with a reduction, or fused and in several passes."""
    roofs: tuple[CaseRoof, ...] = ()
