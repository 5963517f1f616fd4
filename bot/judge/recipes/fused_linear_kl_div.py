"""Kullback-Leibler divergence of given distributions from a student whose logits are a projection, and are never wholly
there."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    logits = tensors["student_input"] @ tensors["student_weight"].T / constants["temperature"]
    centred = logits - logits.detach().amax(dim=-1, keepdim=True)
    return of_logs(centred - centred.exp().sum(dim=-1, keepdim=True).log(), tensors, constants)


def of_logs(logs: Any, tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    """Once the student's log-probabilities are there."""
    target = tensors["target"]
    eps: Any = constants["eps"]
    divergence = (target * (target.clamp(min=eps).log() - logs)).sum(dim=-1)
    labels = tensors.get("shift_labels")
    if labels is None:
        total, rows = divergence.sum(), target.shape[0]
    else:
        counts = labels != constants["ignore_index"]
        total, rows = (divergence * counts).sum(), counts.sum()
    shares = {"sum": 1, "batchmean": rows, "mean": rows * target.shape[1]}
    return (total / shares[str(constants["reduction"])],)


def _mode(reduction: str, **fixed: Any) -> Any:
    """eps far above its default shows whether it is used at all."""

    def draw(rng: random.Random) -> Constants:
        return {
            "reduction": reduction,
            "ignore_index": rng.choice((-100, -1, 3)),
            "temperature": round(rng.uniform(0.5, 2.0), 3),
            "eps": 10 ** rng.uniform(-6, -2),
            "accum_dtype": None,
            **fixed,
        }

    return draw


RECIPE = Recipe(
    arguments=(
        Operand("student_input", ("rows", "hidden")),
        Operand("student_weight", ("cols", "hidden"), fill="projection"),
        Operand("target", ("rows", "cols"), fill="probability", grad=False),
        Operand("shift_labels", ("rows",), fill="labels", grad=False, strangers=True),
        Constant("reduction"),
        Constant("ignore_index"),
        Constant("temperature"),
        Constant("eps"),
        Constant("accum_dtype"),
    ),
    outputs=(Output("loss", ()),),
    stock={
        "shift_labels": None,
        "reduction": "batchmean",
        "ignore_index": -100,
        "temperature": 1.0,
        "eps": 1e-10,
        "accum_dtype": None,
    },
    modes=(_mode("batchmean"), _mode("mean", shift_labels=None), _mode("sum"), _mode("batchmean", shift_labels=None)),
    reference=reference,
    # The gradients are made together with the loss.
    forward_traffic=("student_input", "student_weight", "target", "dstudent_input", "dstudent_weight", "loss"),
    backward_traffic=("dstudent_input", "dstudent_weight", "dloss", "dstudent_input", "dstudent_weight"),
    optional=6,
)
