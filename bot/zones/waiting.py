"""Asks the ledger where an order stands in the queue."""

from __future__ import annotations

from bot.campaign.queueing import wait_of
from bot.model.wait import Wait
from bot.zones.doors import Doors
from bot.zones.scribe import Scribe

MOST_CAMPAIGNS = 60
"""The newest ones; older ones say little of how busy the machine is."""


def waiting(scribe: Scribe, doors: Doors) -> Wait | None:
    if scribe.campaign.order is None:
        return None
    newest = sorted(doors.ledger.campaigns(), key=lambda name: (len(name), name))[-MOST_CAMPAIGNS:]
    others = [scribe.beside(name) for name in newest if name != scribe.campaign.id]
    told = [(other.campaign, other.lines) for other in others]
    return wait_of(scribe.campaign, [(scribe.campaign, scribe.lines), *told])
