"""(x - mean) / sqrt(var + eps) * w + b, with the mean and variance of a group of channels and a weight a channel."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["X"]
    groups: Any = constants["num_groups"]
    grouped = x.reshape(x.shape[0], groups, -1)
    # Step by step rather than torch's own: the judge rounds each step to see how far honest kernels may differ.
    centred = grouped - grouped.mean(dim=-1, keepdim=True)
    rstd = (centred.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt()
    normed = (centred * rstd).reshape(x.shape)
    weight, bias = tensors["affine_scaling_weight"], tensors["affine_shifting_bias"]
    return (normed * weight[:, None] + bias[:, None],)


def _usual(rng: random.Random) -> Constants:
    return {"eps": 10 ** rng.uniform(-7, -4)}


def _large(rng: random.Random) -> Constants:
    """An eps far above its default shows whether it is used at all."""
    return {"eps": 10 ** rng.uniform(-3, -0.5)}


CHANNELS = "groups*each"

RECIPE = Recipe(
    arguments=(
        Operand("X", ("batch", CHANNELS, "length")),
        Operand("affine_scaling_weight", (CHANNELS,), fill="weight"),
        Operand("affine_shifting_bias", (CHANNELS,)),
        Constant("num_channels", size=CHANNELS),
        Constant("num_groups", size="groups"),
        Constant("eps"),
    ),
    outputs=(Output("Y", ("batch", CHANNELS, "length")),),
    stock={"eps": 1e-6},
    modes=(_large, _usual),
    reference=reference,
    forward_traffic=("X", "affine_scaling_weight", "affine_shifting_bias", "Y"),
    # The bias is only added: its gradient is a sum, and its values are not needed.
    backward_traffic=(
        "dY",
        "X",
        "affine_scaling_weight",
        "dX",
        "daffine_scaling_weight",
        "daffine_shifting_bias",
    ),
    layouts=("dense", "padded", "transposed"),
    rows="batch*groups",
    cols="each*length",
)
