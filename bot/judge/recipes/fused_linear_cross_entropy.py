"""Cross entropy of logits that are a projection, x w^T + bias, and are never wholly there.

Only the loss that is averaged or summed is judged, as that of cross_entropy is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe
from bot.judge.recipes import cross_entropy


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    logits = tensors["_input"] @ tensors["weight"].T
    bias = tensors.get("bias")
    found = {"_input": logits if bias is None else logits + bias, "target": tensors["target"]}
    if tensors.get("ce_weight") is not None:
        found["weight"] = tensors["ce_weight"]
    return cross_entropy.reference(found, constants)


STOCK: Constants = {
    "bias": None,
    "ce_weight": None,
    "ignore_index": -100,
    "lse_square_scale": 0.0,
    "label_smoothing": 0.0,
    "reduction": "mean",
    "softcap": None,
    "return_z_loss": False,
    "accum_dtype": None,
    "use_token_scaling": False,
    "return_token_accuracy": False,
    "return_predicted_tokens": False,
}


def _drawn(*given: str, **fixed: Any) -> Any:
    """With the tensors that are given; the others have their defaults."""

    def draw(rng: random.Random) -> Constants:
        drawn = {
            **STOCK,
            "ignore_index": rng.choice((-100, -1, 3)),
            "lse_square_scale": round(10 ** rng.uniform(-3, -1), 5),
            "label_smoothing": round(rng.uniform(0.05, 0.4), 3),
            **fixed,
        }
        return {name: value for name, value in drawn.items() if name not in given}

    return draw


RECIPE = Recipe(
    arguments=(
        Operand("_input", ("rows", "hidden")),
        Operand("weight", ("cols", "hidden"), fill="projection"),
        Operand("target", ("rows",), fill="labels", grad=False),
        Operand("bias", ("cols",)),
        Operand("ce_weight", ("cols",), fill="weight", grad=False),
        *(Constant(name) for name in STOCK if name not in ("bias", "ce_weight")),
    ),
    outputs=(Output("loss", ()),),
    stock=STOCK,
    modes=(
        _drawn("bias"),
        _drawn(label_smoothing=0.0, lse_square_scale=0.0),
        _drawn("ce_weight", "bias"),
        _drawn(reduction="sum"),
        _drawn("bias", softcap=15.0),
    ),
    reference=reference,
    # The gradients are made together with the loss.
    forward_traffic=("_input", "weight", "target", "d_input", "dweight", "loss"),
    backward_traffic=("d_input", "dweight", "dloss", "d_input", "dweight"),
    optional=10,
)
