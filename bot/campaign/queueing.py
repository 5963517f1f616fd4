"""The place of an order in the queue and how long it may take, from what the ledger remembers. Never a guess."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles

from bot.campaign.spending import Told, placed_at
from bot.model.campaign import Campaign, Phase
from bot.model.commands import GpuChoice
from bot.model.facts import GpuTimeSpent, JournalLine, OrderPlaced
from bot.model.wait import Wait

LEAST_SAMPLES = 3
MOST_SAMPLES = 10


def pool_of(campaign: Campaign) -> str:
    """The kind of GPU it waits for."""
    asked = campaign.command.gpu if campaign.command else GpuChoice.AUTO
    return campaign.policy.default_gpu if asked is GpuChoice.AUTO else asked.value


def _durations(lines: Sequence[JournalLine], phase: Phase) -> list[tuple[str, float]]:
    """When, and how long, each finished job of this phase worked."""
    phases = {line.fact.order.id: line.fact.order.phase for line in lines if isinstance(line.fact, OrderPlaced)}
    paid = ((line.at, line.fact) for line in lines if isinstance(line.fact, GpuTimeSpent))
    return [(at, fact.seconds) for at, fact in paid if fact.known and phases.get(fact.order) is phase]


def _range(phase: Phase, pool: str, told: Sequence[Told]) -> tuple[int, float, float] | None:
    found = [one for campaign, lines in told if pool_of(campaign) == pool for one in _durations(lines, phase)]
    last = [seconds for _, seconds in sorted(found)[-MOST_SAMPLES:]]
    if len(last) < LEAST_SAMPLES:
        return None
    low, _, high = quantiles(last, n=4, method="inclusive")
    return len(last), low, high


def wait_of(campaign: Campaign, told: Sequence[Told]) -> Wait | None:
    """`told` are this and other campaigns with their journals. None when no order of this one is open."""
    order = campaign.order
    if order is None:
        return None
    pool = pool_of(campaign)
    mine = next((placed_at(lines, order.id) for other, lines in told if other.id == campaign.id), "")
    ahead = [
        other.order.phase
        for other, lines in told
        if other.order is not None and other.id != campaign.id and pool_of(other) == pool
        if (placed_at(lines, other.order.id), other.id) < (mine, campaign.id)
    ]
    ranges = [_range(phase, pool, told) for phase in (order.phase, *ahead)]
    known = [one for one in ranges if one is not None]
    if len(known) < len(ranges):
        return Wait(phase=order.phase, ahead=len(ahead))
    low, high = sum(one[1] for one in known), sum(one[2] for one in known)
    return Wait(phase=order.phase, ahead=len(ahead), samples=known[0][0], low_s=low, high_s=high)
