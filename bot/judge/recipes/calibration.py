"""The kernel that a clock is calibrated with. How much more it does than it has to changes nothing of its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["x"]
    return (x * (x.square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt(),)


RECIPE = Recipe(
    arguments=(Operand("x", ("rows", "cols"), grad=False), Constant("turns"), Constant("extra"), Constant("which")),
    outputs=(Output("y", ("rows", "cols")),),
    stock={"turns": 0, "extra": 0, "which": 0},
    modes=(lambda rng: {"turns": rng.randrange(4), "extra": rng.randrange(4), "which": 0},),
    reference=reference,
    forward_traffic=("x", "y"),
    backward_traffic=("dy", "x"),
)
