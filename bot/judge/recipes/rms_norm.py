"""x / sqrt(mean(x^2) + eps) * (offset + w). How it rounds on the way is the kernel's own business; the oracle does
not round."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["X"]
    y = x * (x.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt()
    if tensors.get("W") is not None:
        y = y * (tensors["W"] + constants["offset"])
    return (y,)


def norm_mode(casting_mode: str, in_place: bool, **fixed: Any) -> Any:
    """eps far above its default shows whether it is used at all; the offset is 0 for Llama and 1 for Gemma, and drawn
    here."""

    def draw(rng: random.Random) -> Constants:
        return {
            "eps": 10 ** rng.uniform(-5, -0.5),
            "offset": rng.uniform(-0.5, 1.5),
            "casting_mode": casting_mode,
            "in_place": in_place,
            **fixed,
        }

    return draw


_mode = partial(norm_mode, row_mode=None)


RECIPE = Recipe(
    arguments=(
        Operand("X", ("rows", "cols")),
        Operand("W", ("cols",), fill="weight"),
        Constant("eps"),
        Constant("offset"),
        Constant("casting_mode"),
        Constant("in_place"),
        Constant("row_mode"),
    ),
    outputs=(Output("Y", ("rows", "cols")),),
    stock={"eps": 1e-6, "offset": 0.0, "casting_mode": "llama", "in_place": True, "row_mode": None},
    modes=(
        _mode("llama", in_place=True),
        _mode("gemma", in_place=False),
        _mode("llama", in_place=False, offset=0.0),
        _mode("gemma", in_place=True, W=None),
        _mode("none", in_place=False),
    ),
    reference=reference,
    forward_traffic=("X", "W", "Y"),
    backward_traffic=("dY", "X", "W", "dX", "dW"),
    stacks=True,
    optional=4,
    layouts=("dense", "padded", "transposed"),
)
