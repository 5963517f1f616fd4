"""What the machine makes of a head that moves, of lost ground, of orders that wait and of GPU time."""

from __future__ import annotations

import pytest

from bot.campaign.effects import AskHuman, MarkCommit, OpenRound, PlaceOrder, PushWinner, SayStatus
from bot.campaign.machine import advance, fold, owed
from bot.campaign.stopping import why_stop
from bot.model.campaign import OUT_OF_TIME, Campaign, Checkpoint, Outcome, Phase, Stage, StopReason, Zone
from bot.model.facts import (
    EffectRequested,
    Fact,
    Finalized,
    GpuTimeSpent,
    OrderTaken,
    OrderWaits,
    PushRefused,
    Repinned,
    SearchEnded,
    Stopped,
)
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode
from tests.campaign import story as tale

AT = "2026-01-02T03:05:00Z"
MOVED = Repinned(before=tale.HEAD, pull=tale.pull(tale.MOVED))
LOST = Stopped(reason=ReasonCode.PR_CLOSED, detail="it was closed", again="/optimize rms_norm")


def at_stage(stage: Stage) -> Campaign:
    return next(c for n in range(len(tale.WHOLE) + 1) if (c := tale.until(n)).stage is stage)


def ignored(campaign: Campaign, fact: Fact) -> bool:
    after, _ = advance(campaign, fact)
    return len(after.ignored) > len(campaign.ignored) and after.stage is campaign.stage


# A harmless move


@pytest.mark.parametrize("stage", [Stage.PROFILING, Stage.AWAIT_PROFILE, Stage.OPTIMIZING, Stage.AWAIT_WINNER])
def test_before_the_winner_is_finished_a_harmless_move_changes_the_pin_alone(stage: Stage) -> None:
    before = at_stage(stage)
    after, effects = advance(before, MOVED)
    assert (after.stage, after.order, after.answers) == (before.stage, before.order, before.answers)
    assert after.pull is not None and after.pull.head_sha == tale.MOVED
    assert after.measured_at == before.measured_at
    if before.order is not None:
        turn = len(after.orders)
        assert {SayStatus(stage=stage, turn=turn), MarkCommit(stage=stage, turn=turn)} <= set(effects)


@pytest.mark.parametrize("stage", [Stage.FINALIZING, Stage.AWAIT_FINAL, Stage.PUSHING])
def test_afterwards_the_tests_run_again_there_and_only_the_last_question_is_asked_again(stage: Stage) -> None:
    after, effects = advance(at_stage(stage), MOVED)
    assert (after.stage, after.order, after.finalization, after.winner) == (Stage.FINALIZING, None, None, 1)
    assert [type(effect) for effect in effects] == [PlaceOrder]
    assert after.measured_at == tale.HEAD, "nothing was measured anew"
    placed = tale.placed(4, Phase.FINALIZE, winner=1)
    again = fold(after, [placed, Finalized(order=placed.order.id, finalization=tale.finalization())])
    assert again.stage is Stage.AWAIT_FINAL
    assert AskHuman(checkpoint=Checkpoint.FINAL, turn=len(again.orders)) in owed(again)


def test_a_push_that_had_begun_can_begin_again_at_the_new_head() -> None:
    pushing = fold(at_stage(Stage.PUSHING), [EffectRequested(key="push", zone=Zone.PUSH)])
    after, _ = advance(pushing, MOVED)
    assert after.stage is Stage.FINALIZING
    assert PushWinner.key not in after.requested


def test_the_old_head_s_yes_and_its_gpu_job_count_no_more() -> None:
    after, _ = advance(at_stage(Stage.AWAIT_FINAL), MOVED)
    assert ignored(after, tale.answered(Checkpoint.FINAL))
    after, _ = advance(at_stage(Stage.FINALIZING), MOVED)
    assert ignored(after, Finalized(order=tale.F3, finalization=tale.finalization())), "the tests of the old head"


def test_a_branch_that_is_renamed_costs_nothing() -> None:
    final = at_stage(Stage.AWAIT_FINAL)
    renamed = tale.pull().model_copy(update={"head_ref": "renamed"})
    after, _ = advance(final, Repinned(before=tale.HEAD, pull=renamed))
    assert (after.stage, after.finalization) == (final.stage, final.finalization)
    assert after.pull == renamed


def test_a_move_of_another_head_or_another_pull_request_is_ignored() -> None:
    final = at_stage(Stage.AWAIT_FINAL)
    assert ignored(final, Repinned(before=tale.MOVED, pull=tale.pull()))
    other = tale.pull(tale.MOVED).model_copy(update={"number": 2})
    assert ignored(final, Repinned(before=tale.HEAD, pull=other))
    assert ignored(tale.until(len(tale.WHOLE)), MOVED)


# Lost ground


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in (Stage.NEW, Stage.CLOSING, Stage.ENDED)])
def test_lost_ground_ends_a_campaign_wherever_it_is(stage: Stage) -> None:
    after, _ = advance(at_stage(stage), LOST)
    assert (after.stage, after.outcome, after.reason) == (Stage.CLOSING, Outcome.REVERTED, ReasonCode.PR_CLOSED)
    assert (after.detail, after.again, after.order) == ("it was closed", "/optimize rms_norm", None)


def test_once_the_push_has_begun_only_the_push_says_how_it_ends() -> None:
    pushing = fold(at_stage(Stage.PUSHING), [EffectRequested(key="push", zone=Zone.PUSH)])
    assert ignored(pushing, LOST)
    refused = PushRefused(reason=ReasonCode.REF_CHANGED, detail=tale.MOVED, again="/optimize rms_norm")
    assert advance(pushing, refused)[0].again == "/optimize rms_norm"


# Orders that wait, and what they cost


def test_people_are_told_once_that_an_order_waits() -> None:
    profiling = at_stage(Stage.PROFILING)
    profiling = fold(profiling, [tale.placed(1, Phase.PROFILE)])
    late, effects = advance(profiling, OrderWaits(order=tale.P1, minutes=21))
    assert SayStatus(stage=Stage.PROFILING, turn=1, late=True) in effects
    assert ignored(late, OrderWaits(order=tale.P1, minutes=31))
    assert ignored(profiling, OrderWaits(order=tale.O2, minutes=21))


def test_an_order_that_is_taken_changes_nothing_and_only_the_open_one_can_be() -> None:
    open_order = fold(at_stage(Stage.PROFILING), [tale.placed(1, Phase.PROFILE)])
    assert advance(open_order, OrderTaken(order=tale.P1, at=AT))[0] == open_order
    assert ignored(open_order, OrderTaken(order=tale.O2, at=AT))


def test_gpu_time_is_counted_once_an_order_also_after_the_end() -> None:
    ended = tale.until(len(tale.WHOLE))
    paid = fold(ended, [GpuTimeSpent(order=tale.P1, seconds=30), GpuTimeSpent(order=tale.O2, seconds=60.5)])
    assert paid.gpu_seconds == 90.5
    assert ignored(paid, GpuTimeSpent(order=tale.P1, seconds=1))
    assert ignored(paid, GpuTimeSpent(order="c42-9-profile", seconds=1))


@pytest.mark.parametrize(("seconds", "stops"), [(59.9, False), (60.0, True)])
def test_a_search_ends_when_the_campaign_s_gpu_minutes_are_spent(seconds: float, stops: bool) -> None:
    policy = RepoPolicy(evidence="static", max_gpu_minutes=1)
    facts = [tale.requested(policy=policy), *tale.WHOLE[1:8], GpuTimeSpent(order=tale.P1, seconds=seconds)]
    campaign = fold(Campaign(id=tale.CAMPAIGN), facts)
    assert campaign.stage is Stage.OPTIMIZING
    assert (why_stop(campaign) is StopReason.GPU_TIME_SPENT) is stops
    assert any(isinstance(effect, OpenRound) for effect in owed(campaign)) is not stops


@pytest.mark.parametrize("why", OUT_OF_TIME)
def test_ideas_that_wait_do_not_reopen_a_search_without_time(why: StopReason) -> None:
    searching = fold(at_stage(Stage.OPTIMIZING), [tale.placed(2, Phase.OPTIMIZE)])
    asked = fold(searching, [tale.STRAYS[2]])
    ended, _ = advance(asked, SearchEnded(order=tale.O2, why=why))
    assert ended.stage is Stage.CLOSING
    going, _ = advance(asked, SearchEnded(order=tale.O2, why=StopReason.STAGNATION))
    assert going.stage is Stage.OPTIMIZING


# Where an interactive campaign stops


@pytest.mark.parametrize(("checkpoints", "stage"), [((), Stage.OPTIMIZING), (("profile",), Stage.AWAIT_PROFILE)])
def test_policy_says_which_questions_are_asked(checkpoints: tuple[str, ...], stage: Stage) -> None:
    policy = RepoPolicy.model_validate({"evidence": "static", "checkpoints": checkpoints})
    assert fold(Campaign(id=tale.CAMPAIGN), [tale.requested(policy=policy), *tale.WHOLE[1:3]]).stage is stage
