"""Attention weights that neighbours share: softmax of the scores up to the diagonal, a convolution, and nothing above
the diagonal.

The window is 3 by 3, the weights are those of softmax. What sparsemax makes of them is another kernel's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Operand, Output, Recipe


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    import torch  # a plan needs none

    scores = tensors["scores"]
    length = scores.shape[-1]
    seen = torch.ones(length, length, dtype=torch.bool, device=scores.device).tril()
    # Step by step rather than torch's own: the judge rounds each step to see how far honest kernels may differ.
    top = scores.detach().masked_fill(~seen, -torch.inf).amax(dim=-1, keepdim=True)
    e = torch.where(seen, scores - top, 0.0).exp() * seen
    weights = e / e.sum(dim=-1, keepdim=True)
    mixed = torch.nn.functional.conv2d(weights, tensors["weight"], tensors.get("bias"), padding=1)
    return (torch.where(seen, mixed, 0.0),)


PLAIN: Constants = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1, "sparse": False}
SCORES = ("batch", "channels", "length", "length")

RECIPE = Recipe(
    arguments=(
        Operand("scores", SCORES),
        Operand("weight", ("channels", "channels", "3", "3"), fill="projection"),
        Operand("bias", ("channels",)),
        *(Constant(name) for name in PLAIN),
    ),
    outputs=(Output("mixed", SCORES),),
    stock={**PLAIN, "bias": None},
    modes=(lambda rng: dict(PLAIN), lambda rng: {**PLAIN, "bias": None}),
    reference=reference,
    forward_traffic=("scores", "weight", "mixed"),
    backward_traffic=("dmixed", "scores", "weight", "dscores", "dweight"),
    layouts=("dense", "padded", "transposed"),
    # It masks squares as wide as a row. Those of 512 columns take a compiler 40 to 45 s, three kernels in each type.
    bounded=("length",),
    rows="batch*channels*length",
    cols="length",
)
