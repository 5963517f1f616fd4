"""Softmax over the last dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    return (tensors["x"].softmax(dim=-1),)


RECIPE = Recipe(
    arguments=(Operand("x", ("rows", "cols")),),
    outputs=(Output("y", ("rows", "cols")),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("x", "y"),
    # The saved output and the gradient that arrives are enough.
    backward_traffic=("y", "dy", "dx"),
)
