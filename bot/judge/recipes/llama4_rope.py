"""Rotary position embedding of neighbours: each pair of a head is a complex number, times one that goes with the
position.

The factors are handed over as pairs of float32, which the op takes as it takes complex numbers. Its block size is left
to it, as callers do: with one given, the backward pass of the stock op returns too few gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.judge.recipe import Constants, Operand, Output, Recipe


def _turned(x: Any, factors: Any) -> Any:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    real, imaginary = pairs[..., 0], pairs[..., 1]
    cos, sin = factors[:, None, :, 0], factors[:, None, :, 1]
    out = pairs.new_zeros(pairs.shape)
    out[..., 0] = real * cos - imaginary * sin
    out[..., 1] = real * sin + imaginary * cos
    return out.reshape(x.shape)


def reference(tensors: Mapping[str, Any], constants: Constants) -> tuple[Any, ...]:
    factors = tensors["freqs_cis"]
    return _turned(tensors["q"], factors), _turned(tensors["k"], factors)


Q, K = ("batch", "length", "kv*group", "2*half"), ("batch", "length", "kv", "2*half")

RECIPE = Recipe(
    arguments=(
        Operand("q", Q),
        Operand("k", K),
        Operand("freqs_cis", ("length", "half", "2"), grad=False, dtype="float32"),
    ),
    outputs=(Output("q_turned", Q), Output("k_turned", K)),
    stock={},
    modes=(lambda rng: {},),
    reference=reference,
    forward_traffic=("q", "k", "freqs_cis", "q_turned", "k_turned"),
    backward_traffic=("dq_turned", "dk_turned", "freqs_cis", "dq", "dk"),
    layouts=("dense", "padded", "transposed"),
    rows="batch*length",
    cols="kv*group*2*half",
)
