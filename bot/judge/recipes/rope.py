"""Rotary position embedding: each head's first half and second half are turned by angles that go with the position.

Query and key come as heads leave a projection, the sequence before the heads in memory, and cos and sin with the same
half twice, as in the models that use it. One table serves the whole batch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def turned(x: Any, cos: Any, sin: Any, width: int) -> Any:
    """The first `width` entries of each head, rotated; cos and sin are half as wide."""
    first, second, rest = x[..., : width // 2], x[..., width // 2 : width], x[..., width:]
    return _joined(first * cos - second * sin, second * cos + first * sin, rest)


def _joined(*parts: Any) -> Any:
    out = parts[0].new_zeros((*parts[0].shape[:-1], sum(part.shape[-1] for part in parts)))
    start = 0
    for part in parts:
        out[..., start : start + part.shape[-1]] = part
        start += part.shape[-1]
    return out


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    q, k = tensors["q"], tensors["k"]
    width: Any = constants["rotary_dim"] or q.shape[-1]
    cos, sin = (tensors[name][:, None, :, : width // 2] for name in ("cos", "sin"))
    return turned(q, cos, sin, width), turned(k, cos, sin, width)


STOCK: Constants = {"position_ids": None, "unsqueeze_dim": 1, "rotary_dim": None}


def _whole(rng: random.Random) -> Constants:
    return dict(STOCK)


def _part(rng: random.Random) -> Constants:
    """Only the first entries of a head are turned, as in models with partial rotation."""
    return {**STOCK, "rotary_dim": 2}


Q, K = ("batch", "kv*group", "length", "head"), ("batch", "kv", "length", "head")
TABLE = ("1", "length", "head")

RECIPE = Recipe(
    arguments=(
        Operand("q", Q, layout="swapped"),
        Operand("k", K, layout="swapped"),
        Operand("cos", TABLE, fill="halves", grad=False),
        Operand("sin", TABLE, fill="halves", grad=False),
        Constant("position_ids"),
        Constant("unsqueeze_dim"),
        Constant("rotary_dim"),
    ),
    outputs=(Output("q_turned", Q, layout="swapped"), Output("k_turned", K, layout="swapped")),
    stock=STOCK,
    modes=(_whole, _part, _whole),
    reference=reference,
    forward_traffic=("q", "k", "cos", "sin", "q_turned", "k_turned"),
    backward_traffic=("dq_turned", "dk_turned", "cos", "sin", "dq", "dk"),
    layouts=("dense", "padded", "transposed"),
    optional=3,
    evens=("head",),
    rows="batch*length",
    cols="kv*group*head",
)
