"""Operations of a case, counted on the reference."""

from __future__ import annotations

from typing import Any

import pytest

from bot.judge.recipe import Operand, Output, Recipe
from bot.judge.recipes import RECIPES
from bot.judge.work import work, work_of
from bot.worker.contract import Shape


def shape(direction: Any, rows: int, cols: int) -> Shape:
    return Shape(f"{direction}-{rows}x{cols}", direction, (("rows", rows), ("cols", cols)), "bfloat16")


def test_a_norm_squares_adds_scales_and_weighs_each_element() -> None:
    """Four an element: its square, its share of the sum, times the root, times the weight. The rest is once a row."""
    every, products = work_of(RECIPES["rms_norm"], shape("forward", 4096, 8192))
    assert every == pytest.approx(4 * 4096 * 8192, rel=1e-3)
    assert products == 0


def test_a_step_is_its_two_passes() -> None:
    forward, backward, full = (
        work_of(RECIPES["softmax"], shape(d, 100, 3000))[0] for d in ("forward", "backward", "full")
    )
    assert forward + backward == full


def three(direction: Any) -> Shape:
    return Shape(direction, direction, (("rows", 64), ("hidden", 128), ("cols", 1000)), "bfloat16")


def test_a_gradient_that_comes_ready_is_made_by_the_forward_pass() -> None:
    """One product for the logits and two for the gradients; what is left is to multiply those by a number."""
    recipe, product = RECIPES["fused_linear_cross_entropy"], 2 * 64 * 128 * 1000
    every, products = work_of(recipe, three("forward"))
    assert products == 3 * product < every
    assert work_of(recipe, three("backward")) == (64 * 128 + 1000 * 128, 0)


def test_a_gradient_that_does_not_is_made_by_the_backward_pass() -> None:
    """kl_div's is of the target alone, and its forward pass does not write it."""
    assert not RECIPES["kl_div"].comes_ready
    forward, backward = (work_of(RECIPES["kl_div"], shape(d, 64, 1000))[0] for d in ("forward", "backward"))
    assert forward > 0 and backward > 0
    assert work_of(RECIPES["kl_div"], shape("full", 64, 1000))[0] == forward + backward


@pytest.mark.parametrize(("rows", "inner", "cols"), [(5, 7, 3), (16, 9, 100), (1000, 4096, 128_256)])
def test_the_count_is_carried_exactly_to_any_size(rows: int, inner: int, cols: int) -> None:
    """x @ w, and one addition an element behind it."""

    def reference(tensors: Any, constants: Any) -> tuple[Any, ...]:
        return (tensors["X"] @ tensors["W"] + 1.0,)

    recipe = Recipe(
        arguments=(Operand("X", ("rows", "inner")), Operand("W", ("inner", "cols"))),
        outputs=(Output("Y", ("rows", "cols")),),
        stock={}, modes=(), reference=reference, forward_traffic=("X", "W", "Y"), backward_traffic=(),
    )  # fmt: skip
    sizes = (("rows", rows), ("inner", inner), ("cols", cols))
    products = 2 * rows * inner * cols
    assert work_of(recipe, Shape("it", "forward", sizes, "bfloat16")) == (products + rows * cols, products)


def test_a_reference_that_cannot_be_run_small_is_not_counted() -> None:
    def reference(tensors: Any, constants: Any) -> tuple[Any, ...]:
        raise RuntimeError("only whole batches")

    recipe = Recipe(
        arguments=(Operand("X", ("rows",)),), outputs=(Output("Y", ("rows",)),),
        stock={}, modes=(), reference=reference, forward_traffic=("X",), backward_traffic=(),
    )  # fmt: skip
    assert work(recipe, (shape("forward", 4, 4),)) == (("forward-4x4", 0, 0),)
