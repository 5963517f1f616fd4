"""gelu(a) * b with the tanh approximation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    a = tensors["a"]
    u = (2 / math.pi) ** 0.5 * (a + 0.044715 * a * a * a)
    return (0.5 * a * (1 + u.tanh()) * tensors["b"],)


RECIPE = Recipe(
    arguments=(Operand("a", ("rows", "cols")), Operand("b", ("rows", "cols"))),
    outputs=(Output("c", ("rows", "cols")),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("a", "b", "c"),
    backward_traffic=("dc", "a", "b", "da", "db"),
    stacks=True,
    layouts=("dense", "padded", "transposed"),
)
