"""Total variation distance of two distributions: half the sum of their differences, over the rows that count.

The distance of each element by itself has another shape, and callers who train do not ask for it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    p, q = tensors["p"], tensors["q"]
    distance = 0.5 * (p - q).abs().sum(dim=-1)
    labels = tensors.get("shift_labels")
    if labels is None:
        total, rows = distance.sum(), p.shape[0]
    else:
        counts = labels != constants["ignore_index"]
        total, rows = (distance * counts).sum(), counts.sum()
    shares = {"sum": 1, "batchmean": rows, "mean": rows * p.shape[1]}
    return (total / shares[str(constants["reduction"])],)


def _all(rng: random.Random) -> Constants:
    reduction = rng.choice(("batchmean", "mean", "sum"))
    return {"shift_labels": None, "reduction": reduction, "ignore_index": -100}


def _labelled(rng: random.Random) -> Constants:
    return {"reduction": rng.choice(("batchmean", "mean", "sum")), "ignore_index": rng.choice((-100, -1, 3))}


RECIPE = Recipe(
    arguments=(
        Operand("p", ("rows", "cols"), fill="probability"),
        Operand("q", ("rows", "cols"), fill="probability", grad=False),
        Operand("shift_labels", ("rows",), fill="labels", grad=False, strangers=True),
        Constant("reduction"),
        Constant("ignore_index"),
    ),
    outputs=(Output("loss", ()),),
    stock={"shift_labels": None, "reduction": "batchmean", "ignore_index": -100},
    modes=(_labelled, _all),
    reference=reference,
    # The gradient is the sign of a difference, which the loss needs too: it is made with it.
    forward_traffic=("p", "q", "dp", "loss"),
    backward_traffic=("dp", "dloss", "dp"),
    optional=3,
    layouts=("dense", "padded", "transposed"),
    compares=True,
)
