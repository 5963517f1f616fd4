"""A mixture of experts: each token goes through the few that a router chose for it, and their answers are weighed.

Every index names an expert, and no two of a token name the same one, as a router's do. Checks crowd some experts and
leave others without a token. Where passes are scored each expert gets as many tokens whatever the contents, and other
tokens each time: the grid of the stock kernels comes from those numbers, which the host waits for, so a recording of
other numbers could not be played. They are the numbers of an even router, the same for every variant.

There are a whole number of times as many experts as a token has, so that no draw of sizes asks for more than there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    x, index, weights = (tensors[name] for name in ("x", "top_k_index", "top_k_weights"))
    found = x.new_zeros(x.shape)
    for expert in index.unique().tolist():
        tokens, slots = (index == expert).nonzero(as_tuple=True)
        gate, up = (x[tokens] @ tensors["gate_up_proj"][expert].T).chunk(2, dim=-1)
        answers = (gate * gate.sigmoid() * up) @ tensors["down_proj"][expert].T
        found = found.index_add(0, tokens, answers * weights[tokens, slots, None])
    return (found,)


EXPERTS = "each*spread"

RECIPE = Recipe(
    arguments=(
        Operand("x", ("tokens", "cols")),
        Operand("gate_up_proj", (EXPERTS, "2*inner", "cols"), fill="projection"),
        Operand("down_proj", (EXPERTS, "cols", "inner"), fill="projection"),
        Operand("top_k_index", ("tokens", "each"), fill="routing", classes=EXPERTS, grad=False, dtype="int32"),
        Operand("top_k_weights", ("tokens", "each"), fill="weight"),
    ),
    outputs=(Output("mixed", ("tokens", "cols")),),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    # In a scored case no expert is without a token.
    forward_traffic=("x", "gate_up_proj", "down_proj", "top_k_index", "top_k_weights", "mixed"),
    backward_traffic=(
        *("dmixed", "x", "gate_up_proj", "down_proj", "top_k_index", "top_k_weights"),
        *("dx", "dgate_up_proj", "ddown_proj", "dtop_k_weights"),
    ),
    layouts=("dense", "padded", "transposed"),
    rows="tokens",
    tuned=("each", "cols", "inner"),
)
