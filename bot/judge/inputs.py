"""Fills the inputs of a check, from its seed alone."""

from __future__ import annotations

from typing import Any

import torch

from bot.judge.plan import Probe
from bot.judge.recipe import Operand, Recipe
from bot.worker.contract import Call, TensorSpec, offsets

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
}
LARGEST = 200.0
"""Heavy tails are cut here: the square of more would overflow the sums that stock kernels keep in float16."""


def _normal(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def _scaled_rows(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    """One large row must not hide a wrong small one."""
    exponents = torch.randint(-6, 6, (*shape[:-1], 1), generator=rng, dtype=torch.float64)
    return _normal(shape, rng) * torch.exp2(exponents)


def _spikes(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    """A ramp with one high value in each row, at a random place or in the last column, where a wrong mask would miss
    it."""
    values = torch.linspace(-2, 2, shape[-1], dtype=torch.float64).expand(shape).clone()
    rows = values.reshape(-1, shape[-1])
    where = torch.randint(0, shape[-1], (rows.shape[0],), generator=rng)
    where[::2] = shape[-1] - 1
    rows[torch.arange(rows.shape[0]), where] = 12.0
    return rows.reshape(shape) + 0.01 * _normal(shape, rng)


def _offset(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    return 6.0 + 0.1 * _normal(shape, rng)


def _tails(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    return (_normal(shape, rng) / _normal(shape, rng).abs().clamp(min=1e-3)).clamp(-LARGEST, LARGEST)


_SPREAD = {
    "normal": _normal,
    "scaled_rows": _scaled_rows,
    "spikes": _spikes,
    "offset": _offset,
    "tails": _tails,
}


def _values(operand: Operand, spec: TensorSpec, kind: str, rng: torch.Generator) -> Any:
    if operand.fill == "weight":
        return 1.0 + 0.3 * _normal(spec.shape, rng)
    if operand.fill == "log_probability":
        # Logits of several hundred would leave one class with all the probability and the rest with none.
        return _SPREAD[kind](spec.shape, rng).clamp(-20, 20).log_softmax(dim=-1)
    return _SPREAD[kind](spec.shape, rng)


def _labels(spec: TensorSpec, ignored: Any, rng: torch.Generator) -> Any:
    """About a third of the rows are ignored, and never all."""
    labels = torch.randint(0, 1000, spec.shape, generator=rng)
    labels[torch.rand(spec.shape, generator=rng) < 0.34] = int(ignored)
    if labels.numel():
        labels[0] = 1000
    return labels


def _gradient(spec: TensorSpec, rng: torch.Generator) -> Any:
    """Never all ones: a kernel that forgets to multiply must be caught."""
    if spec.shape == ():
        return torch.rand((), generator=rng, dtype=torch.float64) * 1.5 + 0.25
    return _normal(spec.shape, rng)


def fill(recipe: Recipe, probe: Probe) -> dict[str, torch.Tensor]:
    """Every tensor of the call by name, already in the type the kernel gets."""
    rng = torch.Generator().manual_seed(probe.seed)
    operands = {operand.name: operand for operand in recipe.operands}
    filled = {}
    for argument in probe.call.arguments:
        spec = argument.tensor
        if spec is None:
            continue
        if operands[spec.name].fill == "labels":
            filled[spec.name] = _labels(spec, probe.constants["ignore_index"], rng)
        else:
            filled[spec.name] = _values(operands[spec.name], spec, probe.kind, rng).to(DTYPES[spec.dtype])
    for spec in probe.call.grads:
        filled[spec.name] = _gradient(spec, rng).to(DTYPES[spec.dtype])
    return filled


def raw_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def to_blob(call: Call, filled: dict[str, torch.Tensor]) -> bytes:
    starts, size = offsets(call.tensors)
    blob = bytearray(size)
    for spec, start in zip(call.tensors, starts, strict=True):
        blob[start : start + spec.nbytes] = raw_bytes(filled[spec.name])
    return bytes(blob)
