"""down(silu(gate(x)) * up(x)): what a decoder layer of a model does beside attention.

Widths are eighths. The stock kernels have the copy engine of a GPU fetch blocks, which wants rows of a multiple of 16
bytes, and the op says so of any others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe

WIDE, INNER = "8*wide", "8*inner"


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["x"]
    gate = x @ tensors["gate_weight"].T * constants["gate_multiplier"]
    mixed = gate * gate.sigmoid() * (x @ tensors["up_weight"].T)
    return (mixed @ tensors["down_weight"].T * constants["down_multiplier"],)


def _plain(rng: random.Random) -> Constants:
    return {"gate_multiplier": 1.0, "down_multiplier": 1.0}


def _scaled(rng: random.Random) -> Constants:
    """Falcon H1 scales both."""
    return {"gate_multiplier": rng.uniform(0.3, 1.9), "down_multiplier": rng.uniform(0.3, 1.9)}


RECIPE = Recipe(
    arguments=(
        Operand("x", ("batch", "length", WIDE)),
        Operand("gate_weight", (INNER, WIDE), fill="projection"),
        Operand("up_weight", (INNER, WIDE), fill="projection"),
        Operand("down_weight", (WIDE, INNER), fill="projection"),
        Constant("gate_multiplier"),
        Constant("down_multiplier"),
    ),
    outputs=(Output("mixed", ("batch", "length", WIDE)),),
    stock={"gate_multiplier": 1.0, "down_multiplier": 1.0},
    modes=(_plain, _scaled),
    reference=reference,
    forward_traffic=("x", "gate_weight", "up_weight", "down_weight", "mixed"),
    backward_traffic=(
        *("dmixed", "x", "gate_weight", "up_weight", "down_weight"),
        *("dx", "dgate_weight", "dup_weight", "ddown_weight"),
    ),
    optional=2,
    rows="length",
    cols="wide",
    tuned=("wide", "inner"),
    infers=True,
    on_the_way=(("batch", "length", INNER), ("batch", "length", INNER)),
)
