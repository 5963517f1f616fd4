"""What every turn is made of: what it needs to hold, and a campaign with some fields changed."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Phase


class Unfit(Exception):
    """This fact does not fit the stage it met. `advance` notes it down."""


def change(campaign: Campaign, **fields: Any) -> Campaign:
    return campaign.model_copy(update=fields)


def need(holds: bool, why: str) -> None:
    if not holds:
        raise Unfit(why)


def of_open_order(campaign: Campaign, fact: Any, phase: Phase) -> None:
    need(campaign.order is not None and campaign.order.id == fact.order, f"order {fact.order} is not open")
    need(campaign.order is not None and campaign.order.phase is phase, f"order {fact.order} is not for {phase}")
