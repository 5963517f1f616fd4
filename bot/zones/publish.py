"""The publish zone: takes in what a GPU job left, writes the records, draws the plots, tells people."""

from __future__ import annotations

from pathlib import Path

from bot.campaign.effects import Effect, PushLineage
from bot.campaign.lineage import accepted, sources_of
from bot.campaign.spending import time_spent
from bot.errors import Conflict, CorruptRecord, GitError, OperatorError
from bot.model.campaign import Campaign, Origin, Stage, Zone
from bot.model.facts import Fact, JournalLine, OrderFailed, SegmentJoined
from bot.model.ids import OrderId
from bot.model.reasons import ReasonCode
from bot.render import commit as commits
from bot.settings import Settings
from bot.zones import carry, ground, intake
from bot.zones.conversation import say
from bot.zones.doors import Doors, bring, open_doors
from bot.zones.drawing import draw_all
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Scribe
from bot.zones.sweep import look_back

MAX_DETAIL = 2000


def _failed(order: OrderId, reason: ReasonCode, detail: str) -> tuple[Fact, ...]:
    return (OrderFailed(order=order, reason=reason, detail=detail[:MAX_DETAIL]),)


def _charge(order: OrderId, segment: tuple[JournalLine, ...] | None, scribe: Scribe, doors: Doors) -> tuple[Fact, ...]:
    """An order is paid for once, also one that nobody waits for any more."""
    known = order in scribe.campaign.orders and order not in dict(scribe.campaign.spent)
    return (time_spent(order, scribe.lines, segment, doors.clock()),) if known else ()


def _late(facts: tuple[Fact, ...], campaign: Campaign) -> OrderId | None:
    """The order of a segment that nobody waits for: it was cancelled, or a move of the head made it void."""
    orders = {getattr(fact, "order", None) for fact in facts}
    order = orders.pop() if len(orders) == 1 else None
    is_open = campaign.order is not None and campaign.order.id == order
    return order if order in campaign.orders and not is_open else None


def _joined(folder: Path, scribe: Scribe, doors: Doors) -> tuple[Fact, ...]:
    """What the journal takes from a segment now. What cannot be believed ends the campaign with the reason."""
    campaign, order = scribe.campaign, scribe.campaign.order
    try:
        facts, digest = intake.read_segment(folder)
        if digest in dict(campaign.joined).values():  # its job died after joining it
            return ()
        late = _late(facts, campaign)
        if late is not None:
            return _charge(late, intake.read_lines(folder), scribe, doors)
        if order is None:
            return ()
        after = intake.accept(facts, campaign, doors.repo)
    except CorruptRecord as error:
        if order is None:
            return ()
        return (*_charge(order.id, None, scribe, doors), *_failed(order.id, error.reason, str(error)))
    cost = _charge(order.id, intake.read_lines(folder), scribe, doors)
    if after.order is not None:
        why = "the GPU job ended before its work was done"
        return (*cost, *_failed(order.id, ReasonCode.ARTIFACT_MISSING, why))
    return (*cost, *facts, SegmentJoined(order=order.id, digest=digest))


def _join(folder: Path, scribe: Scribe, doors: Doors) -> None:
    """Join a segment to the journal once, to the campaign as it stands when it is written down."""
    scribe.settle(lambda _: _joined(folder, scribe, doors), draw=draw_all)


def _look(scribe: Scribe, doors: Doors) -> None:
    """Results of a head that moved are shown, and nothing is pushed."""
    campaign = scribe.campaign
    if campaign.pull is None or campaign.stage in (Stage.NEW, Stage.CLOSING, Stage.ENDED, Stage.PUSHING):
        return
    if campaign.origin is Origin.SWEEP:  # it has no pull request yet; push looks at the default branch
        return
    moved = ground.look(campaign, doors.forge.pull(campaign.pull.number), doors)
    if moved is not None:
        scribe.record(moved)


def _push_lineage(campaign: Campaign, doors: Doors) -> str:
    """One commit per accepted round on optimize/<campaign>, so that reviewers can diff any of them."""
    assert campaign.pull is not None
    ref = f"refs/heads/optimize/{campaign.id}"
    tip = campaign.pull.head_sha
    for number in accepted(campaign):
        files = {file.path: file.text.encode() for file in sources_of(campaign, number)}
        tip = doors.repo.commit_files(
            tip, files, commits.round_message(campaign, number), author=commits.AUTHOR, date=campaign.requested_at
        )
    there = doors.repo.remote_sha(ref)
    try:
        if there != tip:
            doors.repo.push(ref, tip, expect=there or "")
    except Conflict:
        return "another job moved it"
    except GitError as error:
        if error.reason is not ReasonCode.PUSH_FORBIDDEN:
            raise
        # It is a convenience: the ledger holds every variant. A rule on optimize/* must not cost anybody the result.
        return "the rules of the branch do not let us push it"
    return tip


def _do(effect: Effect, scribe: Scribe, doors: Doors) -> str:
    if isinstance(effect, PushLineage):
        return _push_lineage(scribe.campaign, doors)
    return say(effect, scribe, doors)


def publish(settings: Settings, campaign: str, segment: Path | None) -> ZoneReport:
    """Go on with one campaign: with the segment of its GPU job, or without one after a job that died."""
    doors = open_doors(settings)
    scribe = Scribe(doors.ledger, campaign, Zone.PUBLISH, doors.clock)
    if scribe.campaign.stage is Stage.NEW:
        raise OperatorError(
            f"there is no campaign {campaign} on the ledger",
            hint="name a campaign that stands under campaigns/ on the branch kernelwright/ledger",
        )
    if scribe.campaign.pull is not None:
        for commit in filter(None, (scribe.campaign.pull.head_sha, scribe.campaign.pull.base_sha)):
            bring(doors.repo, commit)
    if segment is not None:
        _join(segment, scribe, doors)
    look_back(scribe, doors)
    _look(scribe, doors)
    carry.carry_out(Zone.PUBLISH, scribe, lambda effect, at: _do(effect, at, doors))
    code = scribe.campaign.reason or ReasonCode.ACCEPTED
    return about(Zone.PUBLISH, scribe.campaign, code=code, ledger_commit=scribe.tip)
