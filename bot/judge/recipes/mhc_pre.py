"""What a layer sees of the residual streams of mHC: their sum, each weighed with a number of the token's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe
from bot.judge.recipes.mhc_coeffs import TOKENS, X


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    return ((tensors["x"] * tensors["h_pre"][..., None]).sum(dim=-2),)


RECIPE = Recipe(
    arguments=(
        Operand("x", X),
        # As the op that makes it hands it on.
        Operand("h_pre", (*TOKENS, "streams"), fill="weight", dtype="float32"),
    ),
    outputs=(Output("x_in", (*TOKENS, "cols")),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("x", "h_pre", "x_in"),
    backward_traffic=("dx_in", "x", "h_pre", "dx", "dh_pre"),
    layouts=("dense", "padded", "transposed"),
    rows="batch*length",
    cols="streams*cols",
    powers=("streams",),
)
