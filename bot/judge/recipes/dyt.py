"""gamma * tanh(alpha * x) + beta: dynamic tanh, which stands in for a norm."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    y = (tensors["alpha"] * tensors["x"]).tanh() * tensors["gamma"]
    beta = tensors.get("beta")
    return (y if beta is None else y + beta,)


def _shifted(rng: random.Random) -> Constants:
    return {}


def _unshifted(rng: random.Random) -> Constants:
    return {"beta": None}


RECIPE = Recipe(
    arguments=(
        Operand("x", ("rows", "cols")),
        Operand("alpha", ("1",), fill="weight"),
        Operand("gamma", ("cols",), fill="weight"),
        Operand("beta", ("cols",)),
    ),
    outputs=(Output("y", ("rows", "cols")),),
    stock={},
    modes=(_shifted, _unshifted),
    reference=reference,
    forward_traffic=("x", "alpha", "gamma", "beta", "y"),
    # beta is only added: its gradient is a sum of dy, and its values are not needed.
    backward_traffic=("dy", "x", "alpha", "gamma", "dx", "dalpha", "dgamma", "dbeta"),
    stacks=True,
    layouts=("dense", "padded", "transposed"),
)
