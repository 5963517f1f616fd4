"""A search that goes on on another machine: v0 is measured again there, then the best so far, then the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.campaign.effects import Effect, EndSearch, JudgeVariant, MeasureVariant, OpenRound, PushLineage, RaceNumbers
from bot.campaign.lineage import score_of
from bot.campaign.machine import advance, fold, owed
from bot.campaign.spending import _told
from bot.campaign.stopping import gpu_seconds, why_stop
from bot.campaign.sweeping import minutes
from bot.model.campaign import Campaign, StopReason, Zone
from bot.model.facts import (
    EffectDone,
    EffectRequested,
    Fact,
    MachineChanged,
    NumbersRaced,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.measurement import Evidence, Fault, Measurement, Runner
from bot.model.race import Race
from bot.model.verdict import Verdict
from tests.campaign.story import (
    ACCEPTED,
    CAMPAIGN,
    O2,
    P1,
    STAGNANT,
    WRONG,
    measurement,
    next_step,
    profile,
    to_the_search,
    variant,
)
from tests.examples import many

HERE = Runner(evidence=Evidence.MEASURED, arch="sm_90", gpu_name="NVIDIA H200", gpu_memory_mib=143771, gpu_uuid="GPU-1")
THERE = HERE.model_copy(update={"gpu_uuid": "GPU-2"})
THIRD = HERE.model_copy(update={"gpu_uuid": "GPU-3"})
FASTER = ACCEPTED.model_copy(update={"gain_over_best": 0.4})


def found(of: int, runner: Runner, seconds: float = 1.0) -> Measurement:
    return measurement(variant(of) if of else None).model_copy(update={"runner": runner, "seconds": seconds})


def opened(number: int, parent: int = 0) -> RoundOpened:
    return RoundOpened(order=O2, variant=variant(number, parent))


def measured(number: int, runner: Runner = HERE, seconds: float = 1.0) -> VariantMeasured:
    return VariantMeasured(order=O2, number=number, measurement=found(number, runner, seconds))


def judged(number: int, verdict: Verdict = ACCEPTED) -> VariantJudged:
    return VariantJudged(order=O2, number=number, verdict=verdict)


def a_round(number: int, verdict: Verdict = ACCEPTED, parent: int = 0, runner: Runner = HERE) -> tuple[Fact, ...]:
    return (opened(number, parent), measured(number, runner), judged(number, verdict))


def moved(runner: Runner = THERE, seconds: float = 1.0) -> MachineChanged:
    return MachineChanged(order=O2, baseline=found(0, runner, seconds))


def began(*facts: Fact, max_variants: int = 8, runner: Runner = HERE) -> Campaign:
    first = profile().model_copy(update={"baseline": found(0, runner, 5.0)})
    return fold(Campaign(id=CAMPAIGN), (*to_the_search(first, max_variants=max_variants), *facts))


def searching(*facts: Fact, max_variants: int = 8) -> Campaign:
    campaign = began(*facts, max_variants=max_variants)
    assert campaign.ignored == ()
    return campaign


def measure(number: int) -> MeasureVariant:
    return MeasureVariant(order=O2, number=number)


def judge(number: int) -> JudgeVariant:
    return JudgeVariant(order=O2, number=number)


def v0_of(campaign: Campaign) -> str:
    assert campaign.profile is not None
    return campaign.profile.baseline.runner.gpu_uuid


def test_without_an_incumbent_only_v0_is_measured_again() -> None:
    campaign = searching(*a_round(1, WRONG), moved())
    assert v0_of(campaign) == "GPU-2"
    assert [(one.baseline.runner.gpu_uuid, one.until) for one in campaign.left] == [("GPU-1", 1)]
    assert next_step(campaign) == OpenRound(order=O2, number=2)


def test_an_incumbent_that_wins_again_stays_what_everything_is_built_on() -> None:
    campaign = searching(*a_round(1), *a_round(2, parent=1), moved())
    assert campaign.stranded == 2 and next_step(campaign) == measure(2)
    campaign = fold(campaign, (measured(2, THERE),))
    assert campaign.lineage == (0, 1) and next_step(campaign) == judge(2)
    campaign = fold(campaign, (judged(2),))
    assert (campaign.lineage, campaign.stranded, campaign.ignored) == ((0, 1, 2), None, ())
    assert next_step(campaign) == OpenRound(order=O2, number=3)


def test_an_incumbent_that_loses_there_makes_way_for_the_one_before_down_to_v0() -> None:
    campaign = searching(*a_round(1), *a_round(2, parent=1), moved(), measured(2, THERE), judged(2, STAGNANT))
    assert campaign.lineage == (0, 1) and next_step(campaign) == measure(1)
    held = fold(campaign, (measured(1, THERE), judged(1)))
    assert held.lineage == (0, 1) and next_step(held) == OpenRound(order=O2, number=3)
    lost = fold(campaign, (measured(1, THERE), judged(1, WRONG)))
    assert lost.lineage == (0,) and next_step(lost) == OpenRound(order=O2, number=3)
    assert lost.ignored == held.ignored == ()


def test_a_job_that_dies_after_any_of_these_facts_is_followed_by_one_that_goes_on() -> None:
    facts = (moved(), measured(1, THERE), judged(1), opened(2, parent=1), measured(2, THERE), judged(2, WRONG))
    steps = [measure(1), judge(1), OpenRound(order=O2, number=2), measure(2), judge(2), OpenRound(order=O2, number=3)]
    for count, step in enumerate(steps, 1):
        assert next_step(searching(*a_round(1), *facts[:count])) == step


def test_a_job_that_dies_before_the_incumbent_is_measured_may_be_followed_by_a_third_machine() -> None:
    campaign = searching(*a_round(1), moved(), moved(THIRD))
    assert [one.baseline.runner.gpu_uuid for one in campaign.left] == ["GPU-1", "GPU-2"]
    assert v0_of(campaign) == "GPU-3" and next_step(campaign) == measure(1)
    back = fold(campaign, (measured(1, THIRD), judged(1), moved(HERE)))
    assert (v0_of(back), next_step(back)) == ("GPU-1", measure(1))


def test_back_where_the_incumbent_was_measured_before_anybody_measured_it_elsewhere_it_stands() -> None:
    campaign = searching(*a_round(1), moved(), moved(HERE))
    assert campaign.stranded is None and next_step(campaign) == OpenRound(order=O2, number=2)


def test_a_round_that_was_open_waits_for_the_incumbent() -> None:
    campaign = searching(*a_round(1), opened(2, parent=1), moved())
    assert campaign.left[0].until == 1 and next_step(campaign) == measure(1)
    campaign = fold(campaign, (measured(1, THERE),))
    assert next_step(campaign) == judge(1)
    lost = fold(campaign, (judged(1, WRONG),))
    assert next_step(lost) == measure(2), "what was built on it is still an idea"
    done = fold(lost, (measured(2, THERE), judged(2)))
    assert (done.lineage, done.ignored) == ((0, 2), ())


def test_it_is_held_against_v0_alone_and_a_new_one_against_the_best() -> None:
    campaign = searching(*a_round(1), *a_round(2, parent=1), moved(), measured(2, THERE), judged(2))
    campaign = fold(campaign, a_round(3, parent=2, runner=THERE))
    assert [(one.held_against, one.is_again) for one in campaign.rounds] == [(0, False), (0, True), (2, False)]


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (moved(HERE), "v0 was measured on this machine"),
        (moved(HERE.model_copy(update={"evidence": Evidence.STATIC})), "v0 was not measured there"),
        (moved(THERE.model_copy(update={"gpu_name": "NVIDIA H100 80GB HBM3"})), "it is another kind of GPU"),
        (moved(THERE.model_copy(update={"gpu_memory_mib": 81559})), "it is another kind of GPU"),
        (moved(THERE.model_copy(update={"arch": "sm_100"})), "it is another kind of GPU"),
        (moved().model_copy(update={"order": P1}), f"order {P1} is not open"),
        (MachineChanged(order=O2, baseline=found(1, THERE)), "another source was measured"),
        (
            MachineChanged(order=O2, baseline=found(0, THERE).model_copy(update={"fault": Fault(kind="memory")})),
            "v0 does not run there",
        ),
    ],
)
def test_a_machine_that_nobody_could_go_on_with_is_ignored(fact: MachineChanged, why: str) -> None:
    before = searching(*a_round(1))
    after, _ = advance(before, fact)
    assert [one.why for one in after.ignored] == [why]
    assert after.model_copy(update={"ignored": ()}) == before


@pytest.mark.parametrize("name", ["driver", "torch", "triton"])
def test_other_software_is_another_machine(name: str) -> None:
    campaign = searching(*a_round(1), moved(HERE.model_copy(update={name: "999"})))
    assert next_step(campaign) == measure(1)


@pytest.mark.parametrize(("mib", "is_same"), [(0, True), (136600, True), (136500, False)])
def test_a_few_mib_more_are_the_same_gpu_and_earlier_journals_tell_none(mib: int, is_same: bool) -> None:
    campaign = began(moved(), runner=HERE.model_copy(update={"gpu_memory_mib": mib}))
    assert (campaign.ignored == ()) is is_same and (v0_of(campaign) == "GPU-2") is is_same


def test_estimates_are_made_again_under_another_compiler() -> None:
    static = Runner(evidence=Evidence.STATIC, arch="sm_90", triton="3.6.0")
    newer = static.model_copy(update={"triton": "3.7.0"})
    campaign = began(*a_round(1, runner=static), moved(newer), runner=static)
    assert campaign.ignored == () and next_step(campaign) == measure(1)


def test_what_was_measured_where_v0_was_is_judged_before_the_machine_changes() -> None:
    before = searching(opened(1), measured(1))
    after, _ = advance(before, moved())
    assert [one.why for one in after.ignored] == ["what was measured before has no verdict yet"]
    assert v0_of(after) == "GPU-1"


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (opened(2, parent=1), "v1 was not measured on this machine yet"),
        (NumbersRaced(order=O2, race=Race(of=1)), "v1 was not measured on this machine yet"),
        (SearchEnded(order=O2, why=StopReason.STAGNATION), "v1 was not measured on this machine yet"),
        (measured(1, HERE), "v0 and v1 are of two machines"),
        (judged(1), "v1 was judged before"),
        (
            VariantMeasured(order=O2, number=1, measurement=found(2, THERE)),
            "another source was measured",
        ),
    ],
)
def test_nothing_comes_before_the_incumbent(fact: Fact, why: str) -> None:
    before = searching(*a_round(1), moved())
    after, _ = advance(before, fact)
    assert [one.why for one in after.ignored] == [why]
    assert after.model_copy(update={"ignored": ()}) == before


def test_an_open_round_is_not_measured_before_the_incumbent_nor_between_its_measurement_and_its_verdict() -> None:
    campaign = searching(*a_round(1), opened(2, parent=1), moved())
    early, _ = advance(campaign, measured(2, THERE))
    assert early.ignored[-1].why == "v1 was not measured on this machine yet"
    between, _ = advance(fold(campaign, (measured(1, THERE),)), measured(2, THERE))
    assert between.ignored[-1].why == "what was measured before has no verdict yet"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_who_is_not_the_incumbent_is_not_measured_twice(number: int) -> None:
    campaign = searching(*a_round(1), *a_round(2, parent=1), *a_round(3, WRONG, parent=2), moved())
    after, _ = advance(campaign, measured(number, THERE))
    assert (after.ignored == ()) is (number == 2)
    still, _ = advance(searching(*a_round(1)), measured(1, THERE))
    assert [one.why for one in still.ignored] == ["v1 is not being measured"], "the machine did not change"


def test_it_is_no_new_variant_but_its_seconds_count() -> None:
    before = searching(*a_round(1), max_variants=2)
    after = fold(before, (moved(seconds=7.0), measured(1, THERE, 11.0), judged(1)))
    assert gpu_seconds(before) == 6.0 and gpu_seconds(after) == 6.0 + 7.0 + 11.0
    assert (_told(moved(seconds=7.0)), _told(measured(1, THERE, 11.0))) == (7.0, 11.0)
    assert minutes(after) == 24.0 / 60
    assert len(after.rounds) == 1 and next_step(after) == OpenRound(order=O2, number=2)


def test_minutes_that_are_spent_by_it_end_the_search_with_numbers_of_one_machine() -> None:
    campaign = searching(*a_round(1), moved(seconds=1e6))
    assert why_stop(campaign) is StopReason.GPU_TIME_SPENT
    assert next_step(campaign) == measure(1)
    done = fold(campaign, (measured(1, THERE), judged(1)))
    assert next_step(done) == EndSearch(order=O2, why=StopReason.GPU_TIME_SPENT)


def test_a_share_of_the_roof_that_was_read_elsewhere_ends_no_search() -> None:
    score = ACCEPTED.score
    assert score is not None
    near = ACCEPTED.model_copy(update={"score": score.model_copy(update={"roof_percent": 95.0})})
    campaign = searching(*a_round(1, near), moved())
    assert next_step(campaign) == measure(1)
    done = fold(campaign, (measured(1, THERE), judged(1)))
    assert next_step(done) == OpenRound(order=O2, number=2)
    assert score_of(done, 1) == score


def test_standing_still_is_told_anew_once_the_best_is_lost_and_not_when_it_holds() -> None:
    campaign = searching(*a_round(1), *a_round(2, STAGNANT, parent=1), moved(), measured(1, THERE))
    assert campaign.stagnant == 1
    assert fold(campaign, (judged(1, FASTER),)).stagnant == 1
    assert fold(campaign, (judged(1, STAGNANT),)).stagnant == 0
    assert fold(campaign, (judged(1, WRONG),)).stagnant == 0


def test_its_branch_is_told_the_new_numbers() -> None:
    key = PushLineage(incumbent=1).key
    pushed = (EffectRequested(key=key, zone=Zone.PUBLISH), EffectDone(key=key, zone=Zone.PUBLISH, ref="c" * 40))
    campaign = searching(*a_round(1), *pushed)
    assert PushLineage(incumbent=1) not in owed(campaign)
    again = fold(campaign, (moved(), measured(1, THERE), judged(1)))
    assert PushLineage(incumbent=1) in owed(again)
    after = fold(again, pushed)
    assert after.ignored == () and PushLineage(incumbent=1) not in owed(after)


VERDICTS = (ACCEPTED, STAGNANT, WRONG)


def carried_out(campaign: Campaign, step: Effect, runner: Runner, verdict: Verdict) -> Fact:
    """As a job on that machine would."""
    assert campaign.profile is not None
    before = campaign.profile.baseline.runner
    match step:
        case JudgeVariant(number=number):
            played = campaign.round_of(number)
            assert played is not None and played.measurement is not None
            assert not played.measurement.runner.differs_in(before), "two machines meet in one ratio"
            return judged(number, verdict)
        case EndSearch(why=why):
            return SearchEnded(order=O2, why=why)
        case _ if runner.differs_in(before):
            return moved(runner)
        case MeasureVariant(number=number):
            return measured(number, runner)
        case OpenRound(number=number):
            return opened(number, campaign.incumbent)
        case RaceNumbers(incumbent=incumbent):
            return NumbersRaced(order=O2, race=Race(of=incumbent))
        case _:
            raise AssertionError(step)


@settings(max_examples=many(200))
@given(st.lists(st.tuples(st.sampled_from((HERE, THERE, THIRD)), st.sampled_from(VERDICTS)), max_size=60))
def test_wherever_a_search_goes_on_two_machines_never_meet(turns: list[tuple[Runner, Verdict]]) -> None:
    campaign = searching()
    for runner, verdict in turns:
        if campaign.order is None:
            break
        step = next_step(campaign)
        if isinstance(step, OpenRound | RaceNumbers | EndSearch):
            assert campaign.stranded is None
        campaign = fold(campaign, (carried_out(campaign, step, runner, verdict),))
        assert campaign.ignored == ()
        assert list(campaign.lineage) == sorted(set(campaign.lineage))
        assert {0, *(one.variant.number for one in campaign.rounds if one.is_accepted)} == set(campaign.lineage)
