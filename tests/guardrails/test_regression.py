"""regression: BC-01 and BC-03, and what a note is worth."""

from __future__ import annotations

import math

import pytest

from bot.guardrails import Hearing, judge
from bot.guardrails.regression import regression
from bot.model.commands import Goal, Scope
from bot.model.measurement import Evidence
from bot.model.verdict import CaseScore, Decision, Finding
from tests.guardrails import hearings as h


def rejected(heard: Hearing) -> list[Finding]:
    return [finding for finding in regression(h.weighed(heard)) if finding.severity == "reject"]


@pytest.mark.parametrize("goal", [Goal.SPEED, Goal.BALANCED])
def test_bc_01_memory_may_grow_by_five_percent_and_not_by_a_byte_more(goal: Goal) -> None:
    assert rejected(h.hearing(memory={h.SMALL_BACKWARD: 1050}, goal=goal)) == []
    (found,) = rejected(h.hearing(memory={h.SMALL_BACKWARD: 1051}, goal=goal))
    assert found.case == h.SMALL_BACKWARD
    assert found.message == (
        f"{h.SMALL_BACKWARD} needs 5.10 % more memory (1051 B, v0 1000 B); with goal={goal} at most 5 % is allowed"
    )


@pytest.mark.parametrize("goal", [Goal.MEMORY, Goal.BALANCED])
def test_bc_01_a_time_may_grow_by_five_percent_and_not_by_more(goal: Goal) -> None:
    less = dict.fromkeys(h.NAMES, 800)
    assert rejected(h.hearing({h.SMALL_BACKWARD: 105.0}, less, goal=goal)) == []
    (found,) = rejected(h.hearing({h.SMALL_BACKWARD: 105.01}, less, goal=goal))
    assert "5.01 % slower than v0 (105 us, v0 100 us); with goal" in found.message


@pytest.mark.parametrize(("memory", "refused"), [(1052, False), (1053, True)])
def test_bc_03_holds_for_memory_where_memory_was_asked_for(memory: int, refused: bool) -> None:
    """1000 / 1053 is a loss of 5.03 %; a step needs as much as its hungriest pass."""
    less = dict.fromkeys(h.NAMES, 500)
    findings = rejected(h.hearing(memory=less | {h.BIG_FORWARD: memory}, goal=Goal.MEMORY))
    assert bool(findings) is refused
    if refused:
        assert f"{h.BIG_FORWARD} + {h.BIG_BACKWARD} loses 5.03 % of v0's memory score" in findings[0].message


def test_where_nobody_needs_memory_nobody_loses_any() -> None:
    none = h.measurement(h.V0, 100.0, memory=dict.fromkeys(h.NAMES, 0))
    assert rejected(h.hearing(memory=dict.fromkeys(h.NAMES, 0), baseline=none, goal=Goal.MEMORY)) == []


def test_memory_where_there_was_none_is_more_than_five_percent() -> None:
    none = h.measurement(h.V0, 100.0, memory=dict.fromkeys(h.NAMES, 0))
    (found,) = rejected(h.hearing(memory=dict.fromkeys(h.NAMES, 0) | {h.BIG_FORWARD: 4}, baseline=none))
    assert found.message.startswith(f"{h.BIG_FORWARD} needs memory where v0 needs none (4 B, v0 0 B)")
    assert rejected(h.hearing(memory=dict.fromkeys(h.NAMES, 0), baseline=none)) == []


@pytest.mark.parametrize(("speed", "refused"), [(0.95, True), (0.9501, False), (0.9, True), (1.0, False)])
def test_bc_03_a_shape_that_loses_five_percent_is_refused(speed: float, refused: bool) -> None:
    """The score is a speed: -5.0 % of it is a time of v0 / 0.95."""
    heard = h.hearing({h.SMALL_FORWARD: 100 / speed}, scope=Scope.FORWARD)
    assert bool(rejected(heard)) is refused


def test_bc_03_a_loss_below_five_percent_with_a_better_score_is_accepted_with_a_note() -> None:
    verdict = judge(h.hearing({h.BIG_FORWARD: 60.0, h.SMALL_FORWARD: 100 / 0.9501}, scope=Scope.FORWARD))
    assert verdict.decision is Decision.ACCEPTED_WITH_NOTE
    assert verdict.reason == f"{h.SMALL_FORWARD} is 5.25 % slower than v0 (105.3 us, v0 100 us)"


def test_the_refusal_says_what_was_lost_and_how_much_may_be() -> None:
    (found,) = rejected(h.hearing({h.SMALL_FORWARD: 125.0}, scope=Scope.FORWARD))
    assert found.message == f"{h.SMALL_FORWARD} loses 20.00 % of v0's speed; it has to be less than 5 %"


def test_in_a_general_request_a_step_counts_and_not_its_passes() -> None:
    """C-06: without a full pass, forward and backward of a shape are one step."""
    assert rejected(h.hearing({h.SMALL_FORWARD: 115.0, h.SMALL_BACKWARD: 80.0})) == []
    (found,) = rejected(h.hearing({h.SMALL_FORWARD: 125.0, h.SMALL_BACKWARD: 90.0}))
    assert found.message.startswith(f"{h.SMALL_FORWARD} + {h.SMALL_BACKWARD} loses 6.98 %")


def test_what_was_not_asked_about_may_be_slower_when_speed_alone_was_asked_for() -> None:
    heard = h.hearing({h.SMALL_BACKWARD: 108.0}, scope=Scope.FORWARD)
    findings = regression(h.weighed(heard))
    assert [(f.severity, f.case) for f in findings] == [("note", h.SMALL_BACKWARD)]


@pytest.mark.parametrize(("us", "notes"), [(100.0, 0), (100.004, 0), (100.01, 1)])
def test_a_loss_that_would_be_printed_as_nothing_is_not_noted(us: float, notes: int) -> None:
    assert len(regression(h.weighed(h.hearing({h.SMALL_FORWARD: us})))) == notes


def test_a_modelled_time_is_called_an_estimate() -> None:
    heard = h.weighed(h.hearing({h.SMALL_FORWARD: 104.0}))
    static = heard.model_copy(update={"score": heard.score.model_copy(update={"evidence": Evidence.STATIC})})
    assert "(104 us, v0 100 us, estimated)" in h.said(regression(static))


@pytest.mark.parametrize("goal", list(Goal))
def test_a_time_that_is_no_number_never_passes(goal: Goal) -> None:
    """Nothing parsed can hold a NaN; should arithmetic make one, the limit is broken and not kept."""
    heard = h.weighed(h.hearing(goal=goal, scope=Scope.FORWARD, memory=dict.fromkeys(h.NAMES, 900)))
    cases = tuple(
        CaseScore.model_construct(case=c.case, before_us=100.0, after_us=math.nan, speedup=math.nan, memory_ratio=1.0)
        for c in heard.score.cases
    )
    spoiled = heard.model_copy(update={"score": heard.score.model_copy(update={"cases": cases})})
    assert any(finding.severity == "reject" for finding in regression(spoiled))


@pytest.mark.parametrize(("before", "after"), [(0.0, 100.0), (100.0, 0.0), (-1.0, 1.0)])
def test_a_time_of_nothing_is_no_speed(before: float, after: float) -> None:
    heard = h.weighed(h.hearing(scope=Scope.FORWARD))
    cases = tuple(c.model_copy(update={"before_us": before, "after_us": after}) for c in heard.score.cases)
    spoiled = heard.model_copy(update={"score": heard.score.model_copy(update={"cases": cases})})
    assert any(finding.severity == "reject" for finding in regression(spoiled))
