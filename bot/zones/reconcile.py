"""Goes through the open campaigns: closes what cannot go on, hears reviews whose event was lost, and names what a
dead job left, so that the workflow starts it again. It has the rights of decide and runs no code of anybody.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from bot.campaign.effects import AskHuman
from bot.campaign.machine import CHECKPOINT_OF
from bot.campaign.spending import placed_at
from bot.errors import BotError
from bot.forge.jobs import Jobs, JobView, open_jobs
from bot.forge.threads import mend
from bot.model.campaign import Campaign, Origin, Stage, Zone
from bot.model.facts import Answered, EffectDone, Fact, OrderFailed, OrderPlaced, OrderWaits, Repinned, Stopped
from bot.model.reasons import ReasonCode
from bot.model.word import Word
from bot.settings import Settings
from bot.zones import ground
from bot.zones.approving import moment
from bot.zones.doors import Doors, open_doors
from bot.zones.moves import go_on
from bot.zones.report import ZoneReport, about, what_next
from bot.zones.reviews import weigh
from bot.zones.scribe import Scribe

LATE_MINUTES = 20
"""A runner that did not take an order up by then is spoken of."""
DEAD_MINUTES = 10
"""A campaign that has work and of which nothing was heard for so long has no job, unless Actions shows one."""
BLIND_MINUTES = 6 * 60 + 30
"""The same where Actions cannot be looked at: longer than any job of ours may take."""
TIDY_MINUTES = 24 * 60
"""A conversation in which nothing happened for so long is not looked at for doubles any more."""
QUEUE_MINUTES = 24 * 60
"""GitHub itself drops a job that no runner took up for a day."""


WORK = ("measure", "publish", "push")


class ReconcileReport(Word):
    zone: Zone = Zone.DECIDE
    decision: str = "acted"
    reason_code: ReasonCode = ReasonCode.ACCEPTED
    campaigns: tuple[ZoneReport, ...] = ()
    """Each open campaign that was looked at."""
    resume: tuple[str, ...] = ()
    """Campaigns whose next job is to be started."""

    @property
    def matrix(self) -> str:
        return json.dumps({"include": [{"campaign": campaign} for campaign in self.resume]}, separators=(",", ":"))


def write_reconcile_outputs(report: ReconcileReport, path: Path | None) -> None:
    if path is None:
        return
    result = json.dumps(report.model_dump(mode="json"), separators=(",", ":"))
    lines = [
        f"decision={report.decision}",
        f"reason_code={report.reason_code}",
        f"count={len(report.resume)}",
        f"matrix={report.matrix}",
        f"result={result}",
    ]
    with path.open("a", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def _minutes(since: str, now: str) -> float:
    return (moment(now) - moment(since)).total_seconds() / 60


def _asked_at(scribe: Scribe) -> str:
    """When the open question was asked; empty while it was not."""
    campaign = scribe.campaign
    key = AskHuman(checkpoint=CHECKPOINT_OF[campaign.stage], turn=len(campaign.orders)).key
    done = (line.at for line in scribe.lines if isinstance(line.fact, EffectDone) and line.fact.key == key)
    return next(done, "")


def _expired(scribe: Scribe, now: str) -> Fact | None:
    campaign = scribe.campaign
    asked = _asked_at(scribe) if campaign.stage in CHECKPOINT_OF else ""
    days = campaign.policy.checkpoint_days
    if not asked or _minutes(asked, now) <= days * 24 * 60:
        return None
    detail = f"the question stood open for more than {days} days (`checkpoint_days`)"
    return Stopped(reason=ReasonCode.APPROVAL_EXPIRED, detail=detail, again=ground.again(campaign))


class Round:
    """One pass over the ledger."""

    def __init__(self, doors: Doors, jobs: tuple[JobView, ...] | None) -> None:
        self._doors, self._jobs, self._now = doors, jobs, doors.clock()

    def _mine(self, campaign: Campaign) -> tuple[JobView, ...]:
        return tuple(job for job in self._jobs or () if job.campaign == campaign.id)

    def _late(self, scribe: Scribe) -> Fact | None:
        """The order, when its job is still in the queue and people were not told yet."""
        order = scribe.campaign.order
        if order is None or scribe.campaign.late == order.id:
            return None
        waiting = [job for job in self._mine(scribe.campaign) if job.measures and job.is_queued]
        minutes = max((_minutes(job.created_at, self._now) for job in waiting), default=0.0)
        return OrderWaits(order=order.id, minutes=int(minutes)) if minutes >= LATE_MINUTES else None

    def _lost(self, scribe: Scribe) -> Fact | None:
        """An order that nobody took up for a day ends the campaign; it may be asked again."""
        order = scribe.campaign.order
        if order is None or self._jobs is None or any(not job.is_queued for job in self._mine(scribe.campaign)):
            return None
        placed = placed_at(scribe.lines, order.id)
        if not placed or _minutes(placed, self._now) < QUEUE_MINUTES:
            return None
        detail = "no GPU runner took it up for a day; see that one is online and that its labels are those asked for"
        return OrderFailed(order=order.id, reason=ReasonCode.QUEUE_TIMEOUT, detail=detail)

    def _is_dead(self, scribe: Scribe) -> bool:
        """Whether there is work and no job that could be at it."""
        work = what_next(scribe.campaign)
        if work not in WORK or self._mine(scribe.campaign):
            return False
        quiet = BLIND_MINUTES if self._jobs is None and work == "measure" else DEAD_MINUTES
        return _minutes(scribe.lines[-1].at, self._now) >= quiet

    def _look(self, scribe: Scribe) -> ReasonCode | None:
        """What happened to its pull request meanwhile, and what people said on it."""
        campaign = scribe.campaign
        assert campaign.pull is not None
        if campaign.origin is Origin.SWEEP or campaign.stage in (Stage.PUSHING, Stage.CLOSING):
            return None
        pull = self._doors.forge.pull(campaign.pull.number)
        moved = ground.look(campaign, pull, self._doors)
        if moved is not None:
            scribe.record(moved)
            return ReasonCode.REPINNED if isinstance(moved, Repinned) else scribe.campaign.reason
        return weigh(scribe, pull, self._doors)

    def visit(self, scribe: Scribe) -> tuple[ZoneReport, bool]:
        """Bring one campaign up to date; what stands, and whether its next job is to be started."""
        had, dead = len(scribe.lines), self._is_dead(scribe)
        code = self._look(scribe)
        if code is None:
            found = _expired(scribe, self._now) or self._lost(scribe) or self._late(scribe)
            if found is not None:
                scribe.record(found)
                code = scribe.campaign.reason or ReasonCode.NO_RUNNER
        if scribe.campaign.origin is Origin.SWEEP:
            report = about(Zone.DECIDE, scribe.campaign, code=code or ReasonCode.ACCEPTED, ledger_commit=scribe.tip)
            return report, dead and report.next in WORK
        report = go_on(scribe, self._doors, code or ReasonCode.ACCEPTED)
        # What was heard or ordered in this very pass has no job either.
        new = [line.fact for line in scribe.lines[had:]]
        fresh = any(isinstance(fact, OrderPlaced | Answered) for fact in new) and not self._mine(scribe.campaign)
        return report, (dead or fresh) and report.next in WORK


def _tidy(scribes: list[Scribe], doors: Doors) -> None:
    """Two jobs may say the same at one moment, and the one that would have seen it die. Nothing depends on it."""
    now = doors.clock()
    fresh = [scribe for scribe in scribes if scribe.lines and _minutes(scribe.lines[-1].at, now) <= TIDY_MINUTES]
    people = [scribe.campaign for scribe in fresh if scribe.campaign.origin is not Origin.SWEEP]
    for number in sorted({campaign.pull.number for campaign in people if campaign.pull is not None}):
        with contextlib.suppress(BotError):
            mend(doors.forge, number)


def _failed(scribe: Scribe, error: BotError) -> ZoneReport:
    report = about(Zone.DECIDE, scribe.campaign, code=error.reason, ledger_commit=scribe.tip, detail=str(error))
    return report.model_copy(update={"decision": "failed"})


def reconcile(settings: Settings, doors: Doors | None = None, jobs: Jobs | None = None) -> ReconcileReport:
    """One pass. Trouble with one campaign keeps no other from being looked at."""
    doors = doors or open_doors(settings)
    names = doors.ledger.campaigns()
    scribes = [Scribe(doors.ledger, name, Zone.DECIDE, doors.clock) for name in names]
    _tidy(scribes, doors)
    waiting = [scribe for scribe in scribes if scribe.campaign.stage not in (Stage.NEW, Stage.ENDED)]
    if not waiting:
        return ReconcileReport(decision="ignored", reason_code=ReasonCode.NOTHING_WAITING)
    door = jobs or open_jobs(settings.api_url, settings.repository, settings.token)
    this = Round(doors, door.unfinished())
    reports, resume = [], []
    for scribe in waiting:
        try:
            report, dead = this.visit(scribe)
        except BotError as error:
            report, dead = _failed(scribe, error), False
        reports.append(report)
        if dead:
            resume.append(scribe.campaign.id)
    return ReconcileReport(campaigns=tuple(reports), resume=tuple(resume))
