"""How much a bench with a GPU reads."""

from __future__ import annotations

from dataclasses import dataclass

from bot.analysis import racing

LONG_US = 20.0
"""From here on two thirds of the blocks say as much: of those of the calibrations (docs/results/h200/calibration) the
first 16 of each process find the same 203 of 204 planted gains, accept as little and err by as much as all 24. Under it
they err by half as much again."""
SHARE = 2 / 3
SLOW_SLOT_US = 2000.0
"""And where the rest of a slot takes so long: a gradient of a loss that is 1 is returned in 3 us, behind a forward pass
of five milliseconds, and took half of all that fused_linear_jsd's cases did."""


@dataclass(frozen=True)
class Effort:
    """Processes, not blocks, are what a published number rests on."""

    search: int = racing.LOOKS[0]
    processes: int = 6
    blocks: int = 24
    """Of a pass that takes less than LONG_US, and `control` beside them."""
    control: int = 12
    losers: bool = False
    """Also who lost the race is read in fresh processes: whoever asks how good the clock is wants to know."""
    unseen: bool = True
    """Whether sizes that nobody named are read beside: whoever names some asks for no others."""

    def amounts(self, us: float, slot_us: float = 0.0) -> tuple[int, int]:
        """(blocks, blocks of the control) of one process, where v0 and a whole slot of it take so long."""
        if us < LONG_US and slot_us < SLOW_SLOT_US:
            return self.blocks, self.control
        return round(SHARE * self.blocks), round(SHARE * self.control)
