"""Words that move a campaign: it begins, it is answered, it is stopped, it is given a commit to try."""

from __future__ import annotations

from typing import assert_never

from bot.campaign.machine import CHECKPOINT_OF, fold
from bot.commands.refusals import already_running
from bot.errors import Overtaken
from bot.forge.events import CommentPosted
from bot.model.campaign import Answer, Campaign, Stage, Zone
from bot.model.commands import Approve, Cancel, Optimize, Reject, Try
from bot.model.facts import Answered, CampaignRequested, Cancelled, Fact, Repinned, TryRequested
from bot.model.ids import CampaignId
from bot.model.people import Refusal
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.zones import carry, ground, refusals
from bot.zones.approving import blocking, is_past
from bot.zones.campaigns import open_campaign, spoke
from bot.zones.conversation import say
from bot.zones.desk import Desk
from bot.zones.doors import Doors
from bot.zones.ground import trusted
from bot.zones.question import question_of
from bot.zones.replies import refused
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Decide, Scribe


def go_on(scribe: Scribe, doors: Doors, code: ReasonCode, detail: str = "") -> ZoneReport:
    """Carry out what is owed here and report where the campaign stands."""
    carry.carry_out(Zone.DECIDE, scribe, lambda effect, at: say(effect, at, doors))
    return about(Zone.DECIDE, scribe.campaign, code=code, ledger_commit=scribe.tip, detail=detail)


def noted(event: CommentPosted, scribe: Scribe, doors: Doors, code: ReasonCode) -> ZoneReport:
    """The comment was taken in. The one that began the campaign keeps its eyes until the end."""
    began = event.comment_id == scribe.campaign.comment_id
    if not began:
        doors.forge.react(event.comment_id, "+1")
    if not began or scribe.campaign.stage is Stage.ENDED:
        doors.forge.unreact(event.comment_id, "eyes")
    return go_on(scribe, doors, code)


def _campaign_id(event: CommentPosted) -> str:
    return f"c{event.comment_id}"


def start(
    command: Optimize,
    event: CommentPosted,
    pull: PullSnapshot,
    desk: Desk,
    doors: Doors,
    restarts: CampaignId | None = None,
) -> ZoneReport:
    """`restarts` is the ended campaign whose place this one takes."""
    scribe = Scribe(doors.ledger, _campaign_id(event), Zone.DECIDE, doors.clock)
    policy = desk.config.policy
    if not trusted(pull, doors):  # a stranger's tests decide nothing
        policy = policy.model_copy(update={"oracle": "target"})
    request = CampaignRequested(
        campaign=_campaign_id(event),
        command=command,
        requester=event.actor,
        comment_id=event.comment_id,
        requested_at=event.created_at,
        pull=pull.model_copy(update={"base_sha": doors.forge.branch_sha(pull.base_ref)}),
        policy=policy,
        restarts=restarts,
    )
    try:  # two people may ask at one moment: who comes second to the ledger finds the other's campaign there
        first = scribe.claim(request, still=lambda: open_campaign(doors, pull.number) is None)
    except Overtaken:
        rival = open_campaign(doors, pull.number)
        if rival is None:  # it ended this very moment; the comment is still there to be delivered again
            raise
        return refused(event, doors, already_running(rival.campaign))
    return go_on(scribe, doors, ReasonCode.ACCEPTED if first else ReasonCode.DUPLICATE_EVENT)


def _answer(command: Approve | Reject, event: CommentPosted, campaign: Campaign) -> Fact:
    approved = isinstance(command, Approve)
    return Answered(
        answer=Answer(
            checkpoint=CHECKPOINT_OF[campaign.stage],
            approved=approved,
            variant=command.variant if isinstance(command, Approve) else None,
            reason=command.reason if isinstance(command, Reject) else "",
            actor=event.actor,
            via="comment",
            source_id=event.comment_id,
            said_at=event.created_at,
        )
    )


def _find_commit(prefix: str, pull: PullSnapshot, doors: Doors) -> str | None:
    """A commit on any branch of the base repository or on the head of the pull request."""
    doors.repo.fetch("+refs/heads/*:refs/heads/*", f"+refs/pull/{pull.number}/head:refs/pull/{pull.number}/head")
    return doors.repo.resolve(prefix)


def move(
    command: Approve | Reject | Cancel | Try, event: CommentPosted, pull: PullSnapshot, scribe: Scribe, doors: Doors
) -> ZoneReport:
    """A word on an open campaign. A head that moved comes first: nobody approves what was not measured."""
    moved = None if isinstance(command, Cancel) else ground.look(scribe.campaign, pull, doors)
    if moved is not None:
        scribe.record(moved)
        if not isinstance(moved, Repinned):
            return go_on(scribe, doors, scribe.campaign.reason or ReasonCode.REF_CHANGED)
        if isinstance(command, Approve | Reject) and scribe.campaign.stage not in CHECKPOINT_OF:
            report = refused(event, doors, refusals.moved_meanwhile(pull.head_sha))
            return go_on(scribe, doors, report.reason_code, report.detail)
    campaign = scribe.campaign
    match command:
        case Approve() | Reject():
            refusal = _no_answer(command, event, campaign, doors)
            if refusal is not None:
                return refused(event, doors, refusal)
            fact = _answer(command, event, campaign)
            code = ReasonCode.APPROVED if isinstance(command, Approve) else ReasonCode.REJECTED_BY_USER
        case Cancel():
            fact, code = Cancelled(actor=event.actor, comment_id=event.comment_id), ReasonCode.CANCELLED_BY_USER
        case Try():
            commit = _find_commit(command.sha, pull, doors)
            if commit is None:
                return refused(event, doors, refusals.no_such_commit(command))
            fact = TryRequested(commit=commit, actor=event.actor, comment_id=event.comment_id)
            code = ReasonCode.ACCEPTED
        case _:
            assert_never(command)
    if scribe.settle(_while_it_fits(fact, campaign)):
        return noted(event, scribe, doors, code)
    if any(spoke(line.fact, event.comment_id) for line in scribe.lines):  # delivered twice at one moment
        return noted(event, scribe, doors, ReasonCode.DUPLICATE_EVENT)
    return refused(event, doors, refusals.too_late(scribe.campaign))


def _while_it_fits(fact: Fact, asked: Campaign) -> Decide:
    """The fact, as long as the campaign takes it; an answer, as long as the question is still the one it was."""

    def decide(now: Campaign) -> tuple[Fact, ...]:
        other_question = (now.stage, len(now.orders)) != (asked.stage, len(asked.orders))
        if isinstance(fact, Answered) and other_question:
            return ()
        fits = len(fold(now, [fact]).ignored) == len(now.ignored)
        return (fact,) if fits else ()

    return decide


def _no_answer(command: Approve | Reject, event: CommentPosted, campaign: Campaign, doors: Doors) -> Refusal | None:
    """Why this comment cannot answer the open question, though whoever wrote it may."""
    assert campaign.pull is not None
    question = question_of(campaign, CHECKPOINT_OF[campaign.stage], doors.forge)
    if question is None or event.created_at < question.created_at:
        return refusals.not_asked(command, question)
    if isinstance(command, Reject) or campaign.stage is not Stage.AWAIT_FINAL:
        return None
    if is_past(question.created_at, campaign.policy.checkpoint_days, event.created_at):
        return refusals.expired(campaign.policy.checkpoint_days)
    standing = blocking(doors.forge.reviews(campaign.pull.number), question, campaign, doors.forge)
    return refusals.changes_requested(standing.actor.login) if standing is not None else None
