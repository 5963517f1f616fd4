"""What GPU time was used, by whom and when: folded from facts, for the budgets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from bot.model.campaign import Campaign, Origin
from bot.model.facts import (
    Fact,
    FilePassed,
    Finalized,
    GpuTimeSpent,
    JournalLine,
    MachineChanged,
    NumbersRaced,
    OrderPlaced,
    OrderTaken,
    Profiled,
    VariantMeasured,
)
from bot.model.finalization import CommandRun, Finalization
from bot.model.ids import OrderId

Told = tuple[Campaign, tuple[JournalLine, ...]]
"""A campaign and the journal it was folded from."""


def seconds_of_person(told: Iterable[Told], person: int, day: str) -> float:
    """GPU seconds of one person's campaigns on a day (UTC, ISO). What runs now counts as if it took all it may."""
    used = 0.0
    for campaign, lines in told:
        requester = campaign.requester
        if requester is None or requester.id != person or campaign.origin is Origin.SWEEP:
            continue
        spent = (line for line in lines if isinstance(line.fact, GpuTimeSpent) and line.at.startswith(day))
        used += sum(line.fact.seconds for line in spent if isinstance(line.fact, GpuTimeSpent))
        if campaign.order is not None:
            used += max(0.0, 60.0 * campaign.policy.max_gpu_minutes - campaign.gpu_seconds)
    return used


def _between(start: str, end: str) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (ValueError, TypeError):  # no time, or one with a zone and one without
        return 0.0


def _runs(done: Finalization) -> tuple[CommandRun, ...]:
    """Every command of the target that was run for a winner."""
    scripts = (one.run for one in done.scripts)
    return (*done.tests, *done.style, *scripts, *([done.untouched] if done.untouched is not None else []))


def _told(fact: Fact, known: Collection[CommandRun] = ()) -> float:
    """What a fact says its own work took. `known`: tests that were told of one by one, here or by an earlier job."""
    match fact:
        case Profiled():
            return fact.profile.baseline.seconds
        case MachineChanged():
            return fact.baseline.seconds
        case VariantMeasured():
            return fact.measurement.seconds
        case NumbersRaced():
            return fact.race.seconds
        case FilePassed():
            return fact.file.run.seconds
        case Finalized():
            return sum(run.seconds for run in _runs(fact.finalization) if run not in known)
        case _:
            return 0.0


def placed_at(lines: Iterable[JournalLine], order: OrderId) -> str:
    """When an order was written down; empty when it never was."""
    found = (line.at for line in lines if isinstance(line.fact, OrderPlaced) and line.fact.order.id == order)
    return next(found, "")


def time_spent(
    order: OrderId, journal: Iterable[JournalLine], segment: tuple[JournalLine, ...] | None, now: str
) -> GpuTimeSpent:
    """What an order is charged: the job's own span, never more than passed since it was ordered.

    `segment` is None for a job that left nothing to be believed; it is charged all of that time.
    """
    lines = tuple(journal)
    passed = _between(placed_at(lines, order), now)
    if segment is None:
        return GpuTimeSpent(order=order, seconds=round(passed, 1), known=False)
    began = next((line.fact.at for line in segment if isinstance(line.fact, OrderTaken)), "")
    span = _between(began, segment[-1].at) if began and segment else 0.0
    known = [line.fact.file.run for line in (*lines, *segment) if isinstance(line.fact, FilePassed)]
    said = max(span, sum(_told(line.fact, known) for line in segment))
    return GpuTimeSpent(order=order, seconds=round(min(said, passed), 1))
