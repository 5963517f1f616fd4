"""implausible: a clock cannot beat the memory (E20)."""

from __future__ import annotations

import math

import pytest

from bot.guardrails import judge
from bot.guardrails.implausible import implausible
from bot.model.verdict import CaseScore, Decision
from tests.guardrails import hearings as h

ROOF_US = 20.0
"""96 MB at the 4800 GB/s of an H200's datasheet."""


@pytest.mark.parametrize(("share", "possible"), [(1.0, True), (1.0499, True), (1.0501, False), (10.0, False)])
def test_five_percent_above_the_datasheet_is_a_good_board_and_more_is_an_error(share: float, possible: bool) -> None:
    findings = implausible(h.weighed(h.hearing({h.BIG_FORWARD: ROOF_US / share})))
    assert (findings == []) is possible


def test_the_refusal_says_how_far_above() -> None:
    verdict = judge(h.hearing({h.BIG_FORWARD: 16.0}))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == f"{h.BIG_FORWARD} would run at 125.0 % of what the memory can do; at most 105 % can be"


def test_without_a_known_minimum_there_is_no_roof_to_break() -> None:
    zero = {"minimum_bytes": 0}
    baseline = h.measurement(h.V0, 100.0)
    before = baseline.model_copy(update={"cases": tuple(c.model_copy(update=zero) for c in baseline.cases)})
    heard = h.hearing({h.BIG_FORWARD: 1.0}, baseline=before)
    heard = h.changed(heard, cases=tuple(c.model_copy(update=zero) for c in heard.candidate.cases))
    assert implausible(h.weighed(heard)) == []


@pytest.mark.parametrize("us", [math.nan, 0.0, -1.0])
def test_durations_that_no_clock_can_show(us: float) -> None:
    ready = h.weighed(h.hearing())
    absurd = CaseScore.model_construct(case=h.BIG_FORWARD, before_us=100.0, after_us=us, speedup=us, memory_ratio=1.0)
    spoiled = ready.model_copy(update={"score": ready.score.model_copy(update={"cases": (absurd,)})})
    (found,) = implausible(spoiled)
    assert found.message == f"{h.BIG_FORWARD}: {us} us, v0 100.0 us: no clock can say that"


@pytest.mark.parametrize("whose", ["baseline", "candidate"])
@pytest.mark.parametrize(("us", "possible"), [(40.0, True), (38.1, True), (38.09, False), (5.0, False)])
def test_nothing_is_five_percent_faster_than_a_plain_copy_on_this_very_gpu(
    whose: str, us: float, possible: bool
) -> None:
    """A copy of the bytes takes 40 us here, whatever a datasheet says."""
    heard = h.hearing({h.BIG_FORWARD: us})
    side = getattr(heard, whose)
    cases = tuple(one.model_copy(update={"roof_us": 40.0}) if one.case == h.BIG_FORWARD else one for one in side.cases)
    heard = heard.model_copy(update={whose: side.model_copy(update={"cases": cases})})
    findings = implausible(h.weighed(heard))
    assert (findings == []) is possible
    assert possible or "a plain pass over its bytes 40 us" in h.said(findings)


def test_blocks_are_held_against_the_roof_and_not_a_time_that_is_claimed_beside_them() -> None:
    heard = h.hearing({h.BIG_FORWARD: 10.0})
    claimed = tuple(h.result(one.case, h.FASTER, 90.0) for one in heard.candidate.cases)
    mixed = (
        theirs.model_copy(update={"paired": ours.paired})
        for theirs, ours in zip(claimed, heard.candidate.cases, strict=True)
    )
    assert h.rejections(judge(h.changed(heard, cases=tuple(mixed)))) == ["implausible"]


@pytest.mark.parametrize(("alone", "severity"), [(38.09, "info"), (38.11, "reject")])
def test_a_copy_that_v0_alone_beats_is_no_roof(alone: float, severity: str) -> None:
    """What v0 took with no variant alive counts: its slots beside a variant may be the variant's work."""
    baseline = h.measurement(h.V0, 100.0, {h.BIG_FORWARD: alone})
    heard = h.hearing({h.BIG_FORWARD: 30.0}, baseline=baseline)
    heard = h.pairing(heard, h.BIG_FORWARD, confirm=h.paired(38.0, 30.0).confirm)
    cases = tuple(
        one.model_copy(update={"roof_us": 40.0}) if one.case == h.BIG_FORWARD else one for one in heard.candidate.cases
    )
    (found,) = implausible(h.weighed(h.changed(heard, cases=cases)))
    assert found.severity == severity


@pytest.mark.parametrize("copy_us", [None, 40.0])
@pytest.mark.parametrize(("grad", "possible"), [("drawn", False), ("one", True)])
def test_where_the_gradient_of_a_loss_is_one_no_memory_limits_the_backward_pass(
    copy_us: float | None, grad: str, possible: bool
) -> None:
    """The forward pass may have made what it returns, whoever counted bytes for it and whatever v0 does."""
    heard = h.with_gradient(h.hearing({h.BIG_BACKWARD: 3.0}), grad, h.BIG_BACKWARD)
    cases = (
        one.model_copy(update={"roof_us": copy_us}) if one.case == h.BIG_BACKWARD else one
        for one in heard.candidate.cases
    )
    findings = implausible(h.weighed(h.changed(heard, cases=tuple(cases))))
    assert (findings == []) is possible


def test_the_cases_beside_it_keep_their_roof() -> None:
    heard = h.with_gradient(h.hearing({h.BIG_BACKWARD: 3.0, h.BIG_FORWARD: 3.0}), "one", h.BIG_BACKWARD)
    assert {finding.case for finding in implausible(h.weighed(heard))} == {h.BIG_FORWARD}


@pytest.mark.parametrize(
    ("gain", "severity"), [(0.99, "info"), (1.0, "info"), (1.01, "info"), (1.0101, "reject"), (3.0, "reject")]
)
def test_no_variant_is_blamed_for_a_count_that_v0_disproves_too(gain: float, severity: str) -> None:
    """v0 takes 3 us where the memory needs 20: the bytes are wrong, and only who gains by that is asked why."""
    baseline = h.measurement(h.V0, 100.0, {h.BIG_FORWARD: 3.0})
    (found,) = implausible(h.weighed(h.hearing({h.BIG_FORWARD: 3.0 / gain}, baseline=baseline)))
    assert (found.severity, found.case) == (severity, h.BIG_FORWARD)
    assert ("v0 alone would as well" in found.message) is (severity == "info")


def test_a_v0_at_the_roof_excuses_nobody() -> None:
    at_most = ROOF_US / 1.05 + 1e-9
    baseline = h.measurement(h.V0, 100.0, {h.BIG_FORWARD: at_most})
    (found,) = implausible(h.weighed(h.hearing({h.BIG_FORWARD: at_most * 0.999}, baseline=baseline)))
    assert found.severity == "reject"
