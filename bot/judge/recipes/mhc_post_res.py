"""What becomes of the residual streams of mHC behind a layer: each a mixture of all, and its share of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe
from bot.judge.recipes.mhc_coeffs import TOKENS, X


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    share = tensors["h_post"][..., None] * tensors["f_out"][..., None, :]
    return (tensors["h_res"] @ tensors["x"] + share,)


RECIPE = Recipe(
    arguments=(
        Operand("x", X),
        Operand("f_out", (*TOKENS, "cols")),
        # As the op that makes them hands them on.
        Operand("h_post", (*TOKENS, "streams"), fill="weight", dtype="float32"),
        Operand("h_res", (*TOKENS, "streams", "streams"), fill="probability", dtype="float32"),
    ),
    outputs=(Output("x_out", X),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("x", "f_out", "h_post", "h_res", "x_out"),
    backward_traffic=("dx_out", "x", "f_out", "h_post", "h_res", "dx", "df_out", "dh_post", "dh_res"),
    layouts=("dense", "padded", "transposed"),
    rows="batch*length",
    cols="streams*cols",
    powers=("streams",),
)
