"""The model of time: it follows physics, it agrees with an H200, and it says nothing where it knows nothing."""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.analysis.estimate import (
    ACHIEVABLE,
    FIXED_US,
    blocks_walked,
    case_costs,
    estimate_case,
    estimate_survey,
    estimated,
    launch_cost,
    timed,
)
from bot.hardware.catalog import for_arch
from bot.model.measurement import Case, Evidence, Launch, Timing
from tests.analysis import made

H200 = for_arch("sm_90")
RUNS = Path(__file__).parents[2] / "docs" / "results" / "h200" / "model"
CASE = made.case()


def us(one: Launch, moved_bytes: float = 64 * 2**20, of: Case = CASE) -> float:
    cost = launch_cost(one, moved_bytes, of, H200)
    assert cost is not None
    return cost.total


positive = st.integers(1, 2**20)
launches = st.builds(
    lambda grid, warps, registers, spills, shared, instructions, barriers, bits: made.launch(
        grid=(grid, 1, 1),
        warps=warps,
        resources=made.resources(
            registers=registers,
            spill_bytes=spills,
            shared_bytes=shared,
            instructions=instructions,
            barriers=barriers,
            load_bits=bits,
        ),
    ),
    grid=positive,
    warps=st.sampled_from([1, 2, 4, 8, 16, 32]),
    registers=st.integers(1, 255),
    spills=st.integers(0, 4000),
    shared=st.integers(0, 200_000),
    instructions=st.integers(0, 10_000),
    barriers=st.integers(0, 20),
    bits=st.sampled_from([0, 8, 16, 32, 64, 128]),
)


def needing(one: Launch, **fields: Any) -> Launch:
    assert one.resources is not None
    return one.model_copy(update={"resources": one.resources.model_copy(update=fields)})


@given(launches, st.integers(0, 2**40), st.integers(0, 2**40))
def test_more_bytes_are_never_faster(one: Launch, fewer: int, extra: int) -> None:
    assert us(one, fewer) <= us(one, fewer + extra)


@given(launches, st.integers(0, 10_000))
def test_more_instructions_are_never_faster(one: Launch, extra: int) -> None:
    assert one.resources is not None
    assert us(one) <= us(needing(one, instructions=one.resources.instructions + extra))


@given(launches, st.integers(0, 10_000))
def test_more_spills_are_never_faster(one: Launch, extra: int) -> None:
    assert one.resources is not None
    assert us(one) <= us(needing(one, spill_bytes=one.resources.spill_bytes + extra))


@given(launches, st.integers(0, 200))
def test_more_registers_are_never_faster_while_nothing_spills(one: Launch, extra: int) -> None:
    one = needing(one, spill_bytes=0)
    assert one.resources is not None
    assert us(one) <= us(needing(one, registers=one.resources.registers + extra))


@given(launches)
def test_a_barrier_is_never_free_and_a_narrow_access_never_helps(one: Launch) -> None:
    assert us(needing(one, barriers=0)) < us(needing(one, barriers=1)) or us(one) == pytest.approx(
        1.0 + one.grid[0] / 132 * 0.0806
    )
    assert us(needing(one, load_bits=128)) <= us(needing(one, load_bits=32)) <= us(needing(one, load_bits=16))


@given(launches, positive)
def test_a_faster_memory_is_never_slower(one: Launch, moved: int) -> None:
    h100 = H200.model_copy(update={"memory_bandwidth": H200.memory_bandwidth.model_copy(update={"value": 3350.0})})  # type: ignore[union-attr]
    slow = launch_cost(one, moved, CASE, h100)
    assert slow is not None and us(one, moved) <= slow.total


@given(launches)
def test_no_launch_is_faster_than_its_bytes_or_its_start(one: Launch) -> None:
    assert us(one) >= max(1.0, 64 * 2**20 / 4.8e6)


def test_a_second_launch_adds_its_own_fixed_cost() -> None:
    half = made.launch(tensor_bytes=1)
    one = estimate_case(made.result(CASE, half), CASE, H200)
    two = estimate_case(made.result(CASE, half, half), CASE, H200)
    assert one is not None and two is not None and two > one + 1


def test_bytes_are_shared_by_the_memory_each_launch_was_handed() -> None:
    small, large = made.launch("_small", tensor_bytes=1_000_000), made.launch("_large", tensor_bytes=3_000_000)
    costs = case_costs((small, large), 8_000_000, CASE, H200)
    assert costs is not None
    assert costs[1].memory == pytest.approx(3 * costs[0].memory)


def test_the_traffic_factor_multiplies_the_bytes() -> None:
    plain, wasteful = made.result(CASE, made.launch()), made.result(CASE, made.launch(), traffic_factor=2.0)
    before, after = estimate_case(plain, CASE, H200), estimate_case(wasteful, CASE, H200)
    assert before is not None and after is not None
    assert after - before == pytest.approx(64 * 2**20 / (4.8e6 * 0.935))


def test_a_case_that_need_not_move_any_bytes_pays_for_what_it_launches_all_the_same() -> None:
    """A multiple of nothing would make a launch over all of a gradient as cheap as one over none of it."""
    one = made.launch(tensor_bytes=64 * 2**20)
    idle, busy = made.result(CASE, one, minimum_bytes=0, traffic_factor=1.0), made.result(CASE, one)
    assert estimate_case(idle, CASE, H200) == estimate_case(busy, CASE, H200)
    more = made.result(CASE, one, one, minimum_bytes=0)
    alone, twice = estimate_case(idle, CASE, H200), estimate_case(more, CASE, H200)
    assert alone is not None and twice == pytest.approx(2 * alone)


@pytest.mark.parametrize(
    ("programs", "block", "walked"),
    [(4096, 4096, 1), (4096, 8192, 1), (4096, 1024, 4), (132, 4096, 32), (4096, 4095, 2), (1, 1, 4096 * 4096)],
)
def test_a_program_walks_through_as_many_blocks_as_its_share_has(programs: int, block: int, walked: int) -> None:
    assert blocks_walked(made.launch(grid=(programs, 1, 1), block=block), CASE) == walked


@pytest.mark.parametrize(("handed", "walked"), [(2 * 4096 * 1024, 1), (2 * 4096 * 1024 + 2, 2)])
def test_no_program_walks_through_more_than_its_launch_was_handed(handed: int, walked: int) -> None:
    """A projection's third size is summed over, and is not of the matrix that this launch is about."""
    case = CASE.model_copy(update={"shape": (("rows", 4096), ("hidden", 8192), ("cols", 32000))})
    assert blocks_walked(made.launch(grid=(4096, 1, 1), block=1024, tensor_bytes=handed), case) == walked


def test_matrix_products_take_at_least_what_the_tensor_cores_need() -> None:
    plain = made.result(CASE, made.launch())
    products = plain.model_copy(update={"flops": 989 * 10**6, "matrix_flops": 989 * 10**6})
    before, after = (estimate_case(facts, CASE, H200) for facts in (plain, products))
    assert before is not None and after == pytest.approx(before + 1.0, rel=1e-3)


def test_a_tile_of_two_blocks_is_their_product_and_a_kernel_without_one_walks_once() -> None:
    tile = made.launch(grid=(256, 1, 1), constants=(("BLOCK_ROW", "16"), ("BLOCK_SIZE", "4096")))
    assert blocks_walked(tile, CASE) == 1
    assert blocks_walked(made.launch(constants=(("eps", "0.1"),)), CASE) == 1


def test_waves_are_whole_while_they_are_few() -> None:
    fits = 132 * 8
    exact, one_more = made.launch(grid=(fits, 1, 1)), made.launch(grid=(fits + 1, 1, 1))
    assert us(one_more) > us(exact) + 0.2


def test_spills_that_stay_in_the_cache_cost_less_than_those_that_do_not() -> None:
    few = made.launch(grid=(132, 1, 1), resources=made.resources(spill_bytes=400))
    many = made.launch(grid=(4096, 1, 1), resources=made.resources(spill_bytes=4000))

    def each(one: Launch) -> float:
        cost = launch_cost(one, 0, made.case(rows=one.grid[0]), H200)
        assert cost is not None and one.resources is not None
        return cost.spills / (one.grid[0] * one.resources.spill_bytes)

    assert each(many) > 5 * each(few) > 0


def test_nothing_is_estimated_without_a_binary_or_a_bandwidth() -> None:
    bare = made.result(CASE, made.launch(resources=None))
    assert estimate_case(bare, CASE, H200) is None
    unknown = H200.model_copy(update={"memory_bandwidth": None})
    assert estimate_case(made.result(CASE, made.launch()), CASE, unknown) is None
    assert estimate_case(made.result(CASE), CASE, unknown) is None


def test_a_pass_that_launches_nothing_of_ours_takes_what_its_bytes_take() -> None:
    """The gradient of jsd times that of its loss is torch's product: without a time for it jsd had no score at all."""
    once = estimate_case(made.result(CASE, minimum_bytes=2**26), CASE, H200)
    twice = estimate_case(made.result(CASE, minimum_bytes=2**26, traffic_factor=2.0), CASE, H200)
    assert once is not None and twice is not None
    assert once == pytest.approx(FIXED_US + 2**26 / (4.8e6 * ACHIEVABLE), rel=0.01)
    assert twice - FIXED_US == pytest.approx(2 * (once - FIXED_US))
    assert estimate_case(made.result(CASE, minimum_bytes=0), CASE, H200) is None
    assert estimate_case(made.result(CASE, minimum_bytes=10**400), CASE, H200) is None


@pytest.mark.parametrize(
    "launch",
    [
        made.launch(grid=(10**400, 1, 1)),
        made.launch(resources=made.resources(instructions=10**400)),
        made.launch(tensor_bytes=10**400),
        made.launch(grid=(0, -5, 0), warps=0, tensor_bytes=-1),
        made.launch(constants=(("BLOCK_SIZE", "0"), ("BLOCK_ROW", "nan"))),
    ],
)
def test_facts_of_a_hostile_job_give_a_number_or_nothing(launch: Launch) -> None:
    found = estimate_case(made.result(CASE, launch, minimum_bytes=10**300), CASE, H200)
    assert found is None or (found > 0 and math.isfinite(found))


def test_every_timing_of_a_compiled_measurement_is_the_model_s_own() -> None:
    claimed = made.result(CASE, made.launch(), us=0.001)
    filled = timed(made.measurement(claimed), made.suite(CASE))
    timing = filled.cases[0].timing
    assert timing is not None and timing.timer == "model" and timing.median_us > 10


def test_what_a_gpu_timed_is_left_alone() -> None:
    real = made.measurement(made.result(CASE, made.launch(), us=12.5), evidence=Evidence.MEASURED)
    assert timed(real, made.suite(CASE)) == real


def test_a_case_outside_of_the_suite_has_no_time() -> None:
    claimed = made.result(made.case(rows=7), made.launch(), us=1.0)
    assert estimated(made.measurement(claimed), made.suite(CASE), H200).cases[0].timing is None


def test_a_setting_that_did_not_compile_has_no_price() -> None:
    baseline = made.result(CASE, made.launch())
    assert estimate_survey(made.survey(CASE, 4096, 8), baseline, CASE, H200) is not None
    assert estimate_survey(made.survey(CASE, 4096, 8, error="too slow"), baseline, CASE, H200) is None


def rows_of(name: str) -> list[dict[str, str]]:
    if not (RUNS / name).exists():
        pytest.skip("the runs are kept with the source, not with every archive of it")
    with (RUNS / name).open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["kernel"] != "nothing" and float(row["us"]) > 1.5]


def modelled(row: dict[str, str]) -> float:
    rows, cols, block = int(row["rows"]), int(row["cols"]), int(row["block"])
    programs = {"copy": -(-rows * cols // block), "geglu_tiled": rows * -(-cols // block)}.get(row["kernel"], rows)
    if row["kernel"] == "rms_bwd":
        programs = int(row["programs"]) or 132
    needs = made.resources(
        registers=int(row["registers"]),
        spill_bytes=int(row["spill_bytes"]),
        shared_bytes=int(row["shared"]),
        instructions=int(row["instructions"]),
        barriers=int(row["barriers"]),
        load_bits=int(row["load_bits"]),
    )
    one = made.launch(grid=(programs, 1, 1), block=block, warps=int(row["warps"]), resources=needs)
    return us(one, int(row["bytes"]), made.case(rows=rows, cols=cols))


def error(row: dict[str, str]) -> float:
    return abs(math.log(modelled(row) / float(row["us"])))


def regrets(rows: list[dict[str, str]]) -> list[float]:
    """For each shape: the time of the setting the model picks over the best time."""
    shapes: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        shapes[row["kernel"], row["rows"], row["cols"]].append(row)
    tried = [found for found in shapes.values() if len(found) > 1]
    return [float(min(found, key=modelled)["us"]) / min(float(row["us"]) for row in found) for found in tried]


def test_the_model_agrees_with_the_runs_it_was_fitted_to() -> None:
    rows = rows_of("fit.csv")
    assert len(rows) > 400
    errors = sorted(error(row) for row in rows)
    assert statistics.median(errors) < 0.08
    assert errors[int(0.9 * len(errors))] < 0.22
    assert statistics.geometric_mean(regrets(rows)) < 1.02


def test_the_model_agrees_with_kernels_and_types_it_was_not_fitted_to() -> None:
    rows = [row for row in rows_of("check.csv") if int(row["cols"]) % 16 == 0]
    assert len(rows) > 60
    assert statistics.median(error(row) for row in rows) < 0.06
    assert statistics.geometric_mean(regrets(rows)) < 1.02


def test_unaligned_rows_are_where_the_model_is_weak_and_known_to_be() -> None:
    rows = [row for row in rows_of("check.csv") if int(row["cols"]) % 16]
    assert statistics.median(error(row) for row in rows) < 0.25
    assert max(modelled(row) / float(row["us"]) for row in rows) < 2.0
    assert min(modelled(row) / float(row["us"]) for row in rows) > 0.45


def test_a_timing_may_not_be_zero_or_endless() -> None:
    with pytest.raises(ValueError):
        Timing(median_us=0, timer="model")
    with pytest.raises(ValueError):
        Timing(median_us=math.inf, timer="model")
