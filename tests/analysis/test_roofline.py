"""The roof: minimum bytes at the bandwidth of a datasheet."""

from __future__ import annotations

import pytest

from bot.analysis.roofline import above_the_roof, case_percent, roof_percent
from bot.hardware.catalog import for_arch
from bot.model.measurement import Evidence
from tests.analysis import made

H200 = for_arch("sm_90")
CASE, OTHER = made.case(), made.case("backward")
ROOF_US = 10.0
BYTES = int(ROOF_US * 4_800_000)


def at(us: float, moved: int = BYTES) -> made.CaseResult:
    return made.result(CASE, made.launch(), us=us, minimum_bytes=moved)


def test_ten_microseconds_of_traffic_in_ten_microseconds_are_the_roof() -> None:
    assert case_percent(at(10.0), H200) == pytest.approx(100)
    assert case_percent(at(40.0), H200) == pytest.approx(25)


def test_no_time_no_bytes_or_no_bandwidth_is_no_percentage() -> None:
    assert case_percent(made.result(CASE, made.launch()), H200) is None
    assert case_percent(at(1.0, moved=0), H200) is None
    assert case_percent(at(1.0), H200.model_copy(update={"memory_bandwidth": None})) is None


@pytest.mark.parametrize(("us", "caught"), [(10 / 1.05 + 1e-9, False), (10 / 1.051, True)])
def test_what_is_more_than_five_percent_above_the_roof_is_named(us: float, caught: bool) -> None:
    found = above_the_roof(made.measurement(at(us), evidence=Evidence.MEASURED))
    assert [case for case, _ in found] == ([CASE.id] if caught else [])


def test_a_mean_over_some_cases_leaves_out_the_others() -> None:
    suite = made.suite(CASE, OTHER)
    slow = made.result(OTHER, made.launch(), us=100.0, minimum_bytes=BYTES)
    both = made.measurement(at(10.0), slow, evidence=Evidence.MEASURED)
    assert roof_percent(both, suite, {CASE.id}) == pytest.approx(100)
    assert roof_percent(both, suite, {CASE.id, OTHER.id}) == pytest.approx((100 * 10) ** 0.5)


def test_one_case_without_a_roof_leaves_the_mean_without_one() -> None:
    both = made.measurement(at(10.0), made.result(OTHER, made.launch()), evidence=Evidence.MEASURED)
    assert roof_percent(both, made.suite(CASE, OTHER), {CASE.id, OTHER.id}) is None
    assert roof_percent(made.measurement(), made.suite(CASE), {CASE.id}) is None
