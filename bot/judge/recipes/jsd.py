"""Generalised Jensen-Shannon divergence of log-probabilities, summed over classes and averaged over the rows that
count."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x, y = tensors["_input"], tensors["target"]
    beta: Any = constants["beta"]
    q, p = x.exp(), y.exp()
    if beta == 0.0:
        loss = p * (y - x)
    elif beta == 1.0:
        loss = q * (x - y)
    else:
        log_m = (beta * p + (1 - beta) * q).log()
        loss = beta * p * (y - log_m) + (1 - beta) * q * (x - log_m)
    labels = tensors.get("shift_labels")
    if labels is None:
        return (loss.sum() / x.shape[0],)
    counts = labels != constants["ignore_index"]
    return ((loss * counts[:, None]).sum() / counts.sum().clamp(min=1),)


def _beta(rng: random.Random) -> float:
    """As often close to an end, where it is easily taken for that."""
    return rng.choice((round(rng.uniform(0.1, 0.9), 3), 0.01, round(rng.uniform(0.1, 0.9), 3), 0.99))


def _between(rng: random.Random) -> Constants:
    return {"shift_labels": None, "beta": _beta(rng), "ignore_index": -100}


def _labelled(rng: random.Random) -> Constants:
    return {"beta": _beta(rng), "ignore_index": rng.choice((-100, -1, 3))}


def _edge(beta: float) -> Any:
    return lambda rng: {"shift_labels": None, "beta": beta, "ignore_index": -100}


RECIPE = Recipe(
    arguments=(
        Operand("_input", ("rows", "cols"), fill="log_probability"),
        Operand("target", ("rows", "cols"), fill="log_probability", grad=False),
        Operand("shift_labels", ("rows",), fill="labels", grad=False, strangers=True),
        Constant("beta"),
        Constant("ignore_index"),
    ),
    outputs=(Output("loss", ()),),
    stock={"shift_labels": None, "beta": 0.5, "ignore_index": -100},
    # Twice with labels, so that the narrowest and the widest case meet rows that do not count.
    modes=(_labelled, _between, _edge(0.0), _labelled, _edge(1.0)),
    reference=reference,
    # The gradient is made together with the loss: both need the same exponentials.
    forward_traffic=("_input", "target", "d_input", "loss"),
    backward_traffic=("d_input", "dloss", "d_input"),
    optional=3,
    layouts=("dense", "padded", "transposed"),
)
