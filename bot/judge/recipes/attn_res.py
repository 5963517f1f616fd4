"""Attention over depth: each token mixes what earlier blocks made of it, by the softmax of a learnt score of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    v = tensors["V_stacked"]
    keys = v * (v.square().mean(dim=-1, keepdim=True) + constants["eps"]).rsqrt() * tensors["w_norm"]
    scores = (keys * tensors["w_query"]).sum(dim=-1, keepdim=True)
    weights = (scores - scores.detach().amax(dim=0, keepdim=True)).exp()
    return ((weights / weights.sum(dim=0, keepdim=True) * v).sum(dim=0),)


def _mode(low: float, high: float) -> Any:
    """An eps far above its default shows whether it is used at all."""
    return lambda rng: {"eps": 10 ** rng.uniform(low, high)}


RECIPE = Recipe(
    arguments=(
        Operand("V_stacked", ("blocks", "rows", "cols")),
        Operand("w_query", ("cols",)),
        Operand("w_norm", ("cols",), fill="weight"),
        Constant("eps"),
    ),
    outputs=(Output("h", ("rows", "cols")),),
    stock={"eps": 1e-6},
    modes=(_mode(-3, -0.5), _mode(-7, -4)),
    reference=reference,
    forward_traffic=("V_stacked", "w_query", "w_norm", "h"),
    backward_traffic=("dh", "V_stacked", "w_query", "w_norm", "dV_stacked", "dw_query", "dw_norm"),
    layouts=("dense", "padded", "transposed"),
)
