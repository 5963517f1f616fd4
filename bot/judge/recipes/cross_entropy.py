"""Cross entropy of logits with class weights, smoothed labels, capped logits and a penalty on the log of the sum (z).

Only the loss that is averaged or summed is judged. The loss of each row by itself and what the op can return beside
the loss have other shapes, and callers who train do not ask for them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    smoothing: Any = constants["label_smoothing"]
    z_scale: Any = constants["lse_square_scale"]
    cap: Any = constants["softcap"]
    counts = tensors["target"] != constants["ignore_index"]
    logits, target = tensors["_input"][counts], tensors["target"][counts]
    if cap is not None:
        logits = cap * (logits / cap).tanh()
    # Step by step rather than torch's own: the judge rounds each step to see how far honest kernels may differ.
    top = logits.detach().amax(dim=-1, keepdim=True)
    lse = top + (logits - top).exp().sum(dim=-1, keepdim=True).log()
    weight = tensors.get("weight")
    weights = logits.new_ones(logits.shape[-1]) if weight is None else weight
    own = weights[target]
    surprise = lse - logits
    hard = own * surprise.gather(1, target[:, None])[:, 0]
    smooth = (surprise * weights).sum(dim=-1) / logits.shape[-1]
    loss = (1 - smoothing) * hard + smoothing * smooth
    z = z_scale * lse[:, 0] * lse[:, 0]
    if constants["reduction"] == "mean":
        # The penalty is averaged over rows, whatever their weights.
        return (loss.sum() / own.sum() + z.sum() / counts.sum(),)
    return (loss.sum() + z.sum(),)


STOCK: Constants = {
    "weight": None,
    "ignore_index": -100,
    "lse_square_scale": 0.0,
    "label_smoothing": 0.0,
    "reduction": "mean",
    "softcap": None,
    "return_z_loss": False,
    "return_token_accuracy": False,
    "return_predicted_tokens": False,
}


def _plain(rng: random.Random) -> Constants:
    return {**STOCK, "ignore_index": rng.choice((-100, -1, 3))}


def _smoothed(rng: random.Random) -> Constants:
    return {**STOCK, "label_smoothing": round(rng.uniform(0.05, 0.4), 3), "reduction": rng.choice(("mean", "sum"))}


def _summed(rng: random.Random) -> Constants:
    return {**STOCK, "reduction": "sum", "ignore_index": rng.choice((-1, 3)), "lse_square_scale": _z(rng)}


def _weighted(rng: random.Random) -> Constants:
    drawn = {**STOCK, "label_smoothing": round(rng.uniform(0.05, 0.4), 3), "lse_square_scale": _z(rng)}
    del drawn["weight"]
    return drawn


def _capped(rng: random.Random) -> Constants:
    return {**STOCK, "softcap": round(rng.uniform(2.0, 30.0), 2), "lse_square_scale": _z(rng)}


def _z(rng: random.Random) -> float:
    return round(10 ** rng.uniform(-3, -1), 5)


RECIPE = Recipe(
    arguments=(
        Operand("_input", ("rows", "cols")),
        Operand("target", ("rows",), fill="labels", grad=False),
        Operand("weight", ("cols",), fill="weight", grad=False),
        Constant("ignore_index"),
        Constant("lse_square_scale"),
        Constant("label_smoothing"),
        Constant("reduction"),
        Constant("softcap"),
        Constant("return_z_loss"),
        Constant("return_token_accuracy"),
        Constant("return_predicted_tokens"),
    ),
    outputs=(Output("loss", ()),),
    stock=STOCK,
    modes=(_plain, _smoothed, _summed, _weighted, _capped),
    reference=reference,
    # The gradient is made together with the loss, in the memory of the logits.
    forward_traffic=("_input", "target", "d_input", "loss"),
    backward_traffic=("d_input", "dloss", "d_input"),
    layouts=("dense", "padded", "transposed"),
    optional=8,
)
