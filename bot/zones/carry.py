"""Carries out what is owed to a talking zone, each effect between two facts: announced, then done.

A job that dies between the two is followed by one that looks for the effect before repeating it.
"""

from __future__ import annotations

from collections.abc import Callable

from bot.campaign.effects import Close, Effect, PlaceOrder, PushLineage, PushWinner
from bot.campaign.machine import owed_in
from bot.model.campaign import Campaign, Order, Zone
from bot.model.facts import CampaignClosed, EffectDone, EffectRequested, OrderPlaced
from bot.zones.scribe import Draw, Scribe, draw_nothing

MOST_STEPS = 40
"""No campaign owes this many steps to one job; more would be a loop of ours."""

Do = Callable[[Effect, Scribe], str]


def new_order(campaign: Campaign, effect: PlaceOrder) -> Order:
    """Order ids count up, so that a second search of one campaign has its own."""
    number = len(campaign.orders) + 1
    winner = campaign.winner if effect.phase == "finalize" else None
    return Order(id=f"{campaign.id}-{number}-{effect.phase}", campaign=campaign.id, phase=effect.phase, winner=winner)


def _bracketed(effects: tuple[Effect, ...], zone: Zone, scribe: Scribe, do: Do) -> None:
    announced = scribe.campaign.requested
    fresh = [EffectRequested(key=effect.key, zone=zone) for effect in effects if effect.key not in announced]
    if fresh:
        scribe.record(*fresh)
    done = [EffectDone(key=effect.key, zone=zone, ref=do(effect, scribe)) for effect in effects]
    scribe.record(*done)


def carry_out(zone: Zone, scribe: Scribe, do: Do, draw: Draw = draw_nothing) -> Campaign:
    """Work until nothing is owed to this zone any more."""
    for _ in range(MOST_STEPS):
        mine = owed_in(scribe.campaign, zone)
        if not mine:
            return scribe.campaign
        match mine[0]:
            case PlaceOrder() as effect:
                scribe.record(OrderPlaced(order=new_order(scribe.campaign, effect)))
            case Close():
                assert scribe.campaign.outcome is not None
                scribe.record(CampaignClosed(outcome=scribe.campaign.outcome), draw=draw)
            case PushLineage() as effect:
                _bracketed((effect,), zone, scribe, do)
            case _:
                spoken = tuple(e for e in mine if not isinstance(e, PushWinner | PushLineage | PlaceOrder | Close))
                _bracketed(spoken, zone, scribe, do)
    raise AssertionError(f"{scribe.campaign.id} still owes {mine} to {zone} after {MOST_STEPS} steps")
