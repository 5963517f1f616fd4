"""The point of the simplex that is nearest to a row: what lies above a threshold, and 0 for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["x"]
    downwards = x.detach().sort(dim=-1, descending=True).values
    places = downwards.new_ones(downwards.shape).cumsum(dim=-1)
    many = (1 + places * downwards > downwards.cumsum(dim=-1)).sum(dim=-1, keepdim=True).clamp(min=1)
    least = downwards.gather(-1, many - 1)
    inside = x.detach() >= least
    threshold = ((x * inside).sum(dim=-1, keepdim=True) - 1) / inside.sum(dim=-1, keepdim=True)
    return ((x - threshold).relu(),)


RECIPE = Recipe(
    arguments=(Operand("x", ("rows", "cols")), Constant("dim")),
    outputs=(Output("y", ("rows", "cols")),),
    stock={"dim": -1},
    modes=(lambda rng: {"dim": -1},),
    reference=reference,
    forward_traffic=("x", "y"),
    # The saved output and the gradient that arrives are enough.
    backward_traffic=("y", "dy", "dx"),
    stacks=True,
    layouts=("dense", "padded", "transposed"),
)
