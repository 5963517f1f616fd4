"""The decide zone: an event comes in, a campaign moves or somebody is answered. It never runs code of the PR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from bot.campaign.machine import CHECKPOINT_OF
from bot.commands import grammar, help
from bot.commands.markdown import command_lines
from bot.commands.policy import may
from bot.errors import OperatorError, UserError
from bot.forge.client import ReviewView
from bot.forge.events import CommentPosted, Dispatched, Event, Ignored, ReviewsMayHaveChanged, Scheduled
from bot.forge.threads import say_once
from bot.model.campaign import Answer, Campaign, Checkpoint, Stage, Zone
from bot.model.commands import (
    Approve,
    Cancel,
    Command,
    CommandError,
    Help,
    ListKernels,
    Optimize,
    Reject,
    Status,
    Try,
)
from bot.model.facts import Answered, CampaignRequested, Cancelled, Fact, HeadMoved, TryRequested
from bot.model.people import Refusal, Standing
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.render import comments
from bot.settings import Settings
from bot.targets.base import Target
from bot.targets.contract import RepoConfig, read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from bot.zones import carry, refusals
from bot.zones.conversation import say
from bot.zones.doors import Doors, open_doors
from bot.zones.hearing import hear, ignored
from bot.zones.question import question_of
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Scribe

CONFIG = "kernelwright.toml"
REACTIONS = {"refused": "-1", "mistaken": "confused"}


@dataclass(frozen=True, slots=True)
class Desk:
    """What deciding needs to know of the repository: its policy and its kernels, from the trusted checkout."""

    config: RepoConfig
    target: Target


def open_desk(settings: Settings) -> Desk:
    if not settings.workspace.is_dir():
        raise OperatorError(
            f"GITHUB_WORKSPACE: {settings.workspace} is no folder",
            hint="check the default branch out before this step, and set GITHUB_WORKSPACE to where it is",
            reason=ReasonCode.CONFIG_INVALID,
        )
    tree = DirectoryTree(settings.workspace)
    config = read_config(tree.read(CONFIG))
    return Desk(config=config, target=open_target(tree, config))


def _campaigns(doors: Doors, pull: int) -> Iterator[Scribe]:
    for name in doors.ledger.campaigns():
        scribe = Scribe(doors.ledger, name, Zone.DECIDE, doors.clock)
        if scribe.campaign.pull and scribe.campaign.pull.number == pull:
            yield scribe


def open_campaign(doors: Doors, pull: int) -> Scribe | None:
    """The campaign of this pull request that has not ended."""
    return next((s for s in _campaigns(doors, pull) if s.campaign.stage is not Stage.ENDED), None)


def _spoke(fact: Fact, comment: int) -> bool:
    """Whether this fact was written because of that comment."""
    match fact:
        case CampaignRequested() | Cancelled() | TryRequested():
            return fact.comment_id == comment
        case Answered():
            return fact.answer.via == "comment" and fact.answer.source_id == comment
        case _:
            return False


def _heard(event: CommentPosted, doors: Doors) -> Scribe | None:
    """The campaign that already took this comment in: it was delivered twice, or the job died after that."""
    return next(
        (
            scribe
            for scribe in _campaigns(doors, event.pull_number)
            if any(_spoke(line.fact, event.comment_id) for line in scribe.lines)
        ),
        None,
    )


def _go_on(scribe: Scribe, doors: Doors, code: ReasonCode, detail: str = "") -> ZoneReport:
    """Carry out what is owed here and report where the campaign stands."""
    carry.carry_out(Zone.DECIDE, scribe, lambda effect, at: say(effect, at, doors))
    return about(Zone.DECIDE, scribe.campaign, code=code, ledger_commit=scribe.tip, detail=detail)


def _reply(event: CommentPosted, doors: Doors, body: str, reaction: str = "") -> None:
    """One answer a comment, however often the comment is delivered."""
    say_once(doors.forge, event.pull_number, f"reply/{event.comment_id}", body)
    if reaction:
        doors.forge.react(event.comment_id, reaction)
    doors.forge.unreact(event.comment_id, "eyes")


def _answered(event: CommentPosted, doors: Doors, body: str, code: ReasonCode) -> ZoneReport:
    _reply(event, doors, body, "+1")
    return ZoneReport(zone=Zone.DECIDE, decision="answered", reason_code=code)


def _refused(event: CommentPosted, doors: Doors, refusal: Refusal) -> ZoneReport:
    _reply(event, doors, comments.refusal(refusal, event.actor), REACTIONS["refused"])
    return ZoneReport(zone=Zone.DECIDE, decision="refused", reason_code=refusal.code, detail=refusal.what)


def _mistaken(event: CommentPosted, doors: Doors, error: CommandError) -> ZoneReport:
    _reply(event, doors, comments.command_error(error, event.actor), REACTIONS["mistaken"])
    return ZoneReport(zone=Zone.DECIDE, decision="refused", reason_code=error.code, detail=error.what)


def _campaign_id(event: CommentPosted) -> str:
    return f"c{event.comment_id}"


def _start(command: Optimize, event: CommentPosted, pull: PullSnapshot, desk: Desk, doors: Doors) -> ZoneReport:
    scribe = Scribe(doors.ledger, _campaign_id(event), Zone.DECIDE, doors.clock)
    first = scribe.claim(
        CampaignRequested(
            campaign=_campaign_id(event),
            command=command,
            requester=event.actor,
            comment_id=event.comment_id,
            requested_at=event.created_at,
            pull=pull.model_copy(update={"base_sha": doors.forge.branch_sha(pull.base_ref)}),
            policy=desk.config.policy,
        )
    )
    if not first:
        return _go_on(scribe, doors, ReasonCode.DUPLICATE_EVENT)
    others = (s.campaign for s in _campaigns(doors, pull.number) if s.campaign.id != scribe.campaign.id)
    rival = next((other for other in others if other.stage is not Stage.ENDED), None)
    if rival is not None:  # two people asked at one moment; what stood on the ledger before our claim was first
        why = f"{rival.id} began a moment earlier, and a pull request has one campaign at a time"
        scribe.record(Cancelled(actor=event.actor, comment_id=event.comment_id, detail=why))
        return _go_on(scribe, doors, ReasonCode.ALREADY_RUNNING)
    return _go_on(scribe, doors, ReasonCode.ACCEPTED)


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


def _move(
    command: Approve | Reject | Cancel | Try, event: CommentPosted, pull: PullSnapshot, scribe: Scribe, doors: Doors
) -> ZoneReport:
    """A word on an open campaign. A head that moved ends it first: nobody approves what was not measured."""
    campaign = scribe.campaign
    assert campaign.pull is not None
    if pull.head_sha != campaign.pull.head_sha and not isinstance(command, Cancel):
        scribe.record(HeadMoved(measured=campaign.pull.head_sha, now=pull.head_sha))
        return _go_on(scribe, doors, ReasonCode.REF_CHANGED)
    match command:
        case Approve() | Reject():
            question = question_of(campaign, CHECKPOINT_OF[campaign.stage], doors.forge)
            if question is None or event.created_at < question.created_at:
                return _refused(event, doors, refusals.not_asked(command, question))
            scribe.record(_answer(command, event, campaign))
            code = ReasonCode.APPROVED if isinstance(command, Approve) else ReasonCode.REJECTED_BY_USER
        case Cancel():
            scribe.record(Cancelled(actor=event.actor, comment_id=event.comment_id))
            code = ReasonCode.CANCELLED_BY_USER
        case Try():
            commit = _find_commit(command.sha, pull, doors)
            if commit is None:
                return _refused(event, doors, refusals.no_such_commit(command))
            scribe.record(TryRequested(commit=commit, actor=event.actor, comment_id=event.comment_id))
            code = ReasonCode.ACCEPTED
        case _:
            assert_never(command)
    if len(scribe.campaign.ignored) > len(campaign.ignored):
        if sum(_spoke(line.fact, event.comment_id) for line in scribe.lines) > 1:  # delivered twice at one moment
            return _noted(event, scribe, doors, ReasonCode.DUPLICATE_EVENT)
        return _refused(event, doors, refusals.too_late(scribe.campaign))
    return _noted(event, scribe, doors, code)


def _noted(event: CommentPosted, scribe: Scribe, doors: Doors, code: ReasonCode) -> ZoneReport:
    """The comment was taken in. The one that began the campaign keeps its eyes until the end."""
    began = event.comment_id == scribe.campaign.comment_id
    if not began:
        doors.forge.react(event.comment_id, "+1")
    if not began or scribe.campaign.stage is Stage.ENDED:
        doors.forge.unreact(event.comment_id, "eyes")
    return _go_on(scribe, doors, code)


def _obey(command: Command, event: CommentPosted, desk: Desk, doors: Doors) -> ZoneReport:
    pull = doors.forge.pull(event.pull_number)
    heard = _heard(event, doors)
    if heard is not None:
        return _noted(event, heard, doors, ReasonCode.DUPLICATE_EVENT)
    scribe = open_campaign(doors, event.pull_number)
    standing = Standing(role=doors.forge.role(event.actor.login), wrote_pull=event.actor.id == pull.author.id)
    answer = may(command, event.actor, standing, pull, desk.config.policy, scribe.campaign if scribe else None)
    if isinstance(answer, Refusal):
        return _refused(event, doors, answer)
    match command:
        case Help():
            touched = _touched(desk, doors.forge.changed_files(pull.number))
            body = help.page(desk.target.kernels(), desk.config.policy, touched)
            return _answered(event, doors, comments.help(body), ReasonCode.HELP_COMPLETED)
        case ListKernels():
            return _answered(
                event,
                doors,
                comments.listing(desk.target.kernels(), _touched(desk, doors.forge.changed_files(pull.number))),
                ReasonCode.LIST_COMPLETED,
            )
        case Status():
            body = comments.status_reply(scribe.campaign if scribe else None)
            return _answered(event, doors, body, ReasonCode.STATUS_COMPLETED)
        case Optimize():
            return _start(command, event, pull, desk, doors)
        case Approve() | Reject() | Cancel() | Try():
            assert scribe is not None, "the policy refuses these while nothing is waiting"
            return _move(command, event, pull, scribe, doors)
        case _:
            assert_never(command)


def _touched(desk: Desk, changed: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(k for k in desk.target.kernels() if set(desk.target.files(k)) & set(changed))


def _comment(event: CommentPosted, settings: Settings) -> ZoneReport:
    """Parse first: a comment that holds no command costs neither a clone nor a request."""
    try:
        desk = open_desk(settings)
    except UserError as error:
        return _unready(event, settings, error)
    command = grammar.parse(event.body, desk.target.kernels())
    if command is None:
        return ignored(ReasonCode.NO_COMMAND, "the comment holds no command")
    doors = open_doors(settings)
    doors.forge.react(event.comment_id, "eyes")
    if not event.is_pull:
        return _refused(event, doors, refusals.not_a_pull())
    if isinstance(command, CommandError):
        return _mistaken(event, doors, command)
    return _obey(command, event, desk, doors)


def _unready(event: CommentPosted, settings: Settings, error: UserError) -> ZoneReport:
    """The repository cannot be worked with; whoever asks is told what to mend."""
    if not command_lines(event.body[: grammar.LONGEST_COMMENT]):
        return ignored(ReasonCode.NO_COMMAND, "the comment holds no command")
    return _refused(event, open_doors(settings), refusals.unready(error))


def _counts(review: ReviewView, campaign: Campaign, doors: Doors) -> bool:
    """A review answers a checkpoint when it was given on the pinned commit, after the question, by a writer."""
    assert campaign.pull is not None
    question = question_of(campaign, CHECKPOINT_OF[campaign.stage], doors.forge)
    return (
        question is not None
        and review.state in ("APPROVED", "CHANGES_REQUESTED")
        and review.commit_id == campaign.pull.head_sha
        and review.submitted_at >= question.created_at
        and review.id not in {answer.source_id for answer in campaign.answers if answer.via == "review"}
        and not review.actor.is_bot
        and (review.actor.id != campaign.pull.author.id or campaign.policy.self_approval)
        and doors.forge.role(review.actor.login).may_write
    )


def _review_fact(review: ReviewView, campaign: Campaign) -> Fact:
    return Answered(
        answer=Answer(
            checkpoint=CHECKPOINT_OF[campaign.stage],
            approved=review.state == "APPROVED",
            reason=review.body if review.state != "APPROVED" else "",
            actor=review.actor,
            via="review",
            source_id=review.id,
            said_at=review.submitted_at,
        )
    )


def _may_answer_by_review(campaign: Campaign) -> bool:
    checkpoint = CHECKPOINT_OF.get(campaign.stage)
    answers = campaign.policy.review_answers
    return checkpoint is not None and (answers == "all" or (answers == "final" and checkpoint is Checkpoint.FINAL))


def _latest_decisions(reviews: tuple[ReviewView, ...]) -> tuple[ReviewView, ...]:
    """Each person's last word; later remarks are COMMENTED and take nothing back."""
    last: dict[int, ReviewView] = {}
    for review in reviews:
        if review.state != "COMMENTED":
            last[review.actor.id] = review
    return tuple(last.values())


def _chosen(reviews: tuple[ReviewView, ...], campaign: Campaign, doors: Doors) -> ReviewView | None:
    """The review that answers the open question; one no outweighs every yes."""
    if not _may_answer_by_review(campaign):
        return None
    counting = [review for review in _latest_decisions(reviews) if _counts(review, campaign, doors)]
    blocking = [review for review in counting if review.state == "CHANGES_REQUESTED"]
    return next(iter(blocking or counting), None)


def _taken_in(reviews: tuple[ReviewView, ...], campaign: Campaign) -> bool:
    """Whether one of these was an answer already: its event came twice, or the job died after writing it down."""
    answers = {answer.source_id for answer in campaign.answers if answer.via == "review"}
    return any(review.id in answers for review in reviews)


def _reviews(event: ReviewsMayHaveChanged, settings: Settings) -> ZoneReport:
    """The bridge only says that something changed; the truth is read again here."""
    doors = open_doors(settings)
    report = ignored(ReasonCode.NOTHING_WAITING, "no campaign waits for a review of this commit")
    for number in doors.forge.pulls_with_head(event.head_sha):
        scribe = open_campaign(doors, number)
        if scribe is None:
            continue
        reviews = doors.forge.reviews(number)
        chosen = _chosen(reviews, scribe.campaign, doors)
        if chosen is not None:
            scribe.record(_review_fact(chosen, scribe.campaign))
            code = ReasonCode.APPROVED if chosen.state == "APPROVED" else ReasonCode.CHANGES_REQUESTED
            report = _go_on(scribe, doors, code)
        elif _taken_in(reviews, scribe.campaign):
            report = _go_on(scribe, doors, ReasonCode.DUPLICATE_EVENT)
    return report


def act(event: Event, settings: Settings) -> ZoneReport:
    match event:
        case Ignored():
            return ignored(event.code, event.why)
        case CommentPosted():
            return _comment(event, settings)
        case ReviewsMayHaveChanged():
            return _reviews(event, settings)
        case Scheduled() | Dispatched():
            return ignored(ReasonCode.UNRELATED_EVENT, "nothing is scheduled in this version")
        case _:
            assert_never(event)


def decide(settings: Settings) -> ZoneReport:
    """One event from its file to its report."""
    return act(hear(settings), settings)
