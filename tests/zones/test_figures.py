"""What pictures are drawn from: intervals and noise from raw blocks, rates from bytes and times, roofs with a name."""

from __future__ import annotations

import math
from statistics import stdev

import pytest

from bot.model.campaign import Campaign
from bot.model.diagnosis import CaseRoof
from bot.model.measurement import Evidence, Runner
from bot.model.reasons import ReasonCode
from bot.render import view
from bot.zones.figures import figures_of
from tests.analysis.blocks import paired, readings
from tests.render import builders as a

SEEN = (24.0, 26.0, 24.5, 25.5, 25.0)
"""Percent faster, one a fresh process."""


def timed(runner: Runner = a.GPU_RUNNER, count: int = len(SEEN), cases: int | None = None) -> Campaign:
    """The measured campaign with blocks behind every case of v3, and a copy timed beside v0."""
    found = paired(SEEN[:count]).model_copy(update={"control": readings(0.5, -0.5, 0.5)})
    played = a.rounds(Evidence.MEASURED)[2]
    assert played.measurement is not None
    results = tuple(one.model_copy(update={"paired": found}) for one in played.measurement.cases[:cases])
    measurement = played.measurement.model_copy(update={"cases": results, "runner": runner})
    campaign = a.measured()
    assert campaign.profile is not None
    baseline = campaign.profile.baseline
    copied = tuple(one.model_copy(update={"roof_us": 2.0}) for one in baseline.cases)
    profile = campaign.profile.model_copy(
        update={"baseline": baseline.model_copy(update={"cases": copied, "runner": runner})}
    )
    rounds = (*campaign.rounds[:2], played.model_copy(update={"measurement": measurement}))
    return campaign.model_copy(update={"profile": profile, "rounds": rounds})


def test_whiskers_are_student_s_over_the_processes() -> None:
    spread = figures_of(timed()).spread(3)
    logs = [math.log1p(percent / 100) for percent in SEEN]
    half = 2.7764 * stdev(logs) / math.sqrt(5)
    assert len(spread.cases) == len(a.SUITE.cases)
    low, high = spread.cases["forward-512x1024-bfloat16"]
    assert low == pytest.approx(math.exp(sum(logs) / 5 - half), abs=1e-5)
    assert high == pytest.approx(math.exp(sum(logs) / 5 + half), abs=1e-5)


def test_the_noise_is_what_v0_against_itself_showed() -> None:
    assert figures_of(timed()).spread(3).noise_percent == pytest.approx(
        100 * math.expm1(math.log1p(0.005) / 3), rel=0.02
    )
    assert figures_of(a.measured()).spread(3).noise_percent is None


@pytest.mark.parametrize(("count", "known"), [(2, 0), (3, len(a.SUITE.cases))])
def test_two_processes_have_no_whiskers(count: int, known: int) -> None:
    assert len(figures_of(timed(count=count)).spread(3).cases) == known


def test_half_a_measurement_is_drawn_without_whiskers() -> None:
    assert figures_of(timed(cases=4)).spread(3).cases == {}


def test_a_model_has_no_whiskers() -> None:
    assert all(not spread.cases for spread in figures_of(a.searched()).spreads.values())


def test_rates_are_least_bytes_over_time() -> None:
    campaign = timed()
    roof = figures_of(campaign).roof
    assert roof is not None
    point = next(one for one in roof.points if one.case == "forward-2048x4096-bfloat16")
    size = 4 * 2048 * 4096
    assert point.before == pytest.approx(size / 14.2e-6 / 1e9)
    assert point.plain == pytest.approx(size / 2.0e-6 / 1e9)
    score = view.score_of(campaign, 3)
    assert score is not None
    after = next(case.after_us for case in score.cases if case.case == point.case)
    assert point.after == pytest.approx(size / (after * 1e-6) / 1e9)


def test_before_the_search_there_is_no_after() -> None:
    roof = figures_of(a.profiled()).roof
    assert roof is not None
    assert {point.after for point in roof.points} == {None}
    assert {point.plain for point in roof.points} == {None}
    assert figures_of(a.requested()).roof is None


def test_a_gpu_nobody_described_has_no_roof() -> None:
    known, strange = (
        figures_of(timed()).roof,
        figures_of(timed(a.GPU_RUNNER.model_copy(update={"gpu_name": "X1"}))).roof,
    )
    assert known is not None and strange is not None
    assert (known.ceiling, known.gpu) == (4800, "NVIDIA H200 SXM")
    assert strange.ceiling is None


def test_a_case_that_has_nothing_to_move_or_a_share_that_cannot_be_is_no_point() -> None:
    campaign = timed()
    profile = campaign.profile
    assert profile is not None
    nothing, wrong, *others = [case.id for case in profile.suite.cases]
    cases = tuple(
        one.model_copy(update={"minimum_bytes": 0}) if one.case == nothing else one for one in profile.baseline.cases
    )
    roofs = (
        CaseRoof(case=wrong, minimum_bytes=1, reason=ReasonCode.ABOVE_THE_ROOF),
        *(CaseRoof(case=other, minimum_bytes=1) for other in others),
    )
    changed = profile.model_copy(
        update={
            "baseline": profile.baseline.model_copy(update={"cases": cases}),
            "diagnosis": profile.diagnosis.model_copy(update={"roofs": roofs}),
        }
    )
    roof = figures_of(campaign.model_copy(update={"profile": changed})).roof
    assert roof is not None
    assert [point.case for point in roof.points] == others
