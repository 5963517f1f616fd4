"""Where an order stands in the queue for a GPU, and how long such orders took."""

from __future__ import annotations

from bot.model.campaign import Phase
from bot.model.word import Word


class Wait(Word):
    phase: Phase
    ahead: int
    """Orders of other campaigns that were placed before it, for the same kind of GPU."""
    samples: int = 0
    """Finished jobs that the times are taken from."""
    low_s: float | None = None
    """A quarter of them, with what is ahead, was faster; None where too few have run to say anything."""
    high_s: float | None = None
