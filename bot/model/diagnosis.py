"""Why a kernel is slow, with the evidence for saying so."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from bot.model.word import Word


class Bottleneck(StrEnum):
    MEMORY = "memory"
    COMPUTE = "compute"
    BALANCED = "balanced"
    RESOURCE = "resource"
    """Registers, shared memory or spills hold it back."""
    LAUNCH = "launch"
    """Too short, or too few programs, to fill the machine."""


class Clue(Word):
    """evidence -> inference -> action."""

    evidence: str
    inference: str
    action: str


class Diagnosis(Word):
    bottleneck: Bottleneck
    confidence: Literal["measured", "heuristic"]
    sentence: str
    clues: tuple[Clue, ...] = ()
    strategies: tuple[str, ...] = ()
    """Names of transforms or parameters, in the order to try them."""
    roof_percent: float | None = None
    """Share of the roof the baseline reaches on its scored cases; None when no ceiling is known."""
