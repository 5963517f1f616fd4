"""The sweep's part of the decide zone: tonight's order, and one campaign a cell of it. It runs no code of anybody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from bot.campaign import sweeping, watching
from bot.campaign.effects import Effect, OfferPull
from bot.campaign.machine import fold
from bot.errors import UserError
from bot.forge.offers import Offers, open_offers
from bot.forge.rights import JOBS_OWN
from bot.git.local import current_branch
from bot.git.repo import Repo
from bot.model.campaign import Campaign, Origin, Stage, Zone
from bot.model.commands import GpuChoice, Mode, Optimize
from bot.model.facts import CampaignRequested, Cancelled, TryRequested
from bot.model.ids import CampaignId
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.model.sweep import Cell, SweepPolicy, cell_of, own_branch
from bot.model.word import Word
from bot.settings import Settings
from bot.targets.base import hindrance
from bot.zones import carry
from bot.zones.clock import utc_now
from bot.zones.desk import Desk, open_desk
from bot.zones.doors import Doors, open_doors
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Scribe

OFF = "kernelwright.toml on the default branch does not say [sweep] enabled = true"


class SweepReport(Word):
    """What `plan` and `dashboard` say when they exit."""

    decision: Literal["acted", "ignored"]
    reason_code: ReasonCode
    detail: str = ""
    count: int = 0
    matrix: str = '{"include":[]}'
    lines: tuple[str, ...] = ()
    issue: int | None = None
    opened: tuple[int, ...] = ()
    """Issues on regressions that were opened now."""


def write_sweep_outputs(report: SweepReport, path: Path | None) -> None:
    """Step outputs for the workflow; no value holds a newline."""
    if path is None:
        return
    values = {
        "decision": report.decision,
        "reason_code": report.reason_code,
        "count": report.count,
        "matrix": report.matrix,
        "issue": report.issue or "",
    }
    with path.open("a", encoding="utf-8") as out:
        out.write("".join(f"{name}={value}\n" for name, value in values.items()))


# What there is to know


def all_campaigns(doors: Doors) -> tuple[Campaign, ...]:
    return tuple(
        fold(Campaign(id=name), (line.fact for line in doors.ledger.lines(name))) for name in doors.ledger.campaigns()
    )


def open_own(settings: Settings, token: str = "") -> Offers:
    """The door to pull requests and issues of our own, with the token of this zone or another one."""
    return open_offers(
        settings.api_url,
        settings.repository,
        token or settings.token,
        own_login=settings.bot_login,
        own_id=settings.bot_id,
    )


def default_branch(repo: Repo) -> str:
    found = current_branch(repo.path)
    if found is None:
        hint = "clone the repository with its HEAD"
        raise UserError("the clone has no default branch", hint=hint, reason=ReasonCode.NOT_FOUND)
    return found


def head_of(repo: Repo) -> str:
    """Where the default branch stands."""
    found = repo.resolve(f"refs/heads/{default_branch(repo)}")
    if found is None:
        hint = "commit the kernels first"
        raise UserError("the default branch has no commit yet", hint=hint, reason=ReasonCode.NOT_FOUND)
    return found


def own_pulls(offers: Offers, kernel: str, swept: tuple[Campaign, ...]) -> tuple[watching.OwnPull, ...]:
    me, opened = offers.me().id, {campaign.ref_of(OfferPull.key) for campaign in swept}
    return tuple(
        watching.OwnPull(
            number=pull.number,
            is_open=pull.is_open,
            is_merged=pull.is_merged,
            head_sha=pull.head_sha,
            is_ours=pull.author.id == me or str(pull.number) in opened,
            starts_checks=pull.author.id != JOBS_OWN,
        )
        for pull in offers.pulls_from(own_branch(kernel))
    )


def pushed_by(swept: tuple[Campaign, ...], cell: Cell) -> tuple[frozenset[str], frozenset[str]]:
    """Commits that sweeps pushed to the kernel's branch: from this pool, and from the others."""
    own: list[Campaign] = []
    other: list[Campaign] = []
    for campaign in swept:
        found = cell_of(campaign.id)
        if found is not None and found.kernel == cell.kernel:
            (own if found == cell else other).append(campaign)
    return watching.ours(tuple(own)), watching.ours(tuple(other))


def _waits(cell: Cell, swept: tuple[Campaign, ...], offers: Offers, repo: Repo) -> str:
    """Its branch is somebody else's for now: to measure a winner that may not be pushed is a waste of the GPU."""
    own, other = pushed_by(swept, cell)
    if not own and not other:
        return ""
    pulls = own_pulls(offers, cell.kernel, swept)
    tip = repo.remote_sha(f"refs/heads/{own_branch(cell.kernel)}")
    return watching.why_left_alone(tip, own, other, pulls, same_as_tip=False)


def _changed(cell: Cell, mine: tuple[Campaign, ...], desk: Desk, repo: Repo, head: str) -> bool:
    last = sweeping.last_profiled(mine)
    if last is None or last.pull is None:
        return False
    if repo.resolve(last.pull.head_sha) is None:  # history was rewritten, so nobody can tell
        return True
    return bool(set(repo.changed(last.pull.head_sha, head)) & set(desk.target.files(cell.kernel)))


def look_around(desk: Desk, doors: Doors, offers: Offers, campaigns: tuple[Campaign, ...]) -> dict[Cell, sweeping.Seen]:
    swept, head = sweeping.sweeps(campaigns), head_of(doors.repo)
    cells = [Cell(kernel=kernel, pool=pool) for pool in desk.config.sweep.pools for kernel in desk.target.kernels()]
    return {
        cell: sweeping.Seen(
            changed=_changed(cell, sweeping.of_cell(swept, cell), desk, doors.repo, head),
            waits=_waits(cell, swept, offers, doors.repo),
        )
        for cell in cells
    }


# Tonight's order


def plan(settings: Settings, clock: Callable[[], str] = utc_now) -> SweepReport:
    desk = open_desk(settings)
    policy = desk.config.sweep
    if not policy.enabled:
        return SweepReport(decision="ignored", reason_code=ReasonCode.DISABLED, detail=OFF)
    doors = open_doors(settings)
    campaigns = all_campaigns(doors)
    seen = look_around(desk, doors, open_own(settings), campaigns)
    found = sweeping.plan(campaigns, desk.target.kernels(), seen, policy, clock())
    return SweepReport(
        decision="acted" if found.places else "ignored",
        reason_code=ReasonCode.ACCEPTED if found.places else ReasonCode.NOTHING_WAITING,
        count=len(found.places),
        matrix=json.dumps(sweeping.matrix(found, policy.pools), separators=(",", ":")),
        lines=sweeping.explained(found),
    )


# One campaign


def _silent(effect: Effect, scribe: Scribe) -> str:
    raise AssertionError(f"a sweep does not say {effect} here")


def _go_on(scribe: Scribe, code: ReasonCode) -> ZoneReport:
    carry.carry_out(Zone.DECIDE, scribe, _silent)
    return about(Zone.DECIDE, scribe.campaign, code=code, ledger_commit=scribe.tip)


def _cell(campaign: CampaignId, desk: Desk) -> Cell:
    found = cell_of(campaign)
    if found is None:
        raise UserError(
            f"{campaign} is no name of a sweep's campaign",
            hint="take it from the matrix that `kernelwright sweep plan` wrote",
            reason=ReasonCode.BAD_VALUE,
        )
    if why := hindrance(desk.target, found.kernel):
        raise why
    return found


def _ignored(campaign: Campaign, code: ReasonCode, why: str, tip: str) -> ZoneReport:
    """Nothing is done now. `next` is none, so that the jobs after this one are skipped."""
    report = about(Zone.DECIDE, campaign, code=code, ledger_commit=tip, decision="ignored", detail=why)
    return report.model_copy(update={"next": "none", "order": None})


def _why_not_now(
    campaigns: tuple[Campaign, ...], scribe: Scribe, cell: Cell, policy: SweepPolicy, now: str
) -> tuple[ReasonCode, str] | None:
    """Whether people or the night's budget come first."""
    queue = sweeping.queue_before(campaigns, cell.pool)
    if queue:
        return ReasonCode.ALREADY_RUNNING, f"people wait for {cell.pool}: {', '.join(queue)}; a sweep goes after them"
    if scribe.lines:
        return None
    somebody = sweeping.busy(campaigns, cell.kernel)
    if somebody:
        return ReasonCode.ALREADY_RUNNING, somebody
    spent = sweeping.spent_today(sweeping.sweeps(campaigns), cell.pool, now)
    if spent >= policy.max_gpu_minutes:
        limit = f"[sweep] max_gpu_minutes = {policy.max_gpu_minutes}"
        return ReasonCode.BUDGET_EXCEEDED, f"{spent:.0f} GPU minutes of {limit} are used; it resets at 00:00 UTC"
    return None


def _take_its_place(older: tuple[Campaign, ...], scribe: Scribe, doors: Doors) -> None:
    """An earlier night's campaign that never ended gives way: one cell has one campaign."""
    for campaign in older:
        if campaign.stage is not Stage.ENDED and campaign.id != scribe.campaign.id:
            left = Scribe(doors.ledger, campaign.id, Zone.DECIDE, doors.clock)
            why = f"{scribe.campaign.id} took its place"
            left.record(Cancelled(actor=doors.forge.me(), comment_id=0, detail=why))


def _request(campaign: CampaignId, cell: Cell, desk: Desk, doors: Doors, now: str) -> CampaignRequested:
    branch, head, me = default_branch(doors.repo), head_of(doors.repo), doors.forge.me()
    return CampaignRequested(
        campaign=campaign,
        origin=Origin.SWEEP,
        command=Optimize(
            kernel=cell.kernel,
            mode=Mode.AUTONOMOUS,
            gpu=GpuChoice(cell.pool),
            max_variants=desk.config.sweep.max_variants,
        ),
        requester=me,
        comment_id=0,
        requested_at=now,
        pull=PullSnapshot(
            number=0,
            is_open=True,
            is_draft=False,
            author=me,
            head_sha=head,
            head_ref=own_branch(cell.kernel),
            head_repo=doors.settings.repository,
            base_ref=branch,
            base_repo=doors.settings.repository,
            base_sha=head,
        ),
        policy=desk.config.policy,
    )


def start(settings: Settings, campaign: CampaignId, clock: Callable[[], str] = utc_now) -> ZoneReport:
    """Begin this cell's campaign, or go on with it. People who wait go first, each time this is asked."""
    desk = open_desk(settings)
    cell = _cell(campaign, desk)
    policy = desk.config.sweep
    if not policy.enabled or cell.pool not in policy.pools:
        why = OFF if not policy.enabled else f"[sweep.pools] has no {cell.pool}"
        return ZoneReport(
            zone=Zone.DECIDE, decision="ignored", reason_code=ReasonCode.DISABLED, detail=why, campaign=campaign
        )
    doors = open_doors(settings)
    campaigns, now = all_campaigns(doors), clock()
    scribe = Scribe(doors.ledger, campaign, Zone.DECIDE, doors.clock)
    hindrance = _why_not_now(campaigns, scribe, cell, policy, now)
    if hindrance is not None:
        return _ignored(scribe.campaign, *hindrance, tip=scribe.tip)
    if scribe.lines:
        return _go_on(scribe, ReasonCode.DUPLICATE_EVENT)
    _take_its_place(sweeping.of_cell(sweeping.sweeps(campaigns), cell), scribe, doors)
    first = scribe.claim(_request(campaign, cell, desk, doors, now))
    return _go_on(scribe, ReasonCode.ACCEPTED if first else ReasonCode.DUPLICATE_EVENT)


# What publish asks of a sweep once its profile is joined


def look_back(scribe: Scribe, doors: Doors) -> None:
    """Have earlier sources tried before the search begins: one that was faster, and a winner that still waits."""
    campaign = scribe.campaign
    cell = cell_of(campaign.id)
    if campaign.origin is not Origin.SWEEP or cell is None or campaign.stage is not Stage.OPTIMIZING or campaign.rounds:
        return
    swept = sweeping.sweeps(all_campaigns(doors))
    mine = sweeping.of_cell(swept, cell)
    before = tuple(one for one in mine if one.id != campaign.id and one.requested_at <= campaign.requested_at)
    winner = sweeping.pushed_last(before)
    stands = winner is not None and any(
        pull.is_open and pull.head_sha == winner.pushed
        for pull in own_pulls(open_own(doors.settings), cell.kernel, swept)
    )
    looks = watching.second_looks(campaign, sweeping.last_profiled(before), winner, winner_stands=stands)
    known = {commit for commit, _ in campaign.tries}
    # A commit that git no longer has cannot be tried; the order would fail for it.
    fresh = [commit for commit in looks if commit not in known and doors.repo.resolve(commit) is not None]
    if fresh:
        scribe.record(*(TryRequested(commit=commit, actor=doors.forge.me()) for commit in fresh))
