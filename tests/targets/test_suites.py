from __future__ import annotations

import math

import pytest

from bot.judge.recipes import RECIPES
from bot.model.measurement import Case
from bot.targets.suites import SIZES, suite_of

KERNELS = sorted(SIZES)
GIGABYTE = 10**9


def cells(case: Case) -> int:
    return math.prod(size for _, size in case.shape)


def test_every_recipe_has_a_suite_and_every_suite_a_recipe() -> None:
    assert sorted(set(RECIPES) - {"calibration"}) == KERNELS, "calibration is no kernel of a target"


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["quick", "full"])
def test_cases_are_in_the_recipes_words(kernel: str, name: str) -> None:
    recipe = RECIPES[kernel]
    things = (*recipe.operands, *recipe.outputs)
    names = {thing.name for thing in things} | {f"d{thing.name}" for thing in things}
    sizes = {dim for thing in things for dim in thing.dims} - {"1"}
    suite = suite_of(kernel, name)  # type: ignore[arg-type]
    assert suite.name == name
    for case in (*suite.cases, *suite.checks):
        assert {size for size, _ in case.shape} == sizes
        assert set(case.in_place) <= names
        assert not case.in_place or case.direction == "backward"


@pytest.mark.parametrize("kernel", KERNELS)
def test_ids_are_one_of_a_kind_and_quick_is_part_of_full(kernel: str) -> None:
    full, quick = suite_of(kernel), suite_of(kernel, "quick")
    ids = [case.id for case in (*full.cases, *full.checks)]
    assert len(ids) == len(set(ids))
    assert set(quick.cases) < set(full.cases) and set(quick.checks) < set(full.checks)
    assert not any(case.hidden for case in quick.checks)


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_passes_are_scored_in_bfloat16_and_checked_in_what_the_interpreter_can(kernel: str) -> None:
    suite = suite_of(kernel)
    assert {(case.direction, case.dtype) for case in suite.cases} == {("forward", "bfloat16"), ("backward", "bfloat16")}
    assert {case.dtype for case in suite.checks} == {"float32", "float16"}
    assert {case.direction for case in suite.checks if case.hidden} == {"forward", "backward"}
    assert all(case.weight == 1.0 and not case.hidden for case in suite.cases)


@pytest.mark.parametrize("kernel", KERNELS)
def test_checks_stand_on_both_sides_of_every_edge(kernel: str) -> None:
    columns = {case.size("cols") for case in suite_of(kernel).checks}
    assert {1, 17, 96, 100, 128, 255, 256, 257, 1000} <= columns
    assert any(case.size("rows") == 1 for case in suite_of(kernel).checks)


@pytest.mark.parametrize("kernel", KERNELS)
def test_checks_are_small_enough_for_the_interpreter(kernel: str) -> None:
    checks = suite_of(kernel).checks
    assert max(cells(case) for case in checks) <= 132_000
    assert sum(case.size("rows") > 16 for case in checks) <= 1, "one tall case"
    assert all(case.size("rows") * case.size("cols") < 1100 for case in checks if case.size("rows") > 16)
    assert sum(case.size("cols") > 1000 for case in checks) == 4, "one wide case a pass and type"


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_dry_run_of_a_scored_case_fits_in_a_gigabyte(kernel: str) -> None:
    """Operands and outputs with their gradients, in bfloat16, and one float32 matrix for an intermediate result."""
    recipe = RECIPES[kernel]
    for case in suite_of(kernel).cases:
        tensors = [thing.dims for thing in (*recipe.operands, *recipe.outputs)]
        held = sum(2 * 2 * math.prod(case.size(dim) for dim in dims if dim != "1") for dims in tensors) + 4 * cells(
            case
        )
        assert held < GIGABYTE, case.id
