"""How much a bench with a GPU reads."""

from __future__ import annotations

from dataclasses import dataclass

from bot.analysis import racing


@dataclass(frozen=True)
class Effort:
    """Processes, not blocks, are what a published number rests on."""

    search: int = racing.LOOKS[0]
    processes: int = 6
    blocks: int = 24
    control: int = 12
    losers: bool = False
    """Also who lost the race is read in fresh processes: whoever asks how good the clock is wants to know."""
