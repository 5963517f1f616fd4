"""Kullback-Leibler divergence of a distribution from predicted log-probabilities, summed or averaged.

The loss of each element by itself has another shape, and callers who train do not ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    predicted, target = tensors["y_pred"], tensors["y_true"]
    eps: Any = constants["eps"]
    if constants["log_target"]:
        loss = target.exp() * (target - predicted)
    else:
        loss = target * (target.clamp(min=eps).log() - predicted)
    shares = {"sum": 1, "batchmean": target.shape[0], "mean": target.numel()}
    return (loss.sum() / shares[str(constants["reduction"])],)


def _mode(reduction: str, log_target: bool) -> Any:
    """eps far above its default shows whether it is used at all."""
    return lambda rng: {"reduction": reduction, "log_target": log_target, "eps": 10 ** rng.uniform(-6, -2)}


RECIPE = Recipe(
    arguments=(
        Operand("y_pred", ("rows", "cols"), fill="log_probability"),
        Operand(
            "y_true",
            ("rows", "cols"),
            fill="probability",
            grad=False,
            otherwise=("log_target", True, "log_probability"),
        ),
        Constant("reduction"),
        Constant("log_target"),
        Constant("eps"),
    ),
    outputs=(Output("loss", ()),),
    stock={"reduction": "batchmean", "log_target": False, "eps": 1e-10},
    modes=(_mode("batchmean", False), _mode("mean", True), _mode("sum", False), _mode("batchmean", True)),
    reference=reference,
    forward_traffic=("y_pred", "y_true", "loss"),
    backward_traffic=("dloss", "y_true", "dy_pred"),
    optional=3,
    layouts=("dense", "padded", "transposed"),
)
