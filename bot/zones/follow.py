"""What follows from a fact by itself: an order is placed, effects are announced, a campaign closes.

These facts go into the same append as the one they follow from, so that a step costs two writes and not five.
"""

from __future__ import annotations

from bot.campaign.effects import Close, Effect, PlaceOrder, PushLineage, PushWinner
from bot.campaign.machine import advance, owed_in
from bot.model.campaign import Campaign, Order, Zone
from bot.model.facts import CampaignClosed, EffectRequested, Fact, OrderPlaced

ALONE = (PushLineage, PushWinner)
"""Pushes are announced and carried out one at a time; what is said goes together."""


def new_order(campaign: Campaign, effect: PlaceOrder) -> Order:
    """Order ids count up, so that a second search of one campaign has its own."""
    number = len(campaign.orders) + 1
    winner = campaign.winner if effect.phase == "finalize" else None
    return Order(id=f"{campaign.id}-{number}-{effect.phase}", campaign=campaign.id, phase=effect.phase, winner=winner)


def _of_itself(campaign: Campaign, zone: Zone) -> Fact | None:
    """The next fact that needs no doing."""
    match owed_in(campaign, zone)[:1]:
        case (PlaceOrder() as effect,):
            return OrderPlaced(order=new_order(campaign, effect))
        case (Close(),) if campaign.outcome is not None:
            return CampaignClosed(outcome=campaign.outcome)
        case _:
            return None


def next_effects(campaign: Campaign, zone: Zone) -> tuple[Effect, ...]:
    """The effects this zone carries out next, in one go."""
    mine = owed_in(campaign, zone)
    if mine and isinstance(mine[0], ALONE):
        return mine[:1]
    return tuple(effect for effect in mine if not isinstance(effect, (*ALONE, PlaceOrder, Close)))


def follow_ups(campaign: Campaign, zone: Zone) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    while (fact := _of_itself(campaign, zone)) is not None:
        facts.append(fact)
        campaign, _ = advance(campaign, fact)
    fresh = [effect for effect in next_effects(campaign, zone) if effect.key not in campaign.requested]
    return (*facts, *(EffectRequested(key=effect.key, zone=zone) for effect in fresh))
