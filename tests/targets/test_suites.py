from __future__ import annotations

import math
from pathlib import Path

import pytest

from bot.judge.plan import minimum_bytes
from bot.judge.recipe import extent, parts
from bot.judge.recipes import RECIPES
from bot.model.measurement import Case
from bot.targets.liger import FILES, NO_RECIPE
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.worker.contract import Shape

KERNELS = sorted(SIZES)
NARROW = (
    *("fused_linear_cross_entropy", "fused_linear_jsd", "fused_linear_kl_div"),
    *("fused_moe", "fused_neighborhood_attention", "mlp", "multi_token_attention"),
)
"""Where a class is a program of its own, or a program holds a matrix."""
MOST = 4 * 10**9
"""Of the 6 GiB that a worker may have."""


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
    named = {part for thing in things for dim in thing.dims for product in parts(dim) for part in product}
    sizes = {part for part in named if not part.isdecimal()}
    suite = suite_of(kernel, name)  # type: ignore[arg-type]
    assert suite.name == name
    for case in (*suite.cases, *suite.checks):
        assert {size for size, _ in case.shape} == sizes
        assert set(case.in_place) <= names
        minimum_bytes(recipe, Shape(case.id, case.direction, case.shape, case.dtype, case.grad))


@pytest.mark.parametrize("kernel", KERNELS)
def test_ids_are_one_of_a_kind_and_quick_is_part_of_full(kernel: str) -> None:
    full, quick = suite_of(kernel, in_liger=True), suite_of(kernel, "quick")
    ids = [case.id for case in (*full.cases, *full.checks)]
    assert len(ids) == len(set(ids))
    assert set(quick.cases) < set(full.cases) and set(quick.checks) < set(full.checks)
    assert not any(case.hidden for case in quick.checks)


def test_liger_kernel_itself_is_scored_on_more_rows_than_a_library_laid_out_like_it() -> None:
    mine, stock = suite_of("softmax"), suite_of("softmax", in_liger=True)
    assert mine.checks == stock.checks and mine.cases == stock.cases[: len(mine.cases)]
    assert [case.size("cols") for case in stock.cases[len(mine.cases) :]] == [32000, 32000, 65536, 65536]


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_passes_are_scored_in_bfloat16_and_checked_in_what_the_interpreter_can(kernel: str) -> None:
    suite = suite_of(kernel)
    assert {(case.direction, case.dtype) for case in suite.cases} == {("forward", "bfloat16"), ("backward", "bfloat16")}
    assert {case.dtype for case in suite.checks} == {"float32", "float16"} & set(RECIPES[kernel].types)
    assert {case.direction for case in suite.checks if case.hidden} == {"forward", "backward"}
    assert all(case.weight == 1.0 and not case.hidden for case in suite.cases)


@pytest.mark.parametrize("kernel", KERNELS)
def test_checks_stand_on_both_sides_of_every_edge(kernel: str) -> None:
    sizes = [size for case in suite_of(kernel).checks for _, size in case.shape]
    assert any(size & (size - 1) for size in sizes), "no power of two"
    assert any(size > 1 and size + 1 & size == 0 for size in sizes), "one less than a power of two"
    assert any(size > 2 and size - 1 & size - 2 == 0 for size in sizes), "one more"
    if SIZES[kernel].names == ("rows", "cols"):
        assert {1, 17, 96, 100, 128, 255, 256, 257, 1000} <= {case.size("cols") for case in suite_of(kernel).checks}
        assert any(case.size("rows") == 1 for case in suite_of(kernel).checks)
    plain = [case for case in suite_of(kernel).checks if case.dtype == "float32"]
    assert 4 * sum(case.hidden for case in plain) >= len(plain), "a quarter is hidden"


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_loss_is_scored_with_a_gradient_of_one_and_with_another(kernel: str) -> None:
    loss = all(output.dims == () for output in RECIPES[kernel].outputs)
    assert loss == SIZES[kernel].loss
    for case in suite_of(kernel).cases:
        twin = case.model_copy(update={"grad": "one", "id": f"{case.id}-one"})
        assert (twin in suite_of(kernel).cases) == (loss and case.direction == "backward" and case.grad == "drawn")


@pytest.mark.parametrize("kernel", KERNELS)
def test_checks_are_small_enough_for_the_interpreter(kernel: str) -> None:
    checks = suite_of(kernel).checks
    assert max(cells(case) for case in checks) <= 132_000
    recipe = RECIPES[kernel]
    rows = {case.id: extent(dict(case.shape), recipe.rows) for case in checks}
    cols = {case.id: extent(dict(case.shape), recipe.cols) for case in checks}
    assert sum(rows[case.id] > 16 for case in checks) <= 1, "one tall case"
    assert all(rows[case.id] * cols[case.id] < 1100 for case in checks if rows[case.id] > 16)
    if kernel in NARROW:
        assert max(cols.values()) < 300
    else:
        types = {case.dtype for case in checks}
        assert sum(cols[case.id] > 1000 for case in checks) >= 2 * len(types), "one wide case a pass and type"


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_dry_run_of_a_scored_case_fits_in_memory(kernel: str) -> None:
    """Operands and outputs with their gradients, in bfloat16, and one float32 matrix for an intermediate result."""
    recipe = RECIPES[kernel]
    for case in suite_of(kernel, in_liger=True).cases:
        tensors = [thing.dims for thing in (*recipe.operands, *recipe.outputs)]
        elements = [math.prod(extent(dict(case.shape), dim) for dim in dims) for dims in tensors]
        assert 2 * 2 * sum(elements) + 4 * max(elements) < MOST, case.id


def test_the_page_of_kernels_lists_those_that_have_a_recipe() -> None:
    page = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    listed = {row[0]: row[-1] for row in rows if row[0] != "kernel"}
    files = {FILES.get(kernel, kernel) for kernel in listed}
    assert len(files) == 30, "with an op, a test and a benchmark in liger-kernel 0.8.5"
    assert sorted(kernel for kernel, recipe in listed.items() if recipe == "yes") == KERNELS
    assert set(NO_RECIPE) - {"vocab_parallel_cross_entropy", "mhc"} == {
        k for k, recipe in listed.items() if recipe != "yes"
    }
