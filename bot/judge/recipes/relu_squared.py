"""max(x, 0)^2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    return (tensors["X"].relu().square(),)


RECIPE = Recipe(
    arguments=(Operand("X", ("rows", "cols")),),
    outputs=(Output("Y", ("rows", "cols")),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("X", "Y"),
    backward_traffic=("dY", "X", "dX"),
    stacks=True,
    layouts=("dense", "padded", "transposed"),
)
