"""gelu(a) * b with the tanh approximation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    import torch

    return (torch.nn.functional.gelu(tensors["a"], approximate="tanh") * tensors["b"],)


RECIPE = Recipe(
    arguments=(Operand("a", ("rows", "cols")), Operand("b", ("rows", "cols"))),
    outputs=(Output("c", ("rows", "cols")),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("a", "b", "c"),
    backward_traffic=("dc", "a", "b", "da", "db"),
)
