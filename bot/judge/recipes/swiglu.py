"""silu(gate * a) * b * down: the gate and what it lets through, each times a number of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    gate = tensors["a"] * constants["gate_multiplier"]
    return (gate / (1 + (-gate).exp()) * tensors["b"] * constants["down_multiplier"],)


def _plain(rng: random.Random) -> Constants:
    return {"gate_multiplier": 1.0, "down_multiplier": 1.0}


def _scaled(rng: random.Random) -> Constants:
    return {"gate_multiplier": rng.uniform(0.3, 1.9), "down_multiplier": rng.uniform(0.3, 1.9)}


RECIPE = Recipe(
    arguments=(
        Operand("a", ("rows", "cols")),
        Operand("b", ("rows", "cols")),
        Constant("gate_multiplier"),
        Constant("down_multiplier"),
    ),
    outputs=(Output("c", ("rows", "cols")),),
    stock={"gate_multiplier": 1.0, "down_multiplier": 1.0},
    modes=(_plain, _scaled),
    reference=reference,
    forward_traffic=("a", "b", "c"),
    backward_traffic=("dc", "a", "b", "da", "db"),
    stacks=True,
    optional=2,
    layouts=("dense", "padded", "transposed"),
)
