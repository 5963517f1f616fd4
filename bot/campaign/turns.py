"""What each fact does to the campaign it fits: one short function a fact, and the table TURNS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.campaign import searching
from bot.campaign.effects import AskHuman, Close, PushWinner, ReactFinally, SayResult
from bot.campaign.lineage import accepted, pending_tries
from bot.campaign.stopping import budget_spent
from bot.campaign.unfit import change, need, of_open_order
from bot.model.campaign import OUT_OF_TIME, Campaign, Checkpoint, Origin, Outcome, Phase, Stage
from bot.model.commands import Mode
from bot.model.facts import (
    Answered,
    BudgetRaised,
    CampaignClosed,
    CampaignRequested,
    Cancelled,
    EffectDone,
    EffectRequested,
    FilePassed,
    Finalized,
    GpuTimeSpent,
    HeadMoved,
    MachineChanged,
    NumbersRaced,
    OrderFailed,
    OrderPlaced,
    OrderTaken,
    OrderWaits,
    Profiled,
    Pushed,
    PushRefused,
    Repinned,
    Retried,
    RoundOpened,
    SearchEnded,
    SegmentJoined,
    Stopped,
    TryRequested,
    VariantJudged,
    VariantMeasured,
)
from bot.model.measurement import Evidence
from bot.model.reasons import ReasonCode

PHASE_OF = {
    Stage.PROFILING: Phase.PROFILE,
    Stage.OPTIMIZING: Phase.OPTIMIZE,
    Stage.FINALIZING: Phase.FINALIZE,
}
CHECKPOINT_OF = {
    Stage.AWAIT_PROFILE: Checkpoint.PROFILE,
    Stage.AWAIT_WINNER: Checkpoint.WINNER,
    Stage.AWAIT_FINAL: Checkpoint.FINAL,
}
OVER = (Stage.CLOSING, Stage.ENDED)


def _end(campaign: Campaign, outcome: Outcome, reason: ReasonCode, detail: str = "") -> Campaign:
    return change(campaign, stage=Stage.CLOSING, outcome=outcome, reason=reason, detail=detail, order=None)


def _requested(campaign: Campaign, fact: CampaignRequested) -> Campaign:
    need(campaign.stage is Stage.NEW, "the campaign was already requested")
    need(fact.campaign == campaign.id, "the request belongs to another campaign")
    return change(
        campaign,
        stage=Stage.PROFILING,
        origin=fact.origin,
        command=fact.command,
        requester=fact.requester,
        comment_id=fact.comment_id,
        requested_at=fact.requested_at,
        pull=fact.pull,
        policy=fact.policy,
        restarts=fact.restarts,
    )


def _order_placed(campaign: Campaign, fact: OrderPlaced) -> Campaign:
    order = fact.order
    need(campaign.order is None, "an order is already open")
    need(PHASE_OF.get(campaign.stage) is order.phase, f"no {order.phase} order is owed in stage {campaign.stage}")
    need(order.campaign == campaign.id, "the order belongs to another campaign")
    need(order.id not in campaign.orders, "this order was placed before")
    if order.phase is Phase.FINALIZE:
        need(order.winner == campaign.winner, "the order names another winner")
    placed = change(campaign, order=order, orders=(*campaign.orders, order.id), late=None)
    if order.phase is Phase.FINALIZE or campaign.pull is None:
        return placed
    return change(placed, measured_at=campaign.pull.head_sha)


def _order_taken(campaign: Campaign, fact: OrderTaken) -> Campaign:
    need(campaign.order is not None and campaign.order.id == fact.order, f"order {fact.order} is not open")
    return campaign


def _order_waits(campaign: Campaign, fact: OrderWaits) -> Campaign:
    need(campaign.order is not None and campaign.order.id == fact.order, f"order {fact.order} is not open")
    need(campaign.late != fact.order, "people were told before")
    return change(campaign, late=fact.order)


def _gpu_time_spent(campaign: Campaign, fact: GpuTimeSpent) -> Campaign:
    """Counted whatever became of the campaign meanwhile: the machine was used."""
    need(fact.order in campaign.orders, "no such order")
    need(fact.order not in dict(campaign.spent), "this order was counted before")
    return change(campaign, spent=(*campaign.spent, (fact.order, fact.seconds)))


def _segment_joined(campaign: Campaign, fact: SegmentJoined) -> Campaign:
    need(fact.order in campaign.orders, "no such order")
    need(fact.order not in dict(campaign.joined), "the segment of this order was joined before")
    return change(campaign, joined=(*campaign.joined, (fact.order, fact.digest)))


def _profiled(campaign: Campaign, fact: Profiled) -> Campaign:
    of_open_order(campaign, fact, Phase.PROFILE)
    stage = Stage.AWAIT_PROFILE if asks_at(campaign, Checkpoint.PROFILE) else Stage.OPTIMIZING
    return change(campaign, profile=fact.profile, stage=stage, order=None)


def _budget_raised(campaign: Campaign, fact: BudgetRaised) -> Campaign:
    need(campaign.stage is Stage.OPTIMIZING, "no search is under way")
    assert campaign.command is not None, "a search was asked for"
    need(fact.max_variants > campaign.command.max_variants, "as many may be tried already")
    return change(campaign, command=campaign.command.model_copy(update={"max_variants": fact.max_variants}))


def _search_ended(campaign: Campaign, fact: SearchEnded) -> Campaign:
    of_open_order(campaign, fact, Phase.OPTIMIZE)
    need(all(played.verdict is not None for played in campaign.rounds), "a round has no verdict yet")
    need(campaign.stranded is None, searching.STRANDED.format(campaign.stranded))
    ended = change(campaign, order=None, stopped=fact.why, rivals=campaign.rivals or fact.rivals)
    if pending_tries(campaign) and not budget_spent(campaign) and fact.why not in OUT_OF_TIME:
        return ended
    if campaign.incumbent == 0:
        return _end(ended, Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT, fact.note)
    if not evidence_suffices(campaign):
        return _end(ended, Outcome.REVERTED, ReasonCode.EVIDENCE_INSUFFICIENT, fact.note)
    if asks_at(campaign, Checkpoint.WINNER):
        return change(ended, stage=Stage.AWAIT_WINNER)
    return change(ended, stage=Stage.FINALIZING, winner=campaign.incumbent)


def asks_at(campaign: Campaign, checkpoint: Checkpoint) -> bool:
    """Whether the campaign stops there to ask: an interactive one does, where the repository wants it."""
    interactive = campaign.command is not None and campaign.command.mode is Mode.INTERACTIVE
    if checkpoint is not Checkpoint.FINAL:
        return interactive and checkpoint.value in campaign.policy.checkpoints
    # Merging what a sweep pushes is its approval.
    return campaign.origin is not Origin.SWEEP and (interactive or campaign.policy.final_approval == "required")


def evidence_suffices(campaign: Campaign) -> bool:
    """Whether the repository's own policy lets this kind of evidence be pushed."""
    if campaign.profile is None:
        return False
    measured = campaign.profile.baseline.runner.evidence is Evidence.MEASURED
    return measured or campaign.policy.evidence == "static"


def _file_passed(campaign: Campaign, fact: FilePassed) -> Campaign:
    of_open_order(campaign, fact, Phase.FINALIZE)
    need(fact.file.variant == campaign.winner, "another variant was tested")
    need(fact.file.run.passed, "it did not pass")
    return change(campaign, tested=(*campaign.tested, fact.file))


def _finalized(campaign: Campaign, fact: Finalized) -> Campaign:
    of_open_order(campaign, fact, Phase.FINALIZE)
    done = fact.finalization
    need(done.variant == campaign.winner, "another variant was finished")
    ended = change(campaign, finalization=done, order=None)
    if not all(run.passed for run in done.tests) or not done.tests:
        anyhow = ReasonCode.TESTS_FAILED_BEFORE if done.failed_before else ReasonCode.TESTS_FAILED
        return _end(ended, Outcome.REVERTED, anyhow)
    if not done.passed:
        why = ReasonCode.CHECKSTYLE_FAILED if done.script_passed else ReasonCode.SCRIPT_FAILED
        return _end(ended, Outcome.REVERTED, why)
    return change(ended, stage=Stage.AWAIT_FINAL if asks_at(campaign, Checkpoint.FINAL) else Stage.PUSHING)


def _order_failed(campaign: Campaign, fact: OrderFailed) -> Campaign:
    need(campaign.order is not None and campaign.order.id == fact.order, f"order {fact.order} is not open")
    failed = campaign.order.phase if campaign.order else None
    return change(_end(campaign, Outcome.FAILED, fact.reason, fact.detail), failed=failed)


def checkpoint_key(campaign: Campaign) -> str:
    """Key of the question the campaign waits on."""
    return AskHuman(checkpoint=CHECKPOINT_OF[campaign.stage], turn=len(campaign.orders)).key


def _answered(campaign: Campaign, fact: Answered) -> Campaign:
    answer = fact.answer
    need(CHECKPOINT_OF.get(campaign.stage) is answer.checkpoint, f"nobody is waiting at {answer.checkpoint}")
    need(campaign.ref_of(checkpoint_key(campaign)) is not None, "the question was not asked yet")
    known = (*campaign.answers, answer)
    if not answer.approved:
        closed = _end(campaign, Outcome.REJECTED, ReasonCode.REJECTED_BY_USER, answer.reason)
        return change(closed, answers=known)
    match answer.checkpoint:
        case Checkpoint.PROFILE:
            return change(campaign, answers=known, stage=Stage.OPTIMIZING)
        case Checkpoint.WINNER:
            winner = campaign.incumbent if answer.variant is None else answer.variant
            need(winner in accepted(campaign), f"v{winner} was not accepted")
            return change(campaign, answers=known, stage=Stage.FINALIZING, winner=winner)
        case Checkpoint.FINAL:
            need(answer.variant in (None, campaign.winner), "only the finished winner can be approved here")
            return change(campaign, answers=known, stage=Stage.PUSHING)


def _try_requested(campaign: Campaign, fact: TryRequested) -> Campaign:
    stages = (Stage.AWAIT_PROFILE, Stage.OPTIMIZING, Stage.AWAIT_WINNER)
    need(campaign.stage in stages, "the search is over")
    need(fact.commit not in {commit for commit, _ in campaign.tries}, "this commit was asked for before")
    need(not budget_spent(campaign), "the budget of variants is spent")
    asked = change(campaign, tries=(*campaign.tries, (fact.commit, fact.actor)))
    return change(asked, stage=Stage.OPTIMIZING) if campaign.stage is Stage.AWAIT_WINNER else asked


def _retried(campaign: Campaign, fact: Retried) -> Campaign:
    """The end is taken back, and what was said about it: the order that failed is owed again."""
    need(campaign.stage is Stage.ENDED and campaign.outcome is Outcome.FAILED, "no job of it failed")
    need(campaign.failed is not None, "no job of it failed")
    said = (SayResult.key, ReactFinally.key, Close.key)
    return change(
        campaign,
        stage=next(stage for stage, phase in PHASE_OF.items() if phase is campaign.failed),
        retries=campaign.retries + 1,
        failed=None,
        outcome=None,
        reason=None,
        detail="",
        again="",
        requested=tuple(key for key in campaign.requested if key not in said),
        done=tuple((key, ref) for key, ref in campaign.done if key not in said),
    )


def _cancelled(campaign: Campaign, fact: Cancelled) -> Campaign:
    need(campaign.stage not in (Stage.NEW, *OVER), "there is nothing to cancel")
    need(PushWinner.key not in campaign.requested, "the push has begun")
    ended = _end(campaign, Outcome.CANCELLED, ReasonCode.CANCELLED_BY_USER, fact.detail)
    return change(ended, cancelled_by=fact.actor)


def _head_moved(campaign: Campaign, fact: HeadMoved) -> Campaign:
    need(campaign.stage not in (Stage.NEW, *OVER), "the campaign is over")
    need(campaign.pull is not None and campaign.pull.head_sha == fact.measured, "another head was pinned")
    need(fact.now != fact.measured, "the head did not move")
    return change(_end(campaign, Outcome.REVERTED, ReasonCode.REF_CHANGED, fact.now or ""), again=fact.again)


REDONE = ("status/", "mark/", "lineage/", PushWinner.key)
"""Effects that are due once more at a new head, by how their keys begin."""


def _repinned(campaign: Campaign, fact: Repinned) -> Campaign:
    """What was found out still holds. The tests run again there, and only the last question is asked again."""
    need(campaign.stage not in (Stage.NEW, *OVER), "the campaign is over")
    pull = campaign.pull
    need(pull is not None and pull.head_sha == fact.before, "another head was pinned")
    need(pull is not None and pull.number == fact.pull.number, "that is another pull request")
    if pull is not None and pull.head_sha == fact.pull.head_sha:  # a branch was renamed
        return change(campaign, pull=fact.pull)
    again = change(
        campaign,
        pull=fact.pull,
        tested=(),
        requested=tuple(key for key in campaign.requested if not key.startswith(REDONE)),
        done=tuple((key, ref) for key, ref in campaign.done if not key.startswith(REDONE)),
    )
    if campaign.stage not in (Stage.FINALIZING, Stage.AWAIT_FINAL, Stage.PUSHING):
        return again
    return change(again, stage=Stage.FINALIZING, finalization=None, order=None, late=None)


def _stopped(campaign: Campaign, fact: Stopped) -> Campaign:
    need(campaign.stage not in (Stage.NEW, *OVER), "the campaign is over")
    need(PushWinner.key not in campaign.requested, "the push has begun")
    return change(_end(campaign, Outcome.REVERTED, fact.reason, fact.detail), again=fact.again)


def _effect_requested(campaign: Campaign, fact: EffectRequested) -> Campaign:
    need(campaign.stage is not Stage.ENDED, "the campaign is over")
    need(fact.key not in campaign.requested, "this effect was announced before")
    return change(campaign, requested=(*campaign.requested, fact.key))


def _effect_done(campaign: Campaign, fact: EffectDone) -> Campaign:
    need(campaign.stage is not Stage.ENDED, "the campaign is over")
    need(fact.key in campaign.requested, "this effect was never announced")
    need(campaign.ref_of(fact.key) is None, "this effect was done before")
    return change(campaign, done=(*campaign.done, (fact.key, fact.ref)))


def _pushed(campaign: Campaign, fact: Pushed) -> Campaign:
    need(campaign.stage is Stage.PUSHING, "no push was owed")
    return change(_end(campaign, Outcome.PUSHED, ReasonCode.PUSHED), pushed=fact.commit)


def _push_refused(campaign: Campaign, fact: PushRefused) -> Campaign:
    need(campaign.stage is Stage.PUSHING, "no push was owed")
    ended = _end(campaign, Outcome.REVERTED, fact.reason, fact.detail)
    return change(ended, again=fact.again, unproved=fact.unproved)


def _closed(campaign: Campaign, fact: CampaignClosed) -> Campaign:
    need(campaign.stage is Stage.CLOSING, "the campaign is not closing")
    need(campaign.outcome is fact.outcome, "it ends otherwise")
    return change(campaign, stage=Stage.ENDED)


TURNS: dict[type[Any], Callable[[Campaign, Any], Campaign]] = {
    CampaignRequested: _requested,
    OrderPlaced: _order_placed,
    OrderTaken: _order_taken,
    OrderWaits: _order_waits,
    GpuTimeSpent: _gpu_time_spent,
    SegmentJoined: _segment_joined,
    Profiled: _profiled,
    NumbersRaced: searching.raced,
    MachineChanged: searching.machine_changed,
    BudgetRaised: _budget_raised,
    RoundOpened: searching.round_opened,
    VariantMeasured: searching.measured,
    VariantJudged: searching.judged,
    SearchEnded: _search_ended,
    FilePassed: _file_passed,
    Finalized: _finalized,
    OrderFailed: _order_failed,
    Answered: _answered,
    TryRequested: _try_requested,
    Cancelled: _cancelled,
    Retried: _retried,
    HeadMoved: _head_moved,
    Repinned: _repinned,
    Stopped: _stopped,
    EffectRequested: _effect_requested,
    EffectDone: _effect_done,
    Pushed: _pushed,
    PushRefused: _push_refused,
    CampaignClosed: _closed,
}
"""What each fact does to a campaign it fits."""
