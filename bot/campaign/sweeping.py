"""The sweep's thinking: which kernel goes first, why, and how many fit into a night. Pure, over folded campaigns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import median

from bot.model.campaign import Campaign, Origin, Outcome, Stage
from bot.model.commands import GpuChoice
from bot.model.ids import CampaignId
from bot.model.measurement import Runner
from bot.model.sweep import Cell, Labels, Pool, SweepPolicy, cell_of, sweep_id
from bot.model.word import Word

AGE_POINTS = 5.0
"""A day. It has no end, so that every kernel has its turn in time."""
CHANGE_POINTS = 50.0
SOFTWARE_POINTS = 50.0
NEVER_POINTS = 1000.0
"""What nobody looked at yet comes before everything that somebody did."""


class Place(Word):
    """A cell in tonight's order, and how it came to stand there."""

    cell: Cell
    campaign: CampaignId
    points: float
    reasons: tuple[str, ...]
    minutes: float
    """What it is taken to need on the GPU."""


class LeftOut(Word):
    cell: Cell
    why: str


class Plan(Word):
    places: tuple[Place, ...] = ()
    left: tuple[LeftOut, ...] = ()


class Seen(Word):
    """What git and GitHub say of one cell; None and empty where there is nothing to say."""

    changed: bool = False
    """A file of the kernel changed on the default branch since its last sweep."""
    waits: str = ""
    """Why it is not its turn: somebody works on it, or its pull request waits."""


# What the ledger knows


def sweeps(campaigns: Iterable[Campaign]) -> tuple[Campaign, ...]:
    """The sweep's own campaigns, oldest first. A name alone makes none: the journal must say so too."""
    own = (c for c in campaigns if c.origin is Origin.SWEEP and cell_of(c.id) is not None)
    return tuple(sorted(own, key=lambda c: (c.requested_at, c.id)))


def of_cell(swept: Iterable[Campaign], cell: Cell) -> tuple[Campaign, ...]:
    return tuple(campaign for campaign in swept if cell_of(campaign.id) == cell)


def last_profiled(swept: Iterable[Campaign]) -> Campaign | None:
    """The youngest of these that found out something."""
    found = [campaign for campaign in swept if campaign.profile is not None]
    return found[-1] if found else None


def minutes(campaign: Campaign) -> float:
    """GPU minutes that were booked for it; before that, those its records account for."""
    if campaign.gpu_seconds:
        return campaign.gpu_seconds / 60
    measured = [campaign.profile.baseline] if campaign.profile else []
    measured += [played.measurement for played in campaign.rounds if played.measurement is not None]
    return (campaign.replaced_seconds + sum(found.seconds for found in measured)) / 60


def software(runner: Runner) -> tuple[str, str]:
    """Whose change makes a winner's numbers old."""
    return runner.torch, runner.triton


def same_machine(one: Runner, other: Runner) -> bool:
    """Whether times of the two may be laid side by side at all, be it only to become suspicious."""
    names = ("evidence", "arch", "gpu_name", "driver", "torch", "triton")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def software_now(swept: Iterable[Campaign], pool: str) -> tuple[str, str] | None:
    """Torch and Triton as the pool's latest campaign found them."""
    there = [c for c in swept if (cell := cell_of(c.id)) is not None and cell.pool == pool]
    latest = last_profiled(there)
    return software(latest.profile.baseline.runner) if latest and latest.profile else None


def pool_of(campaign: Campaign) -> str:
    """The pool that a person's campaign waits for."""
    asked = campaign.command.gpu if campaign.command else GpuChoice.AUTO
    return campaign.policy.default_gpu if asked is GpuChoice.AUTO else asked.value


def queue_before(campaigns: Iterable[Campaign], pool: str) -> tuple[CampaignId, ...]:
    """People's campaigns with an order for this pool. Each of them goes before any sweep."""
    people = (c for c in campaigns if c.origin is Origin.PERSON and c.stage is not Stage.ENDED)
    return tuple(c.id for c in people if c.order is not None and pool_of(c) == pool)


def busy(campaigns: Iterable[Campaign], kernel: str) -> str:
    """A person's campaign on this kernel: a second one would measure against it and push beside it."""
    for campaign in campaigns:
        open_now = campaign.stage not in (Stage.NEW, Stage.CLOSING, Stage.ENDED)
        if campaign.origin is Origin.PERSON and open_now and campaign.command and campaign.command.kernel == kernel:
            where = f" on pull request {campaign.pull.number}" if campaign.pull else ""
            return f"somebody is at it: campaign {campaign.id}{where}"
    return ""


# The order


def days_between(earlier: str, later: str) -> float:
    return max(0.0, (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 86400)


def _room(last: Campaign) -> tuple[float, str]:
    percent = last.profile.diagnosis.roof_percent if last.profile else None
    if percent is None:
        return 50.0, "50 for a distance from the roof that nobody knows"
    room = min(100.0, max(0.0, 100.0 - percent))
    return room, f"{room:.0f} for {percent:.0f} % of the roof"


def _weighed(last: Campaign | None, seen: Seen, now_runs: tuple[str, str] | None, now: str) -> list[tuple[float, str]]:
    if last is None or last.profile is None:
        return [(NEVER_POINTS, "never swept: before all others")]
    days = days_between(last.requested_at, now)
    found = [_room(last), (AGE_POINTS * days, f"{AGE_POINTS * days:.0f} for {days:.1f} days since its last sweep")]
    if seen.changed:
        found.append((CHANGE_POINTS, f"{CHANGE_POINTS:.0f} because it changed since then"))
    then = software(last.profile.baseline.runner)
    if now_runs is not None and now_runs != then:
        named = f"torch {then[0]} and Triton {then[1]}"
        found.append((SOFTWARE_POINTS, f"{SOFTWARE_POINTS:.0f} because it was measured under {named}"))
    return found


def _needs(swept: tuple[Campaign, ...], policy: SweepPolicy) -> float:
    """Median of what it took before; what the repository assumes where nothing is known."""
    known = [minutes(campaign) for campaign in swept if campaign.stage is Stage.ENDED and minutes(campaign) > 0]
    return median(known) if known else float(policy.minutes_per_kernel)


def place(
    cell: Cell, swept: tuple[Campaign, ...], seen: Seen, now_runs: tuple[str, str] | None, policy: SweepPolicy, now: str
) -> Place:
    weighed = _weighed(last_profiled(swept), seen, now_runs, now)
    return Place(
        cell=cell,
        campaign=sweep_id(now, cell),
        points=round(sum(points for points, _ in weighed), 3),
        reasons=tuple(reason for _, reason in weighed),
        minutes=_needs(swept, policy),
    )


def _has_ended(swept: tuple[Campaign, ...], campaign: CampaignId) -> bool:
    return any(c.id == campaign and c.stage is Stage.ENDED for c in swept)


def plan(
    campaigns: tuple[Campaign, ...],
    kernels: Iterable[str],
    seen: Mapping[Cell, Seen],
    policy: SweepPolicy,
    now: str,
) -> Plan:
    """Tonight's cells, the most worth it first, as far as the GPU minutes and the number of campaigns reach."""
    swept = sweeps(campaigns)
    cells = [Cell(kernel=kernel, pool=pool) for pool in policy.pools for kernel in kernels]
    placed: list[Place] = []
    left: list[LeftOut] = []
    for cell in cells:
        mine, known = of_cell(swept, cell), seen.get(cell, Seen())
        found = place(cell, mine, known, software_now(swept, cell.pool), policy, now)
        why = busy(campaigns, cell.kernel) or known.waits
        why = why or ("swept today already" if _has_ended(mine, found.campaign) else "")
        if why:
            left.append(LeftOut(cell=cell, why=why))
        else:
            placed.append(found)
    placed.sort(key=lambda p: (-p.points, p.cell.pool, p.cell.kernel))
    spent = {pool: spent_today(swept, pool, now) for pool in policy.pools}
    return _within(placed, left, spent, policy)


def _within(placed: list[Place], left: list[LeftOut], spent: dict[Pool, float], policy: SweepPolicy) -> Plan:
    """A cell that does not fit any more is passed over, not waited behind: a shorter one after it may fit."""
    kept: list[Place] = []
    for candidate in placed:
        pool = candidate.cell.pool
        if len(kept) == policy.max_campaigns:
            why = f"max_campaigns = {policy.max_campaigns} of this night are placed"
        elif spent[pool] + candidate.minutes > policy.max_gpu_minutes:
            why = (
                f"max_gpu_minutes = {policy.max_gpu_minutes}: {spent[pool]:.0f} min of {pool} are taken,"
                f" and it is taken to need {candidate.minutes:.0f} min"
            )
        else:
            spent[pool] += candidate.minutes
            kept.append(candidate)
            continue
        left.append(LeftOut(cell=candidate.cell, why=why))
    return Plan(places=tuple(kept), left=tuple(left))


def spent_today(swept: Iterable[Campaign], pool: str, now: str) -> float:
    """GPU minutes this pool's sweep has used since midnight UTC."""
    today = [c for c in swept if c.requested_at[:10] == now[:10]]
    return sum(minutes(c) for c in today if (cell := cell_of(c.id)) is not None and cell.pool == pool)


def matrix(found: Plan, pools: Mapping[Pool, Labels]) -> dict[str, list[dict[str, object]]]:
    """For `strategy.matrix` of a workflow."""
    return {
        "include": [
            {
                "campaign": p.campaign,
                "kernel": p.cell.kernel,
                "pool": p.cell.pool,
                "labels": list(pools[p.cell.pool]),
            }
            for p in found.places
        ]
    }


def explained(found: Plan) -> tuple[str, ...]:
    """One line a cell: its place and every point of it, then what was left out and why."""
    lines = [
        f"{index}. {p.cell.kernel} on {p.cell.pool}: {p.points:.0f} points ({'; '.join(p.reasons)});"
        f" about {p.minutes:.0f} GPU minutes"
        for index, p in enumerate(found.places, 1)
    ]
    return (*lines, *(f"-  {one.cell.kernel} on {one.cell.pool}: left out, {one.why}" for one in found.left))


def pushed_last(swept: Iterable[Campaign]) -> Campaign | None:
    """The youngest whose winner reached the branch."""
    found = [campaign for campaign in swept if campaign.outcome is Outcome.PUSHED and campaign.pushed]
    return found[-1] if found else None
