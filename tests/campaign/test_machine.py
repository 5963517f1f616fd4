"""The machine, asked as a person would ask it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.campaign.effects import AskHuman, EndSearch, FinishWinner, OpenRound, PlaceOrder, PushWinner, SayResult
from bot.campaign.machine import TURNS, advance, fold, owed, owed_in
from bot.campaign.stopping import is_stagnant
from bot.model.campaign import Campaign, Checkpoint, Outcome, Phase, Stage, StopReason, Zone
from bot.model.commands import Mode, Scope
from bot.model.diagnosis import CaseRoof
from bot.model.facts import (
    Cancelled,
    EffectDone,
    EffectRequested,
    Fact,
    FilePassed,
    Finalized,
    HeadMoved,
    JournalLine,
    OrderFailed,
    Profiled,
    Pushed,
    Repinned,
    SearchEnded,
    TryRequested,
    VariantMeasured,
)
from bot.model.finalization import PassedFile
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode
from bot.model.verdict import Decision
from tests.campaign import story as tale
from tests.examples import many


def after(*facts: Fact) -> Campaign:
    return fold(Campaign(id=tale.CAMPAIGN), facts)


def at_stage(stage: Stage) -> Campaign:
    return next(c for n in range(len(tale.WHOLE) + 1) if (c := tale.until(n)).stage is stage)


def test_the_whole_story_ends_in_a_push_and_ignores_nothing() -> None:
    campaign = tale.until(len(tale.WHOLE))
    assert campaign.stage is Stage.ENDED
    assert campaign.outcome is Outcome.PUSHED
    assert campaign.pushed == tale.COMMIT
    assert campaign.ignored == ()
    assert campaign.lineage == (0, 1)


def test_every_fact_has_a_turn() -> None:
    kinds = {member.model_fields["kind"].default for member in TURNS}
    schema = JournalLine.model_json_schema()["$defs"]
    known = {
        part["properties"]["kind"]["const"]
        for part in schema.values()
        if "kind" in part.get("properties", {}) and "const" in part["properties"]["kind"]
    }
    assert kinds == known


EVERY_FACT = (*tale.WHOLE, *tale.STRAYS)


@settings(max_examples=many(300))
@given(st.lists(st.sampled_from(EVERY_FACT), max_size=30))
def test_any_facts_in_any_order_are_accepted_or_recorded_as_ignored(facts: list[Fact]) -> None:
    campaign = Campaign(id=tale.CAMPAIGN)
    for fact in facts:
        before = campaign
        campaign, effects = advance(campaign, fact)
        assert effects == owed(campaign)
        if len(campaign.ignored) > len(before.ignored):
            assert campaign.ignored[-1].why
            assert campaign.model_copy(update={"ignored": before.ignored}) == before
        if campaign.stage is Stage.ENDED:
            assert effects == ()
        assert campaign.lineage[0] == 0
        assert len(set(campaign.lineage)) == len(campaign.lineage)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("fact", EVERY_FACT, ids=lambda fact: fact.kind)
def test_every_pair_of_stage_and_fact_is_answered(stage: Stage, fact: Fact) -> None:
    before = at_stage(stage)
    now, effects = advance(before, fact)
    changed = now.model_copy(update={"ignored": before.ignored}) != before
    assert changed or len(now.ignored) == len(before.ignored) + 1
    if now.stage is Stage.ENDED:
        assert effects == ()


def test_nothing_is_owed_after_the_end_whatever_arrives() -> None:
    ended = tale.until(len(tale.WHOLE))
    for fact in EVERY_FACT:
        now, effects = advance(ended, fact)
        assert now.stage is Stage.ENDED
        assert effects == ()
        assert len(now.ignored) == 1


def test_an_interactive_campaign_waits_at_three_checkpoints() -> None:
    seen = []
    for count in range(len(tale.WHOLE) + 1):
        for effect in owed(tale.until(count)):
            if isinstance(effect, AskHuman) and effect.checkpoint not in seen:
                seen.append(effect.checkpoint)
    assert seen == [Checkpoint.PROFILE, Checkpoint.WINNER, Checkpoint.FINAL]


def test_an_autonomous_campaign_skips_two_checkpoints_and_still_asks_before_it_pushes() -> None:
    campaign = after(
        tale.requested(Mode.AUTONOMOUS),
        tale.placed(1, Phase.PROFILE),
        Profiled(order=tale.P1, profile=tale.profile()),
    )
    assert owed_in(campaign, Zone.PUBLISH) == (PlaceOrder(phase=Phase.OPTIMIZE),)
    campaign = fold(
        campaign,
        (
            tale.placed(2, Phase.OPTIMIZE),
            *tale.round_facts(1, tale.O2, tale.ACCEPTED),
            SearchEnded(order=tale.O2, why=StopReason.IDEAS_EXHAUSTED),
        ),
    )
    assert campaign.stage is Stage.FINALIZING
    assert campaign.winner == 1
    campaign = fold(
        campaign,
        (tale.placed(3, Phase.FINALIZE, winner=1), Finalized(order=tale.F3, finalization=tale.finalization())),
    )
    assert campaign.stage is Stage.AWAIT_FINAL


def test_a_repository_may_let_an_autonomous_campaign_push_by_itself() -> None:
    policy = RepoPolicy(evidence="static", final_approval="none")
    campaign = after(
        tale.requested(Mode.AUTONOMOUS, policy=policy),
        tale.placed(1, Phase.PROFILE),
        Profiled(order=tale.P1, profile=tale.profile()),
        tale.placed(2, Phase.OPTIMIZE),
        *tale.round_facts(1, tale.O2, tale.ACCEPTED),
        SearchEnded(order=tale.O2, why=StopReason.IDEAS_EXHAUSTED),
        tale.placed(3, Phase.FINALIZE, winner=1),
        Finalized(order=tale.F3, finalization=tale.finalization()),
    )
    assert owed_in(campaign, Zone.PUSH) and PushWinner(winner=1) in owed(campaign)


def test_static_evidence_pushes_nothing_where_the_policy_asks_for_a_gpu() -> None:
    campaign = after(
        tale.requested(policy=RepoPolicy(evidence="measured")),
        tale.placed(1, Phase.PROFILE),
        Profiled(order=tale.P1, profile=tale.profile()),
        *tale.asked(Checkpoint.PROFILE, 1),
        tale.answered(Checkpoint.PROFILE),
        tale.placed(2, Phase.OPTIMIZE),
        *tale.round_facts(1, tale.O2, tale.ACCEPTED),
        SearchEnded(order=tale.O2, why=StopReason.IDEAS_EXHAUSTED),
    )
    assert campaign.outcome is Outcome.REVERTED
    assert campaign.reason is ReasonCode.EVIDENCE_INSUFFICIENT
    assert not any(isinstance(effect, PushWinner) for effect in owed(campaign))


def searching(*facts: Fact, max_variants: int = 8, roof: float | None = 40.0) -> Campaign:
    return after(
        tale.requested(Mode.AUTONOMOUS, max_variants=max_variants),
        tale.placed(1, Phase.PROFILE),
        Profiled(order=tale.P1, profile=tale.profile(roof)),
        tale.placed(2, Phase.OPTIMIZE),
        *facts,
    )


def work_of(campaign: Campaign) -> object:
    (effect,) = owed_in(campaign, Zone.MEASURE)
    return effect


def test_a_search_without_an_accepted_variant_has_nothing_to_do() -> None:
    campaign = searching(
        *tale.round_facts(1, tale.O2, tale.WRONG), SearchEnded(order=tale.O2, why=StopReason.IDEAS_EXHAUSTED)
    )
    assert campaign.outcome is Outcome.NOTHING_TO_DO
    assert SayResult() in owed(campaign)


def with_roofs(campaign: Campaign, *percents: float | None) -> Campaign:
    assert campaign.profile is not None
    cases = (tale.CASE.id, "another", "a third")
    roofs = tuple(CaseRoof(case=case, minimum_bytes=8, percent=p) for case, p in zip(cases, percents, strict=False))
    diagnosis = campaign.profile.diagnosis.model_copy(update={"roofs": roofs})
    return campaign.model_copy(update={"profile": campaign.profile.model_copy(update={"diagnosis": diagnosis})})


@pytest.mark.parametrize(
    ("percents", "is_left_alone"),
    [((99.0, 80.0), True), ((99.0, 79.9), False), ((99.0, None), True), ((), True)],
    ids=["both near", "one is not", "one unknown", "nothing known"],
)
def test_one_case_far_from_its_roof_is_a_reason_to_search_however_near_the_others_are(
    percents: tuple[float | None, ...], is_left_alone: bool
) -> None:
    """softmax was left alone on an H100 at 92 %, its rows of 65,536 columns at 65 %; an H200 gave them 1.24x."""
    ended = EndSearch(order=tale.O2, why=StopReason.EFFICIENT)
    assert (work_of(with_roofs(searching(roof=92.0), *percents)) == ended) is is_left_alone


def test_what_a_winner_made_of_a_case_is_what_counts() -> None:
    """At 60 % of its roof v0, and 1.5x as fast the winner."""
    won = tale.verdict(Decision.ACCEPTED, 1.5, 0.5)
    assert won.score is not None
    won = won.model_copy(update={"score": won.score.model_copy(update={"roof_percent": 92.0})})
    one = searching(*tale.round_facts(1, tale.O2, won), roof=40.0)
    assert one.incumbent == 1
    assert work_of(with_roofs(one, 60.0)) == EndSearch(order=tale.O2, why=StopReason.EFFICIENT)
    assert work_of(with_roofs(one, 50.0)) == OpenRound(order=tale.O2, number=2)


def with_rival(campaign: Campaign, times: float | None) -> Campaign:
    assert campaign.profile is not None
    diagnosis = campaign.profile.diagnosis.model_copy(update={"rival": times})
    return campaign.model_copy(update={"profile": campaign.profile.model_copy(update={"diagnosis": diagnosis})})


@pytest.mark.parametrize(("times", "is_left_alone"), [(1.0099, True), (1.01, False), (1.3, False), (None, True)])
def test_a_rival_that_is_faster_than_a_kernel_at_its_roof_says_that_there_is_more(
    times: float | None, is_left_alone: bool
) -> None:
    at_its_roof = with_rival(searching(roof=96.0), times)
    assert (work_of(at_its_roof) == EndSearch(order=tale.O2, why=StopReason.EFFICIENT)) is is_left_alone


@pytest.mark.parametrize(("times", "is_left_alone"), [(1.514, True), (1.516, False)])
def test_the_winner_has_to_be_as_fast_as_the_rival(times: float, is_left_alone: bool) -> None:
    won = tale.verdict(Decision.ACCEPTED, 1.5, 0.5)
    assert won.score is not None
    won = won.model_copy(update={"score": won.score.model_copy(update={"roof_percent": 95.0, "speed": 1.5})})
    one = with_rival(searching(*tale.round_facts(1, tale.O2, won), roof=40.0), times)
    assert (work_of(one) == EndSearch(order=tale.O2, why=StopReason.EFFICIENT)) is is_left_alone


def test_of_one_pass_alone_the_rivals_whole_step_says_nothing() -> None:
    one = with_rival(searching(roof=96.0), 1.3)
    assert one.command is not None
    backward = one.model_copy(update={"command": one.command.model_copy(update={"scope": Scope.BACKWARD})})
    assert work_of(backward) == EndSearch(order=tale.O2, why=StopReason.EFFICIENT)


def test_the_budget_counts_rejected_attempts_too() -> None:
    one = searching(*tale.round_facts(1, tale.O2, tale.WRONG), max_variants=2)
    assert work_of(one) == OpenRound(order=tale.O2, number=2)
    two = fold(one, tale.round_facts(2, tale.O2, tale.WRONG))
    assert work_of(two) == EndSearch(order=tale.O2, why=StopReason.BUDGET_SPENT)


def test_a_kernel_at_its_roof_is_left_alone_without_a_single_round() -> None:
    assert work_of(searching(roof=89.9)) == OpenRound(order=tale.O2, number=1)
    assert work_of(searching(roof=90.0)) == EndSearch(order=tale.O2, why=StopReason.EFFICIENT)


def test_the_first_stagnant_pair_is_a_review_and_the_second_ends_the_search() -> None:
    campaign = searching(*tale.round_facts(1, tale.O2, tale.STAGNANT), *tale.round_facts(2, tale.O2, tale.STAGNANT))
    assert (campaign.reviews, campaign.stagnant) == (1, 0)
    assert work_of(campaign) == OpenRound(order=tale.O2, number=3)
    campaign = fold(campaign, tale.round_facts(3, tale.O2, tale.STAGNANT))
    campaign = fold(campaign, tale.round_facts(4, tale.O2, tale.WRONG))
    campaign = fold(campaign, tale.round_facts(5, tale.O2, tale.STAGNANT))
    assert work_of(campaign) == EndSearch(order=tale.O2, why=StopReason.STAGNATION)


@pytest.mark.parametrize(
    ("decision", "gain", "stagnant"),
    [
        (Decision.ACCEPTED, 0.0099, True),
        (Decision.ACCEPTED, 0.01, False),
        (Decision.INCONCLUSIVE, 0.0099, True),
        (Decision.INCONCLUSIVE, 0.013, True),  # where nothing at all shows as much
        (Decision.INCONCLUSIVE, None, False),  # a machine that cannot say
        (Decision.REJECTED, 0.0, False),
    ],
)
def test_no_progress_is_less_than_one_percent_or_than_anybody_can_claim(
    decision: Decision, gain: float | None, stagnant: bool
) -> None:
    assert is_stagnant(tale.verdict(decision, gain=gain)) is stagnant


def test_an_accepted_variant_between_two_stagnant_ones_clears_the_count() -> None:
    campaign = searching(
        *tale.round_facts(1, tale.O2, tale.STAGNANT),
        *tale.round_facts(2, tale.O2, tale.ACCEPTED),
        *tale.round_facts(3, tale.O2, tale.STAGNANT, parent=2),
    )
    assert (campaign.reviews, campaign.stagnant) == (0, 1)


def test_three_variants_in_a_row_that_do_not_run_end_the_search() -> None:
    campaign = searching(*tale.round_facts(1, tale.O2, tale.WRONG), *tale.round_facts(2, tale.O2, tale.WRONG))
    assert isinstance(work_of(campaign), OpenRound)
    campaign = fold(campaign, tale.round_facts(3, tale.O2, tale.WRONG))
    assert work_of(campaign) == EndSearch(order=tale.O2, why=StopReason.TOO_MANY_FAILURES)


def test_a_commit_asked_for_at_the_winner_checkpoint_reopens_the_search() -> None:
    waiting = at_stage(Stage.AWAIT_WINNER)
    campaign, _ = advance(waiting, TryRequested(commit=tale.COMMIT, actor=tale.MIRA))
    assert campaign.stage is Stage.OPTIMIZING
    campaign, _ = advance(campaign, tale.placed(3, Phase.OPTIMIZE))
    order = tale.order_id(3, Phase.OPTIMIZE)
    assert work_of(campaign) == OpenRound(order=order, number=3)
    played = tale.variant(3, parent=1, references=(tale.COMMIT,), technique="try")
    opened, measured, judged = tale.round_facts(3, order, tale.WRONG)
    measured = VariantMeasured(order=order, number=3, measurement=tale.measurement(played))
    campaign = fold(campaign, (opened.model_copy(update={"variant": played}), measured, judged))
    assert isinstance(work_of(campaign), EndSearch)


def test_a_commit_asked_for_during_the_search_is_not_forgotten_when_the_segment_arrives() -> None:
    campaign = searching()
    campaign = fold(
        campaign,
        (
            TryRequested(commit=tale.COMMIT, actor=tale.MIRA),
            *tale.round_facts(1, tale.O2, tale.ACCEPTED),
            SearchEnded(order=tale.O2, why=StopReason.IDEAS_EXHAUSTED),
        ),
    )
    assert campaign.stage is Stage.OPTIMIZING
    assert owed_in(campaign, Zone.PUBLISH)[0] == PlaceOrder(phase=Phase.OPTIMIZE)


def test_facts_of_a_cancelled_job_arrive_too_late() -> None:
    campaign = searching()
    campaign, _ = advance(campaign, Cancelled(actor=tale.MIRA, comment_id=9))
    assert campaign.outcome is Outcome.CANCELLED
    late = fold(campaign, tale.round_facts(1, tale.O2, tale.ACCEPTED))
    assert late.rounds == ()
    assert [entry.fact for entry in late.ignored] == ["round_opened", "variant_measured", "variant_judged"]


def test_a_cancel_after_the_push_began_is_too_late() -> None:
    pushing = at_stage(Stage.PUSHING)
    announced, _ = advance(pushing, EffectRequested(key="push", zone=Zone.PUSH))
    late, _ = advance(announced, Cancelled(actor=tale.MIRA, comment_id=9))
    assert late.stage is Stage.PUSHING
    assert late.ignored[-1].why == "the push has begun"
    in_time, _ = advance(pushing, Cancelled(actor=tale.MIRA, comment_id=9))
    assert in_time.outcome is Outcome.CANCELLED


def test_an_answer_before_the_question_was_asked_counts_for_nothing() -> None:
    waiting = at_stage(Stage.AWAIT_PROFILE)
    early, _ = advance(waiting, tale.answered(Checkpoint.PROFILE))
    assert early.stage is Stage.AWAIT_PROFILE
    asked = fold(waiting, tale.asked(Checkpoint.PROFILE, 1))
    in_time, _ = advance(asked, tale.answered(Checkpoint.PROFILE))
    assert in_time.stage is Stage.OPTIMIZING


def test_only_an_accepted_variant_can_be_chosen() -> None:
    waiting = fold(at_stage(Stage.AWAIT_WINNER), tale.asked(Checkpoint.WINNER, 2))
    wrong, _ = advance(waiting, tale.answered(Checkpoint.WINNER, chosen=2))
    assert wrong.stage is Stage.AWAIT_WINNER
    right, _ = advance(waiting, tale.answered(Checkpoint.WINNER, chosen=1))
    assert (right.stage, right.winner) == (Stage.FINALIZING, 1)


def test_failed_tests_failed_style_and_a_script_that_it_breaks_each_end_it_with_their_own_reason() -> None:
    finalizing = fold(at_stage(Stage.FINALIZING), (tale.placed(3, Phase.FINALIZE, winner=1),))
    for tests_pass, style_passes, script, reason in (
        (False, True, (), ReasonCode.TESTS_FAILED),
        (True, False, (), ReasonCode.CHECKSTYLE_FAILED),
        (True, True, (True, False), ReasonCode.SCRIPT_FAILED),
    ):
        done = tale.finalization(tests_pass=tests_pass, style_passes=style_passes, script=script)
        campaign, _ = advance(finalizing, Finalized(order=tale.F3, finalization=done))
        assert (campaign.outcome, campaign.reason) == (Outcome.REVERTED, reason)


@pytest.mark.parametrize("script", [(), (False,), (True, True)])
def test_a_script_that_is_not_there_or_does_not_run_on_v0_stops_nobody(script: tuple[bool, ...]) -> None:
    finalizing = fold(at_stage(Stage.FINALIZING), (tale.placed(3, Phase.FINALIZE, winner=1),))
    campaign, _ = advance(finalizing, Finalized(order=tale.F3, finalization=tale.finalization(script=script)))
    assert (campaign.stage, campaign.outcome) == (Stage.AWAIT_FINAL, None)


@pytest.mark.parametrize(("passed", "reason"), [(True, "tests_failed"), (False, "tests_failed_before")])
def test_tests_that_fail_anyhow_have_a_reason_of_their_own(passed: bool, reason: str) -> None:
    finalizing = fold(at_stage(Stage.FINALIZING), (tale.placed(3, Phase.FINALIZE, winner=1),))
    done = tale.finalization(tests_pass=False)
    done = done.model_copy(update={"untouched": done.tests[0].model_copy(update={"passed": passed})})
    campaign, _ = advance(finalizing, Finalized(order=tale.F3, finalization=done))
    assert (campaign.outcome, campaign.reason) == (Outcome.REVERTED, reason)


def test_a_finalization_without_any_test_does_not_pass() -> None:
    finalizing = fold(at_stage(Stage.FINALIZING), (tale.placed(3, Phase.FINALIZE, winner=1),))
    done = tale.finalization().model_copy(update={"tests": ()})
    campaign, _ = advance(finalizing, Finalized(order=tale.F3, finalization=done))
    assert campaign.reason is ReasonCode.TESTS_FAILED


def test_a_moved_head_ends_a_waiting_campaign() -> None:
    campaign, _ = advance(at_stage(Stage.AWAIT_WINNER), HeadMoved(measured=tale.HEAD, now=tale.MOVED))
    assert (campaign.outcome, campaign.reason) == (Outcome.REVERTED, ReasonCode.REF_CHANGED)
    assert campaign.detail == tale.MOVED


def test_a_job_that_cannot_work_ends_the_campaign_with_what_it_said() -> None:
    failed = OrderFailed(order=tale.P1, reason=ReasonCode.PREFLIGHT_FAILED, detail="no test file")
    campaign, _ = advance(after(tale.requested(), tale.placed(1, Phase.PROFILE)), failed)
    assert (campaign.outcome, campaign.detail) == (Outcome.FAILED, "no test file")


def test_an_effect_is_owed_until_it_is_done_and_done_once() -> None:
    campaign = tale.until(2)
    keys = [effect.key for effect in owed_in(campaign, Zone.DECIDE)]
    assert keys == ["status/profiling/1", "mark/profiling/1"]
    done = EffectDone(key=keys[0], zone=Zone.DECIDE, ref="5")
    unannounced, _ = advance(campaign, done)
    assert unannounced.ref_of(keys[0]) is None
    campaign = fold(campaign, (EffectRequested(key=keys[0], zone=Zone.DECIDE), done, done))
    assert campaign.ref_of(keys[0]) == "5"
    assert campaign.ignored[-1].why == "this effect was done before"
    assert keys[0] not in [effect.key for effect in owed(campaign)]


def test_a_closing_campaign_says_everything_before_it_ends() -> None:
    campaign, _ = advance(at_stage(Stage.AWAIT_PROFILE), Cancelled(actor=tale.MIRA, comment_id=9))
    while campaign.stage is not Stage.ENDED:
        effect = owed_in(campaign, Zone.DECIDE)[0]
        if effect.key == "close":
            assert campaign.ref_of("result") == "1"
            assert campaign.outcome is not None
            campaign = fold(campaign, (tale.CampaignClosed(outcome=campaign.outcome),))
        else:
            key = effect.key
            campaign = fold(
                campaign,
                (EffectRequested(key=key, zone=Zone.DECIDE), EffectDone(key=key, zone=Zone.DECIDE, ref="1")),
            )
    assert campaign.ignored == ()


def test_a_push_may_only_follow_an_approval() -> None:
    for stage in Stage:
        if stage is not Stage.PUSHING:
            campaign, _ = advance(at_stage(stage), Pushed(commit=tale.COMMIT))
            assert campaign.pushed is None or stage is Stage.ENDED or stage is Stage.CLOSING


def file_passed(variant: int = 1, *, passed: bool = True, test: str = "test/test_op.py") -> FilePassed:
    [run] = tale.finalization(tests_pass=passed).tests
    return FilePassed(order=tale.F3, file=PassedFile(variant=variant, source="0" * 64, test=test, run=run))


def test_test_files_that_passed_are_kept_until_the_head_moves() -> None:
    finalizing = fold(at_stage(Stage.FINALIZING), (tale.placed(3, Phase.FINALIZE, winner=1),))
    first, second = file_passed(), file_passed(test="test/test_layer.py")
    campaign = fold(finalizing, (first, second))
    assert campaign.tested == (first.file, second.file) and campaign.stage is Stage.FINALIZING
    assert [type(effect) for effect in owed_in(campaign, Zone.MEASURE)] == [FinishWinner]
    pull = tale.pull().model_copy(update={"head_sha": tale.MOVED})
    assert advance(campaign, Repinned(before=tale.HEAD, pull=pull))[0].tested == ()
    renamed = tale.pull().model_copy(update={"head_ref": "renamed"})
    assert advance(campaign, Repinned(before=tale.HEAD, pull=renamed))[0].tested == campaign.tested


@pytest.mark.parametrize(
    ("fact", "why"),
    [(file_passed(2), "another variant was tested"), (file_passed(passed=False), "it did not pass")],
)
def test_no_other_file_counts(fact: FilePassed, why: str) -> None:
    finalizing = fold(at_stage(Stage.FINALIZING), (tale.placed(3, Phase.FINALIZE, winner=1),))
    campaign, _ = advance(finalizing, fact)
    assert campaign.tested == () and campaign.ignored[-1].why == why
    early, _ = advance(at_stage(Stage.OPTIMIZING), file_passed())
    assert early.tested == ()
