"""Carries out what is owed to a talking zone, each effect between two facts: announced, then done.

A job that dies between the two is followed by one that looks for the effect before repeating it.
"""

from __future__ import annotations

from collections.abc import Callable

from bot.campaign.effects import Effect
from bot.model.campaign import Campaign, Zone
from bot.model.facts import EffectDone
from bot.zones.follow import follow_ups, next_effects
from bot.zones.scribe import Scribe

MOST_STEPS = 40
"""No campaign owes this many steps to one job; more would be a loop of ours."""

Do = Callable[[Effect, Scribe], str]


def carry_out(zone: Zone, scribe: Scribe, do: Do) -> Campaign:
    """Work until nothing is owed to this zone any more."""
    for _ in range(MOST_STEPS):
        if follow_ups(scribe.campaign, zone):  # a job before this one died before it could write them
            scribe.record()
        effects = next_effects(scribe.campaign, zone)
        if not effects:
            return scribe.campaign
        scribe.record(*(EffectDone(key=effect.key, zone=zone, ref=do(effect, scribe)) for effect in effects))
    raise AssertionError(f"{scribe.campaign.id} still owes {effects} to {zone} after {MOST_STEPS} steps")
