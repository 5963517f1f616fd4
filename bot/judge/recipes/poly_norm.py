"""w0 norm(x^3) + w1 norm(x^2) + w2 norm(x) + b, each power over the root of its mean square and eps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x, weight = tensors["X"], tensors["W"]
    y = tensors["B"]
    for place, power in enumerate((x * x * x, x * x, x)):
        rstd = (power.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt()
        y = y + weight[place] * (power * rstd)
    return (y,)


def _mode(in_place: bool) -> Any:
    """eps far above its default shows whether it is used at all."""
    return lambda rng: {"eps": 10 ** rng.uniform(-5, -0.5), "in_place": in_place}


RECIPE = Recipe(
    arguments=(
        Operand("X", ("rows", "cols")),
        Operand("W", ("3",), fill="weight"),
        Operand("B", ()),
        Constant("eps"),
        Constant("in_place"),
    ),
    outputs=(Output("Y", ("rows", "cols")),),
    stock={"eps": 1e-6, "in_place": True},
    modes=(_mode(in_place=False), _mode(in_place=True)),
    reference=reference,
    forward_traffic=("X", "W", "B", "Y"),
    # B is only added: its gradient is a sum of dY, and its value is not needed.
    backward_traffic=("dY", "X", "W", "dX", "dW", "dB"),
    stacks=True,
    optional=2,
    layouts=("dense", "padded", "transposed"),
    # Sums of sixth powers overflow half precision, in which the stock kernel adds them.
    types=("bfloat16", "float32"),
)
