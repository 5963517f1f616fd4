"""x / sqrt(mean(x^2) + eps) * (offset + w), then times 1 + scale and plus shift: a norm that each sequence modulates by
itself, as in a diffusion transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe
from bot.judge.recipes.rms_norm import norm_mode


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["X"]
    y = x * (x.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt()
    if tensors.get("W") is not None:
        y = y * (tensors["W"] + constants["offset"])
    y = y * (1 + tensors["scale"][:, None])
    shift = tensors.get("shift")
    return (y if shift is None else y + shift[:, None],)


RECIPE = Recipe(
    arguments=(
        Operand("X", ("batch", "length", "cols")),
        Operand("W", ("cols",), fill="weight"),
        Operand("scale", ("batch", "cols")),
        Operand("shift", ("batch", "cols")),
        Constant("eps"),
        Constant("offset"),
        Constant("casting_mode"),
        Constant("in_place"),
    ),
    outputs=(Output("Y", ("batch", "length", "cols")),),
    stock={"eps": 1e-6, "offset": 0.0, "casting_mode": "llama", "in_place": True},
    modes=(
        norm_mode("llama", in_place=True),
        norm_mode("gemma", in_place=False),
        norm_mode("llama", in_place=False, shift=None, offset=0.0),
        norm_mode("gemma", in_place=True, W=None),
        norm_mode("none", in_place=False),
    ),
    reference=reference,
    forward_traffic=("X", "W", "scale", "shift", "Y"),
    # The shift is only added: its gradient is a sum of dY, and its values are not needed.
    backward_traffic=("dY", "X", "W", "scale", "dX", "dW", "dscale", "dshift"),
    layouts=("dense", "padded", "transposed"),
    optional=3,
    rows="batch*length",
)
