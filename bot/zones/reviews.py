"""Reviews as answers: an Approve or a Request changes on the pinned commit, given after the question."""

from __future__ import annotations

from bot.campaign.machine import CHECKPOINT_OF
from bot.forge.client import CommentView, ReviewView
from bot.forge.events import ReviewsMayHaveChanged
from bot.forge.threads import say_once
from bot.model.campaign import Answer, Campaign, Checkpoint, Stage
from bot.model.commands import Approve, Reject
from bot.model.facts import Answered, Fact, Repinned
from bot.model.ids import VariantNumber
from bot.model.people import Refusal
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.render import comments, typed
from bot.settings import Settings
from bot.zones import ground, refusals
from bot.zones.approving import DECISIONS, grant_of, last_decisions, variants_named
from bot.zones.campaigns import open_campaign
from bot.zones.doors import Doors, Opener, open_doors
from bot.zones.hearing import ignored
from bot.zones.moves import go_on
from bot.zones.question import question_of
from bot.zones.report import ZoneReport
from bot.zones.scribe import Scribe

SILENT = (ReasonCode.BOT_COMMENT,)
"""Objections that nobody is told of: two bots that answer each other never end."""


def _may_answer_by_review(campaign: Campaign) -> bool:
    checkpoint = CHECKPOINT_OF.get(campaign.stage)
    answers = campaign.policy.review_answers
    return checkpoint is not None and (answers == "all" or (answers == "final" and checkpoint is Checkpoint.FINAL))


def _used(campaign: Campaign) -> set[int]:
    """Reviews that were an answer: each answers one question, once."""
    return {answer.source_id for answer in campaign.answers if answer.via == "review"}


def _variant(review: ReviewView) -> VariantNumber | None:
    named = variants_named(review.body)
    return named[0] if named and review.state == "APPROVED" else None


def _objection(review: ReviewView, campaign: Campaign, pull: PullSnapshot, doors: Doors) -> Refusal | None:
    """Why this review is no answer. It is its author's last word and younger than the question."""
    assert campaign.pull is not None
    if review.state == "DISMISSED":
        return refusals.dismissed(review)
    if review.commit_id != campaign.pull.head_sha:
        return refusals.other_commit(review, campaign.pull.head_sha)
    command = Approve(variant=_variant(review)) if review.state == "APPROVED" else Reject()
    if isinstance(command, Approve) and len(variants_named(review.body)) > 1:
        return refusals.several_variants(variants_named(review.body))
    grant = grant_of(command, review.actor, campaign, pull, campaign.policy, doors.forge)
    return grant if isinstance(grant, Refusal) else None


def _fact(review: ReviewView, campaign: Campaign) -> Fact:
    return Answered(
        answer=Answer(
            checkpoint=CHECKPOINT_OF[campaign.stage],
            approved=review.state == "APPROVED",
            variant=_variant(review),
            reason=review.body if review.state != "APPROVED" else "",
            actor=review.actor,
            via="review",
            source_id=review.id,
            said_at=review.submitted_at,
        )
    )


def _candidates(
    reviews: tuple[ReviewView, ...], question: CommentView | None, campaign: Campaign
) -> tuple[ReviewView, ...]:
    """Last words that came after the question and answered nothing yet."""
    if question is None:
        return ()
    return tuple(
        review
        for review in last_decisions(reviews)
        if review.submitted_at >= question.created_at and review.id not in _used(campaign)
    )


def _explain(review: ReviewView, refusal: Refusal, campaign: Campaign, doors: Doors) -> None:
    """Each person is told each reason once a campaign: a stranger cannot make us write a page."""
    if review.actor.is_bot or refusal.code in SILENT:
        return
    assert campaign.pull is not None
    key = f"{campaign.id}/review/{review.actor.id}/{refusal.code}"
    say_once(doors.forge, campaign.pull.number, key, comments.refusal(refusal, review.actor))


def _needs_command(
    reviews: tuple[ReviewView, ...], question: CommentView | None, campaign: Campaign, doors: Doors
) -> ReasonCode | None:
    """An Approve where only a command counts: silence would leave whoever gave it waiting for what never comes."""
    approving = [one for one in _candidates(reviews, question, campaign) if one.state == "APPROVED"]
    refusal = refusals.needs_command(typed.approval(campaign))
    for review in approving:
        _explain(review, refusal, campaign, doors)
    return refusal.code if any(not one.actor.is_bot for one in approving) else None


def weigh(scribe: Scribe, pull: PullSnapshot, doors: Doors) -> ReasonCode | None:
    """Take the review in that answers the open question, if one does, and say why others do not.

    One no outweighs every yes. None when nothing happened.
    """
    campaign = scribe.campaign
    if CHECKPOINT_OF.get(campaign.stage) is None:
        return None
    question = question_of(campaign, CHECKPOINT_OF[campaign.stage], doors.forge)
    if not _may_answer_by_review(campaign):
        return _needs_command(doors.forge.reviews(pull.number), question, campaign, doors)
    counting: list[ReviewView] = []
    told: ReasonCode | None = None
    for review in _candidates(doors.forge.reviews(pull.number), question, campaign):
        objection = _objection(review, campaign, pull, doors)
        if objection is None and review.state in DECISIONS:
            counting.append(review)
        elif objection is not None and objection.code not in SILENT and not review.actor.is_bot:
            _explain(review, objection, campaign, doors)
            told = objection.code
    chosen = next(iter([r for r in counting if r.state == "CHANGES_REQUESTED"] or counting), None)
    if chosen is None:
        return told
    scribe.record(_fact(chosen, campaign))
    return ReasonCode.APPROVED if chosen.state == "APPROVED" else ReasonCode.CHANGES_REQUESTED


def _taken_in(campaign: Campaign, doors: Doors) -> bool:
    """Whether a review was an answer already: its event came twice, or the job died after writing it down."""
    assert campaign.pull is not None
    used = _used(campaign)
    return bool(used) and any(review.id in used for review in doors.forge.reviews(campaign.pull.number))


def _heard(scribe: Scribe, doors: Doors) -> ZoneReport | None:
    assert scribe.campaign.pull is not None
    pull = doors.forge.pull(scribe.campaign.pull.number)
    # While a push is under way the head may be our own commit; push looks for itself.
    busy = scribe.campaign.stage in (Stage.PUSHING, Stage.CLOSING)
    moved = None if busy else ground.look(scribe.campaign, pull, doors)
    if moved is not None:
        scribe.record(moved)
        if not isinstance(moved, Repinned):
            return go_on(scribe, doors, scribe.campaign.reason or ReasonCode.REF_CHANGED)
    code = weigh(scribe, pull, doors)
    if code in (ReasonCode.APPROVED, ReasonCode.CHANGES_REQUESTED):
        return go_on(scribe, doors, code)
    if code is not None:
        report = go_on(scribe, doors, code)
        return report.model_copy(update={"decision": "refused"})
    if moved is not None:
        return go_on(scribe, doors, ReasonCode.REPINNED)
    return go_on(scribe, doors, ReasonCode.DUPLICATE_EVENT) if _taken_in(scribe.campaign, doors) else None


def hear_reviews(event: ReviewsMayHaveChanged, settings: Settings, open: Opener = open_doors) -> ZoneReport:
    """The bridge only says that something changed; the truth is read again here."""
    doors = open(settings)
    report = ignored(ReasonCode.NOTHING_WAITING, "no campaign waits for a review of this commit")
    for number in doors.forge.pulls_with_head(event.head_sha):
        scribe = open_campaign(doors, number)
        found = _heard(scribe, doors) if scribe is not None else None
        report = found or report
    return report
