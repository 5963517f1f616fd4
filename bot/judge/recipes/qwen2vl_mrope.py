"""Rotary position embedding with three tables: time, height and width each turn their section of a head.

Query and key come as heads leave a projection, and cos and sin with the same half twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe
from bot.judge.recipes.rope import turned


def _table(three: Any, sections: Any) -> Any:
    """Of each of the three tables its own section."""
    found = three.new_zeros((*three.shape[1:-1], sum(sections)))
    start = 0
    for table, section in zip(three, sections, strict=True):
        found[..., start : start + section] = table[..., start : start + section]
        start += section
    return found[:, None]


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    q, k = tensors["q"], tensors["k"]
    cos, sin = (_table(tensors[name], constants["mrope_section"]) for name in ("cos", "sin"))
    return turned(q, cos, sin, q.shape[-1]), turned(k, cos, sin, k.shape[-1])


# Sections of 16, 24 and 24 of a head of 128, as in the models that use it, and the same shares of smaller ones.
HEAD, SECTIONS = "16*unit", ("2*unit", "3*unit", "3*unit")
Q, K = ("batch", "kv*group", "length", HEAD), ("batch", "kv", "length", HEAD)
TABLE = ("3", "batch", "length", HEAD)
# Half a head of each is the other half again, and of the three together that half is read once.

RECIPE = Recipe(
    arguments=(
        Operand("q", Q, layout="swapped"),
        Operand("k", K, layout="swapped"),
        Operand("cos", TABLE, fill="halves", grad=False, one_in=6),
        Operand("sin", TABLE, fill="halves", grad=False, one_in=6),
        Constant("mrope_section", size=SECTIONS),
        Constant("unsqueeze_dim"),
    ),
    outputs=(Output("q_turned", Q, layout="swapped"), Output("k_turned", K, layout="swapped")),
    stock={"unsqueeze_dim": 1},
    modes=(lambda rng: {"unsqueeze_dim": 1},),
    reference=reference,
    forward_traffic=("q", "k", "cos", "sin", "q_turned", "k_turned"),
    backward_traffic=("dq_turned", "dk_turned", "cos", "sin", "dq", "dk"),
    layouts=("dense", "padded", "transposed"),
    optional=1,
    rows="batch*length",
    cols="kv*group*16*unit",
)
