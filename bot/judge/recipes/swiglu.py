"""silu(gate * a) * b * down: the gate and what it lets through, each times a number of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Mode, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    gate = tensors["a"] * constants["gate_multiplier"]
    return (gate / (1 + (-gate).exp()) * tensors["b"] * constants["down_multiplier"],)


def _scaled(rng: random.Random) -> Constants:
    return {"gate_multiplier": rng.uniform(0.3, 1.9), "down_multiplier": rng.uniform(0.3, 1.9)}


STOCK: Constants = {"gate_multiplier": 1.0, "down_multiplier": 1.0}
MODES: tuple[Mode, ...] = (lambda rng: dict(STOCK), _scaled)

RECIPE = Recipe(
    arguments=(
        Operand("a", ("rows", "cols")),
        Operand("b", ("rows", "cols")),
        Constant("gate_multiplier"),
        Constant("down_multiplier"),
    ),
    outputs=(Output("c", ("rows", "cols")),),
    stock=STOCK,
    modes=MODES,
    reference=reference,
    forward_traffic=("a", "b", "c"),
    backward_traffic=("dc", "a", "b", "da", "db"),
    stacks=True,
    optional=2,
    layouts=("dense", "padded", "transposed"),
)
