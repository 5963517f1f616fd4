"""A score that a GPU timed comes from the blocks of fresh processes, and carries what they leave open."""

from __future__ import annotations

import math
from statistics import stdev
from typing import Any

import pytest

from bot.analysis.measured import block_timed, confirmed_processes, controls
from bot.analysis.stats import Incomparable, estimate_over_all, score
from bot.model.commands import Goal, Scope
from bot.model.measurement import Case, CaseResult, Evidence, Measurement, Paired, Reading
from bot.model.verdict import Score
from tests.analysis import made
from tests.analysis.blocks import exact, paired, readings

FWD, BWD, WIDE = made.case("forward"), made.case("backward"), made.case("forward", cols=8192)


def timed(of: Case, found: Paired | None, **fields: Any) -> CaseResult:
    return made.result(of, made.launch(), minimum_bytes=1000, paired=found, **fields)


def measured(*results: CaseResult) -> Measurement:
    return made.measurement(*results, evidence=Evidence.MEASURED)


def weigh(*pairs: tuple[Case, Paired], scope: Scope = Scope.FORWARD, goal: Goal = Goal.SPEED) -> Score:
    suite = made.suite(*(of for of, _ in pairs))
    before = made.measured(dict.fromkeys(suite.cases, 777.0))
    after = measured(*(timed(of, found, memory_bytes=500) for of, found in pairs))
    return score(before, after, suite, scope, goal)


def test_the_score_is_what_the_blocks_say_and_not_what_v0_took_another_day() -> None:
    found = weigh((FWD, paired([25.0] * 5)))
    assert found.value == pytest.approx(1.25)
    assert found.cases[0].before_us == 100.0
    assert found.cases[0].after_us == pytest.approx(80.0)
    assert found.cases[0].speedup == pytest.approx(1.25)


def test_times_shown_are_medians_of_all_blocks_and_the_ratio_is_not_their_quotient() -> None:
    """A hundred slow microseconds that both arms shared move a median; a ratio inside a block does not care."""
    slow = Reading(blocks=exact(25.0, 20, us=200.0))
    found = weigh((FWD, Paired(tier="replay", search=slow, confirm=(slow, *readings(25.0, 25.0, 20.0, 20.0)))))
    assert found.cases[0].before_us == 100.0
    assert found.cases[0].speedup == pytest.approx((1.25**3 * 1.2**2) ** (1 / 5))


def test_the_race_is_never_published_where_there_is_a_confirmation() -> None:
    lucky = paired([2.0] * 5).model_copy(update={"search": Reading(blocks=exact(9.0))})
    assert weigh((FWD, lucky)).value == pytest.approx(1.02)


def test_what_only_the_race_saw_has_no_interval() -> None:
    found = weigh((FWD, Paired(tier="replay", search=Reading(blocks=exact(9.0)))))
    assert found.value == pytest.approx(1.09)
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(("count", "known"), [(2, False), (3, True)])
def test_an_interval_needs_three_processes(count: int, known: bool) -> None:
    found = weigh((FWD, paired([9.0] * count)))
    assert (found.low is not None, found.high is not None) == (known, known)


def test_the_interval_is_student_s_over_the_processes_geometric_means() -> None:
    """Two cases that always disagree by chance agree in every process's mean; two that move together do not."""
    one, other = (1.0, 3.0, 1.0, 3.0, 2.0), (3.0, 1.0, 3.0, 1.0, 2.0)
    apart = weigh((FWD, paired(one)), (WIDE, paired(other)))
    together = weigh((FWD, paired(one)), (WIDE, paired(one)))
    assert apart.low is not None and apart.high is not None and together.low is not None and together.high is not None
    assert apart.value == pytest.approx(together.value, abs=1e-4)
    assert apart.high - apart.low < 0.001
    logs = [math.log1p(percent / 100) for percent in one]
    half = 2.7764 * stdev(logs) / math.sqrt(5)
    assert together.low == pytest.approx(math.exp(sum(logs) / 5 - half), abs=1e-6)
    assert together.high == pytest.approx(math.exp(sum(logs) / 5 + half), abs=1e-6)


def test_weights_count_for_the_mean_and_for_the_interval() -> None:
    heavy = made.case("forward", cols=512, weight=3.0)
    found = weigh((FWD, paired([0.0] * 5)), (heavy, paired([8.0] * 5)))
    assert found.value == pytest.approx(1.08 ** (3 / 4))
    steady = weigh((FWD, paired([1.0, 3.0, 2.0])), (heavy, paired([2.0] * 3)))
    shaken = weigh((FWD, paired([2.0] * 3)), (heavy, paired([1.0, 3.0, 2.0])))
    assert steady.high is not None and shaken.high is not None
    assert shaken.high - shaken.value == pytest.approx(3 * (steady.high - steady.value), rel=0.05)


def test_forward_and_backward_of_a_shape_are_one_step() -> None:
    """100 + 300 us become 50 + 300: 400 over 350, whatever the ratios of the passes."""
    found = weigh((FWD, paired([100.0] * 5)), (BWD, paired([0.0] * 5, us=300.0)), scope=Scope.GENERAL)
    assert found.value == pytest.approx(400 / 350)
    assert found.low == pytest.approx(400 / 350)


def test_a_pass_shakes_the_step_by_its_share_of_it() -> None:
    small = weigh((FWD, paired([0.0, 2.0, 1.0])), (BWD, paired([1.0] * 3, us=900.0)), scope=Scope.GENERAL)
    alone = weigh((FWD, paired([0.0, 2.0, 1.0])))
    assert small.high is not None and alone.high is not None
    assert small.high - small.value == pytest.approx((alone.high - alone.value) / 10, rel=0.05)


def test_where_one_case_lacks_a_process_all_go_without_it() -> None:
    suite = made.suite(FWD, WIDE)
    after = measured(timed(FWD, paired([1.0, 1.0, 1.0, 9.0])), timed(WIDE, paired([1.0] * 3)))
    found = estimate_over_all(after, suite, Scope.FORWARD)
    assert found is not None
    assert len(found.processes) == 3
    assert found.gain == pytest.approx(0.01)
    assert confirmed_processes(after) == 3


def test_who_lacks_a_process_lacks_that_one() -> None:
    """The second process was slow for both cases, and one of them was not read in the first: what is left of a process
    is held beside itself, and not beside the next one."""
    slow = (1.0, 5.0, 1.0, 1.0, 1.0)
    lacking = paired(slow).model_copy(update={"confirm": (Reading(blocks=()), *readings(*slow[1:]))})
    after = measured(timed(FWD, paired(slow)), timed(WIDE, lacking))
    found = estimate_over_all(after, made.suite(FWD, WIDE), Scope.FORWARD)
    assert found is not None
    assert [math.expm1(process.mean) for process in found.processes] == pytest.approx([0.05, 0.01, 0.01, 0.01])


def test_processes_that_read_other_cases_are_not_counted_together() -> None:
    first, last = readings(*[1.0] * 5)[:4], Reading(blocks=())
    early, late = (paired([1.0] * 5).model_copy(update={"confirm": c}) for c in ((*first, last), (last, *first)))
    after = measured(timed(FWD, early), timed(WIDE, late))
    assert confirmed_processes(after) == 3, "each case has four, and three of them are the same"
    apart = paired([1.0, 1.0])
    odd, even = (apart.model_copy(update={"confirm": c}) for c in ((first[0], last), (last, first[0])))
    found = estimate_over_all(measured(timed(FWD, odd), timed(WIDE, even)), made.suite(FWD, WIDE), Scope.FORWARD)
    assert found is not None and len(found.processes) == 1 and math.isinf(found.between)


def test_one_case_that_nobody_confirmed_leaves_the_whole_score_without_an_interval() -> None:
    raced = Paired(tier="replay", search=Reading(blocks=exact(2.0)))
    found = weigh((FWD, paired([2.0] * 5)), (WIDE, raced))
    assert found.value == pytest.approx(1.02)
    assert found.low is None


@pytest.mark.parametrize(("goal", "value", "known"), [(Goal.MEMORY, 2.0, False), (Goal.BALANCED, 1.428, True)])
def test_memory_is_counted_and_has_no_interval_of_its_own(goal: Goal, value: float, known: bool) -> None:
    found = weigh((FWD, paired([1.0, 3.0, 2.0])), goal=goal)
    assert found.value == pytest.approx(value, abs=0.001)
    assert (found.low is not None) is known
    if known:
        assert found.low is not None and found.high is not None and found.speed is not None
        assert found.low < math.sqrt(2 * found.speed) < found.high


@pytest.mark.parametrize(
    "unread",
    [
        None,
        Paired(tier="replay", search=Reading(blocks=())),
        Paired(tier="worker", search=Reading(blocks=exact(2.0, 11))),
    ],
)
def test_a_case_that_nobody_read_refuses_the_score(unread: Paired | None) -> None:
    suite = made.suite(FWD, WIDE)
    before = made.measured(dict.fromkeys(suite.cases, 100.0))
    after = measured(timed(FWD, paired([2.0] * 5)), timed(WIDE, unread, us=90.0))
    with pytest.raises(Incomparable, match=f"not timed against v0 at {WIDE.id}"):
        score(before, after, suite, Scope.FORWARD, Goal.SPEED)


def test_a_time_that_is_none_refuses_it_as_well() -> None:
    broken = Paired(tier="replay", search=Reading(blocks=((100.0, 100.0, -5.0, 100.0),) * 20))
    with pytest.raises(ValueError, match="positive"):
        weigh((FWD, broken))


def test_a_compiled_variant_is_modelled_whatever_blocks_it_brings() -> None:
    suite = made.suite(FWD)
    before = made.measurement(made.result(FWD, made.launch(resources=made.resources(instructions=800))))
    plain = made.measurement(made.result(FWD, made.launch()))
    claimed = made.measurement(made.result(FWD, made.launch(), paired=paired([900.0] * 8)))
    assert score(before, claimed, suite, Scope.FORWARD, Goal.SPEED) == score(
        before, plain, suite, Scope.FORWARD, Goal.SPEED
    )


def test_the_roof_is_held_against_the_blocks() -> None:
    """1000 bytes in 80 us, whatever time stands beside the blocks."""
    after = block_timed(measured(timed(FWD, paired([25.0] * 5), us=1.0)))
    assert after.cases[0].timing is not None
    assert after.cases[0].timing.median_us == pytest.approx(80.0)


def test_controls_are_kept_apart() -> None:
    found = controls(measured(timed(FWD, paired([2.0] * 5, control=[0.1] * 5)), timed(WIDE, paired([2.0] * 5))))
    assert list(found) == [FWD.id]
    assert found[FWD.id].gain == pytest.approx(0.001)


def test_what_blocks_leave_open_shrinks_with_the_cases() -> None:
    """Processes that agree to the last bit leave the scatter of their blocks, and two cases halve its square."""
    wobbling = Reading(blocks=tuple((100.0, 100.0, 98.0 + d, 98.0 + d) for d in (-2.0, 2.0) * 20))
    found = Paired(tier="replay", search=wobbling, confirm=(wobbling,) * 5)
    suite = made.suite(FWD, WIDE)
    both = estimate_over_all(measured(timed(FWD, found), timed(WIDE, found)), suite, Scope.FORWARD)
    one = estimate_over_all(measured(timed(FWD, found)), made.suite(FWD), Scope.FORWARD)
    assert both is not None and one is not None
    assert one.within > 0
    assert both.within == pytest.approx(one.within / math.sqrt(2))
