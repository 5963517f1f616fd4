"""A search whose time is over begins nothing more: what is under way comes to its end, and the best is finished."""

from __future__ import annotations

from collections.abc import Callable

from bot.campaign.effects import Effect, EndSearch, OpenRound, RaceNumbers
from bot.model.campaign import StopReason


def in_time(effect: Effect, is_late: Callable[[], bool]) -> Effect:
    """What to do now: this, or to end the search."""
    if isinstance(effect, OpenRound | RaceNumbers) and is_late():
        return EndSearch(order=effect.order, why=StopReason.TIME_OVER)
    return effect
