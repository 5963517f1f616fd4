"""The publish zone: takes in what a GPU job left, writes the records, draws the plots, tells people."""

from __future__ import annotations

from pathlib import Path

from bot.campaign.effects import Effect, PushLineage
from bot.campaign.lineage import accepted, sources_of
from bot.errors import Conflict, CorruptRecord, OperatorError
from bot.model.campaign import Campaign, Stage, Zone
from bot.model.facts import HeadMoved, OrderFailed, SegmentJoined
from bot.model.reasons import ReasonCode
from bot.render import commit as commits
from bot.settings import Settings
from bot.zones import carry, intake
from bot.zones.conversation import say
from bot.zones.doors import Doors, bring, open_doors
from bot.zones.drawing import draw_all
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Scribe

MAX_DETAIL = 2000


def _fail(scribe: Scribe, reason: ReasonCode, detail: str) -> None:
    assert scribe.campaign.order is not None
    detail = detail[:MAX_DETAIL]
    scribe.record(OrderFailed(order=scribe.campaign.order.id, reason=reason, detail=detail))


def _join(folder: Path, scribe: Scribe, doors: Doors) -> None:
    """Join a segment to the journal once. What cannot be believed ends the campaign with the reason."""
    campaign = scribe.campaign
    if campaign.order is None:
        return
    try:
        facts, digest = intake.read_segment(folder)
        if digest in dict(campaign.joined).values():  # of an earlier order, whose job died after joining it
            return
        after = intake.accept(facts, campaign, doors.repo)
    except CorruptRecord as error:
        _fail(scribe, error.reason, str(error))
        return
    if after.order is not None:
        _fail(scribe, ReasonCode.ARTIFACT_MISSING, "the GPU job ended before its work was done")
        return
    scribe.record(*facts, SegmentJoined(order=campaign.order.id, digest=digest), draw=draw_all)


def _look_at_head(scribe: Scribe, doors: Doors) -> None:
    """Results of a head that moved are shown, and nothing is pushed."""
    campaign = scribe.campaign
    if campaign.pull is None or campaign.stage in (Stage.NEW, Stage.CLOSING, Stage.ENDED, Stage.PUSHING):
        return
    now = doors.forge.pull(campaign.pull.number).head_sha
    if now != campaign.pull.head_sha:
        scribe.record(HeadMoved(measured=campaign.pull.head_sha, now=now))


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
    if there != tip:
        doors.repo.push(ref, tip, expect=there or "")
    return tip


def _do(effect: Effect, scribe: Scribe, doors: Doors) -> str:
    if isinstance(effect, PushLineage):
        try:
            return _push_lineage(scribe.campaign, doors)
        except Conflict:
            return "another job moved it"
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
    _look_at_head(scribe, doors)
    carry.carry_out(Zone.PUBLISH, scribe, lambda effect, at: _do(effect, at, doors))
    code = scribe.campaign.reason or ReasonCode.ACCEPTED
    return about(Zone.PUBLISH, scribe.campaign, code=code, ledger_commit=scribe.tip)
