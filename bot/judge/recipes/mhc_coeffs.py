"""Coefficients of manifold-constrained hyper-connections (mHC): what each of several residual streams gives to a layer,
gets of its result, and hands to the other streams.

The last are made nearly doubly stochastic by Sinkhorn's steps. There are 1, 2, 4, 8, ... streams, as the stock kernels
can index no others. Float32 is allowed in every check; that it is refused where it is not is left to the library's own
tests, as is the pass back from one or two of the three results alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Mode, Operand, Output, Recipe


def _softmax(logits: Any) -> Any:
    e = (logits - logits.detach().amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


def balanced(logits: Any, steps: int, eps: float) -> Any:
    """Columns sum to 1, and rows the more nearly the more steps are taken."""
    found = _softmax(logits) + eps
    for step in range(steps):
        if step:
            found = found / (found.sum(dim=-1, keepdim=True) + eps)
        found = found / (found.sum(dim=-2, keepdim=True) + eps)
    return found


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    told: Mapping[str, Any] = constants
    x = tensors["x"]
    streams = x.shape[-2]
    flat = x.flatten(-2)
    scale = (flat.square().mean(dim=-1, keepdim=True) + told["rms_eps"]).rsqrt()
    sizes = (streams, streams, streams * streams)
    alphas = (tensors[name] for name in ("alpha_pre", "alpha_post", "alpha_res"))
    mixed = ((flat @ tensors["phi"]) * scale).split(sizes, dim=-1)
    pre, post, res = (
        mix * alpha + bias for mix, alpha, bias in zip(mixed, alphas, tensors["b"].split(sizes), strict=True)
    )
    between = balanced(res.unflatten(-1, (streams, streams)), told["tmax"], told["sinkhorn_eps"])
    return pre.sigmoid() + told["pre_eps"], post.sigmoid() * told["post_mult"], between


STOCK: Constants = {
    "allow_fp32": False,
    "tmax": 20,
    "rms_eps": 1e-6,
    "pre_eps": 0.0,
    "sinkhorn_eps": 1e-6,
    "post_mult": 2.0,
}


def _mode(*steps: int) -> Mode:
    """An eps far above its default shows whether it is used at all. Steps are few: an interpreter takes its time."""

    def draw(rng: random.Random) -> Constants:
        return {
            "allow_fp32": True,
            "tmax": rng.choice(steps),
            "rms_eps": 10 ** rng.uniform(-3, -0.5),
            "pre_eps": round(rng.uniform(0.01, 0.3), 3),
            "sinkhorn_eps": 10 ** rng.uniform(-3, -1),
            "post_mult": round(rng.uniform(0.5, 3.0), 3),
        }

    return draw


TOKENS = ("batch", "length")
X = (*TOKENS, "streams", "cols")
COEFFICIENTS = "streams*streams+2*streams"

RECIPE = Recipe(
    arguments=(
        Operand("x", X),
        Operand("phi", ("streams*cols", COEFFICIENTS), fill="turned_projection"),
        # About 0, as they begin: far from it every sigmoid is 0 or 1.
        Operand("b", (COEFFICIENTS,), fill="projection", dtype="float32"),
        *(Operand(name, (), dtype="float32") for name in ("alpha_pre", "alpha_post", "alpha_res")),
        *(Constant(name) for name in STOCK),
    ),
    outputs=(
        Output("h_pre", (*TOKENS, "streams"), dtype="float32"),
        Output("h_post", (*TOKENS, "streams"), dtype="float32"),
        Output("h_res", (*TOKENS, "streams", "streams"), dtype="float32"),
    ),
    stock=STOCK,
    modes=(_mode(2, 3), _mode(1), _mode(4, 5)),
    reference=reference,
    forward_traffic=("x", "phi", "h_pre", "h_post", "h_res"),
    backward_traffic=("dh_pre", "dh_post", "dh_res", "x", "phi", "dx", "dphi"),
    layouts=("dense", "padded", "transposed"),
    rows="batch*length",
    cols="streams*cols",
    powers=("streams",),
)
