"""Attention of each position to its neighbours alone: the nearest ones, or every second or third of a wider window."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def neighbours(length: int, window: Any, step: Any, device: Any) -> Any:
    import torch

    place = torch.arange(length, device=device)
    apart = place[:, None] - place[None, :]
    return (apart.abs() <= window // 2 * step) & (apart % step == 0)


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    import torch  # a plan needs none

    query, key, value = (tensors[name] for name in ("query", "key", "value"))
    scale: Any = constants["scale"] or 1 / math.sqrt(query.shape[-1])
    seen = neighbours(query.shape[-2], constants["kernel_size"], constants["dilation"], query.device)
    scores = query @ key.transpose(-1, -2) * scale
    # Step by step rather than torch's own: the judge rounds each step to see how far honest kernels may differ.
    top = scores.detach().masked_fill(~seen, -torch.inf).amax(dim=-1, keepdim=True)
    e = torch.where(seen, scores - top, 0.0).exp() * seen
    return (e / e.sum(dim=-1, keepdim=True) @ value,)


STOCK: Constants = {"kernel_size": 7, "dilation": 1, "scale": None}


def _drawn(rng: random.Random) -> Constants:
    return {"kernel_size": rng.choice((1, 3, 5, 9)), "dilation": rng.choice((1, 2, 3)), "scale": rng.uniform(0.1, 0.6)}


HEADS = ("batch", "heads", "length", "head")

RECIPE = Recipe(
    arguments=(
        *(Operand(name, HEADS, layout="swapped") for name in ("query", "key", "value")),
        *(Constant(name) for name in STOCK),
    ),
    outputs=(Output("attended", HEADS),),
    stock=STOCK,
    modes=(_drawn, lambda rng: dict(STOCK)),
    reference=reference,
    forward_traffic=("query", "key", "value", "attended"),
    backward_traffic=("dattended", "query", "key", "value", "dquery", "dkey", "dvalue"),
    layouts=("dense", "padded", "transposed"),
    optional=3,
    rows="batch*heads*length",
    cols="head",
    on_the_way=(("batch", "heads", "length", "length"),),
)
