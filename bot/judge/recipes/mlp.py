"""down(silu(gate(x)) * up(x)): what a decoder layer of a model does beside attention.

Widths are eighths. The stock kernels have the copy engine of a GPU fetch blocks, which wants rows of a multiple of 16
bytes, and the op says so of any others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe
from bot.judge.recipes import swiglu

WIDE, INNER = "8*wide", "8*inner"


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x = tensors["x"]
    gate = x @ tensors["gate_weight"].T * constants["gate_multiplier"]
    mixed = gate * gate.sigmoid() * (x @ tensors["up_weight"].T)
    return (mixed @ tensors["down_weight"].T * constants["down_multiplier"],)


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
    stock=swiglu.STOCK,
    modes=swiglu.MODES,
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
