"""The roof: minimum bytes at the bandwidth of a datasheet."""

from __future__ import annotations

import pytest

from bot.analysis.roofline import above_the_roof, case_percent, case_roof, roof_percent
from bot.hardware.catalog import for_arch
from bot.model.measurement import Evidence
from bot.model.reasons import ReasonCode
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


ONE = made.case("backward", rows=1, grad="one")


@pytest.mark.parametrize(
    ("us", "moved", "share"),
    [(1.0, 0, None), (1.0, BYTES, None), (10 / 1.051, BYTES, None), (10 / 1.05 + 1e-9, BYTES, 105), (40.0, BYTES, 25)],
)
def test_a_case_that_may_do_nothing_counts_where_it_has_a_share(us: float, moved: int, share: float | None) -> None:
    """Journals from before such bytes were none still have them, and a v0 that beats them."""
    one = made.result(ONE, us=us, minimum_bytes=moved)
    both = made.measurement(at(20.0), one, evidence=Evidence.MEASURED)
    expected = 50 if share is None else (50 * share) ** 0.5
    assert roof_percent(both, made.suite(CASE, ONE), {CASE.id, ONE.id}) == pytest.approx(expected)


def test_a_case_that_may_do_nothing_excuses_no_other_and_makes_no_mean_alone() -> None:
    idle = made.result(ONE, us=1.0, minimum_bytes=0)
    known = made.result(OTHER, made.launch(), us=20.0, minimum_bytes=BYTES)
    for other in (at(1.0), at(1.0, moved=0), made.result(CASE, made.launch())):
        all_three = made.measurement(other, idle, known, evidence=Evidence.MEASURED)
        assert roof_percent(all_three, made.suite(CASE, ONE, OTHER), {CASE.id, ONE.id, OTHER.id}) is None
    assert roof_percent(made.measurement(idle, evidence=Evidence.MEASURED), made.suite(ONE), {ONE.id}) is None
    untimed = made.measurement(at(20.0), made.result(ONE), evidence=Evidence.MEASURED)
    assert roof_percent(untimed, made.suite(CASE, ONE), {CASE.id, ONE.id}) is None, "its share is unknown"


def test_what_has_nothing_to_move_has_no_roof_and_that_is_no_error() -> None:
    roof = case_roof(at(1.0, moved=0).model_copy(update={"flops": 1000, "roof_us": 2.0}), H200)
    assert (roof.roof_us, roof.percent, roof.reason, roof.bound, roof.intensity) == (None,) * 5
    assert roof.detail == "there are no bytes that it has to move"


def test_a_ceiling_measured_on_this_gpu_is_preferred_and_cited_like_any_other() -> None:
    roof = case_roof(at(20.0).model_copy(update={"roof_us": 12.0}), H200)
    assert roof.percent == pytest.approx(60)
    assert roof.ceiling is not None and roof.ceiling.kind == "measured"
    assert "timed by the judge on this NVIDIA H200 SXM" in roof.ceiling.source
    published = case_roof(at(20.0), H200).ceiling
    assert published is not None and published.kind == "datasheet" and "(read 20" in published.source


@pytest.mark.parametrize(("us", "kind"), [(12 / 1.05 + 1e-9, "measured"), (12 / 1.051, "datasheet")])
def test_a_copy_that_the_case_beats_is_no_ceiling(us: float, kind: str) -> None:
    roof = case_roof(at(us).model_copy(update={"roof_us": 12.0}), H200)
    assert roof.ceiling is not None and roof.ceiling.kind == kind
    assert roof.percent is not None and roof.percent <= 105


@pytest.mark.parametrize(("us", "shown"), [(10 / 1.05 + 1e-9, True), (10 / 1.051, False)])
def test_a_share_above_the_roof_is_an_error_with_a_code_and_no_number(us: float, shown: bool) -> None:
    roof = case_roof(at(us), H200)
    assert (roof.percent is not None) is shown
    assert roof.reason is (None if shown else ReasonCode.ABOVE_THE_ROOF)
    assert shown or "no share is given" in roof.detail
    assert (
        roof_percent(made.measurement(at(us), evidence=Evidence.MEASURED), made.suite(CASE), {CASE.id}) is None
    ) is not shown


@pytest.mark.parametrize(("flops", "bound"), [(10, "memory"), (13, "memory"), (15, "compute")])
def test_below_the_ridge_memory_is_the_limit(flops: int, bound: str) -> None:
    """67 TFLOP/s over 4.8 TB/s: 13.96 FLOP a byte."""
    roof = case_roof(at(100.0).model_copy(update={"flops": flops * BYTES}), H200)
    assert roof.ridge == pytest.approx(13.96, abs=0.01)
    assert (roof.intensity, roof.bound) == (flops, bound)
    assert roof.roof_us == pytest.approx(10.0 * max(1.0, flops / 13.9583), rel=1e-3)
    assert roof.target_us == pytest.approx(roof.roof_us / 0.9)


def test_products_of_matrices_run_at_the_dense_rate_of_the_matrix_units() -> None:
    work = {"flops": 400 * BYTES, "matrix_flops": 400 * BYTES}
    roof = case_roof(at(100.0).model_copy(update=work), H200)
    assert roof.ridge == pytest.approx(989 / 4.8, rel=1e-3)
    assert roof.bound == "compute" and roof.ceiling is not None and roof.ceiling.value == 989


def test_what_nobody_counted_is_unknown_and_the_bytes_still_are_a_roof() -> None:
    roof = case_roof(at(20.0), H200)
    assert (roof.intensity, roof.flops, roof.bound) == (None, 0, "memory")
    assert roof.percent == pytest.approx(50)


def test_without_any_ceiling_there_is_no_share_and_that_is_no_error() -> None:
    roof = case_roof(at(20.0), H200.model_copy(update={"memory_bandwidth": None}))
    assert (roof.percent, roof.reason) == (None, None)
    assert "no bandwidth is known" in roof.detail
