"""s = x + r, and s / sqrt(mean(s^2) + eps) * (offset + w): a residual is added and what comes of it is normed. Both are
handed on, so two gradients arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe
from bot.judge.recipes.rms_norm import norm_mode


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    s = tensors["X"] + tensors["R"]
    rstd = (s.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt()
    return s * rstd * (tensors["W"] + constants["offset"]), s


RECIPE = Recipe(
    arguments=(
        Operand("X", ("rows", "cols")),
        Operand("R", ("rows", "cols")),
        Operand("W", ("cols",), fill="weight"),
        Constant("eps"),
        Constant("offset"),
        Constant("casting_mode"),
        Constant("in_place"),
    ),
    outputs=(Output("Y", ("rows", "cols")), Output("S", ("rows", "cols"))),
    stock={"eps": 1e-6, "offset": 0.0, "casting_mode": "llama", "in_place": False},
    modes=(
        norm_mode("llama", in_place=False),
        norm_mode("gemma", in_place=True),
        norm_mode("llama", in_place=True, offset=0.0),
        norm_mode("none", in_place=False),
    ),
    reference=reference,
    forward_traffic=("X", "R", "W", "Y", "S"),
    # x and r are only added: one gradient serves both.
    backward_traffic=("dY", "dS", "S", "W", "dX", "dW"),
    stacks=True,
    optional=3,
    layouts=("dense", "padded", "transposed"),
)
