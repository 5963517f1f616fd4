"""(x - mean(x)) / sqrt(var(x) + eps) * w + b, with the mean and the variance of the row."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    # Step by step rather than torch's own: the judge rounds each step to see how far honest kernels may differ.
    centred = tensors["X"] - tensors["X"].mean(dim=-1, keepdim=True)
    rstd = (centred.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt()
    return (centred * rstd * tensors["W"] + tensors["B"],)


def _usual(rng: random.Random) -> Constants:
    return {"eps": 10 ** rng.uniform(-7, -4)}


def _large(rng: random.Random) -> Constants:
    """An eps far above its default shows whether it is used at all."""
    return {"eps": 10 ** rng.uniform(-3, -0.5)}


RECIPE = Recipe(
    arguments=(
        Operand("X", ("rows", "cols")),
        Operand("W", ("cols",), fill="weight"),
        Operand("B", ("cols",)),
        Constant("eps"),
    ),
    outputs=(Output("Y", ("rows", "cols")),),
    stock={"eps": 1e-6},
    modes=(_large, _usual),
    reference=reference,
    forward_traffic=("X", "W", "B", "Y"),
    # B is only added: its gradient is a sum of dY, and its values are not needed.
    backward_traffic=("dY", "X", "W", "dX", "dW", "dB"),
    stacks=True,
    layouts=("dense", "padded", "transposed"),
)
