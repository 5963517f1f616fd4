"""The words that recipes are written in: dimensions, constants that are sizes, fills that depend on a mode."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest
import torch

from bot.judge.inputs import fill
from bot.judge.noise import noisy
from bot.judge.oracle import truth
from bot.judge.plan import call_of, complete, minimum_bytes, plan, probes_of
from bot.judge.recipe import extent
from bot.judge.recipes import RECIPES
from bot.judge.scored import in_memory_order
from bot.worker.contract import Shape, parse, render
from bot.worker.contract.judging import Plan

GROUPS = Shape("g", "full", (("batch", 2), ("groups", 3), ("each", 4), ("length", 5)), "float32")
HEADS = Shape("h", "full", (("batch", 2), ("length", 3), ("kv", 1), ("group", 2), ("unit", 1)), "float32")


@pytest.mark.parametrize(("dim", "size"), [("groups", 3), ("3", 3), ("groups*each", 12), ("2*each*groups", 24)])
def test_a_dimension_is_a_size_a_number_or_a_product(dim: str, size: int) -> None:
    assert extent(dict(GROUPS.sizes), dim) == size


def test_a_constant_may_be_a_size_of_the_case_or_several() -> None:
    assert complete(RECIPES["group_norm"], GROUPS, {"eps": 0.1}) == {"eps": 0.1, "num_channels": 12, "num_groups": 3}
    recipe = RECIPES["qwen2vl_mrope"]
    planned, probes = plan(recipe, (HEADS,), (HEADS,), seed=1)
    (sections,) = (a.value for a in planned.cases[0].call.arguments if a.name == "mrope_section")
    assert sections == (2, 3, 3) and probes[0].constants["mrope_section"] == (2, 3, 3)
    assert parse(Plan, render(planned)) == planned, "and crosses the border"


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_of_three_tables_a_sixth_has_to_be_read(direction: Literal["forward", "backward"]) -> None:
    """Each gives its own section of half a head, which the other half repeats: counted whole, v0 moved 0.85x of the
    least."""
    recipe, shape = RECIPES["qwen2vl_mrope"], dataclasses.replace(HEADS, direction=direction)
    (call,) = (case.call for case in plan(recipe, (shape,), (), seed=1)[0].cases)
    size = {spec.name: spec.nbytes for spec in call.tensors}
    turned = 2 * (size["q"] + size["k"])
    assert minimum_bytes(recipe, shape) == turned + (size["cos"] + size["sin"]) // 6


def test_a_size_that_is_part_of_a_product_may_not_be_missing_either() -> None:
    lacking = Shape("odd", "forward", (("batch", 2), ("groups", 3), ("length", 5)), "float32")
    with pytest.raises(ValueError, match="case odd has no size 'each', only batch, groups, length"):
        plan(RECIPES["group_norm"], (lacking,), (), seed=1)


def test_a_fill_may_depend_on_the_mode() -> None:
    shape = Shape("k", "full", (("rows", 2), ("cols", 9)), "float32")
    recipe = RECIPES["kl_div"]
    told = set()
    for probe in probes_of(recipe, (shape,), seed=2):
        if probe.kind in ("strange", "huge"):
            continue
        target = fill(recipe, probe)["y_true"].double()
        logs = bool(probe.constants["log_target"])
        told.add(logs)
        torch.testing.assert_close((target.exp() if logs else target).sum(dim=-1), torch.ones(2).double())
    assert told == {True, False}


def test_both_halves_of_a_rotation_are_the_same_and_not_all_of_them() -> None:
    recipe = RECIPES["qwen2vl_mrope"]
    cos = fill(recipe, probes_of(recipe, (HEADS,), seed=1)[0])["cos"]
    first, second = cos.chunk(2, dim=-1)
    assert torch.equal(first, second) and cos.abs().max() < 1 and first.std() > 0.1


def test_the_gradient_of_a_loss_is_one_where_the_case_says_so_and_never_else() -> None:
    for grad, ones in (("one", True), ("drawn", False)):
        shape = Shape("l", "backward", (("rows", 2), ("cols", 9)), "float32", grad)  # type: ignore[arg-type]
        recipe = RECIPES["tvd"]
        (spec,) = call_of(recipe, shape, recipe.stock, "l").grads
        assert spec.ones == ones
        for probe in probes_of(recipe, (shape,), seed=1):
            assert (float(fill(recipe, probe)["dloss"]) == 1.0) == ones
        matrix = RECIPES["softmax"]
        assert not call_of(matrix, shape, matrix.stock, "l").grads[0].ones, "the gradient of a matrix is never ones"


def test_labels_name_as_many_classes_as_there_are() -> None:
    shape = Shape("l", "full", (("rows", 50), ("hidden", 3), ("cols", 4)), "float32")
    recipe = RECIPES["fused_linear_cross_entropy"]
    target = fill(recipe, probes_of(recipe, (shape,), seed=1)[0])["target"]
    assert {0, 1, 2, 3} <= set(target.tolist()) and int(target.max()) == 3


def test_what_is_compared_is_not_moved_by_the_rounding_that_is_allowed_for() -> None:
    """Two probabilities that half precision made equal have no sign between them, however a kernel rounds."""
    shape = Shape("t", "backward", (("rows", 2), ("cols", 2000)), "float16")
    recipe = RECIPES["tvd"]
    probe = probes_of(recipe, (shape,), seed=1)[0]
    filled = fill(recipe, probe)
    filled["q"][:, ::3] = filled["p"][:, ::3]
    right = truth(recipe, probe, filled)["gradient", "p"]
    for sample in noisy(recipe, probe, filled):
        torch.testing.assert_close(sample["gradient", "p"], right, rtol=1e-5, atol=0.0)


def test_heads_lie_in_a_bank_as_they_leave_a_projection() -> None:
    tensor = torch.arange(24).reshape(1, 2, 3, 4)
    laid = in_memory_order(tensor, "swapped").contiguous().reshape(-1)
    assert torch.equal(laid, tensor.transpose(1, 2).reshape(-1)) and not torch.equal(laid, tensor.reshape(-1))
    assert torch.equal(in_memory_order(tensor, "dense"), tensor)
