"""Fills the inputs of a check, from its seed alone."""

from __future__ import annotations

import math
from typing import Any

import torch

from bot.judge.plan import Probe
from bot.judge.recipe import Fill, Following, Recipe
from bot.worker.contract import Call, TensorSpec, offsets

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
}
HUGE = (1e4, 6e4)
HUGE_SHARE = 0.25
STRANGER = -7
"""A label that is no class and never the ignored one."""
ZEROS = 0.1
"""This share of the weights."""
LOSS_SCALE = 200.0
"""Times what is usual: a sum over a row of gradients that go with their inputs is then beyond half precision, and the
gradients themselves are not."""
MATRICES = ("peaks", "huge", "strange")
"""Kinds that say something about the rows of a matrix."""
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
    it. No two rows are alike: what a kernel keeps of a row in half precision would be rounded one way in all of them,
    and in all further draws as well."""
    values = torch.linspace(-2, 2, shape[-1], dtype=torch.float64).expand(shape).clone()
    rows = values.reshape(-1, shape[-1])
    steep, high = (0.8 + 0.4 * torch.rand(rows.shape[0], generator=rng, dtype=torch.float64) for _ in range(2))
    rows *= steep[:, None]
    where = torch.randint(0, shape[-1], (rows.shape[0],), generator=rng)
    where[::2] = shape[-1] - 1
    rows[torch.arange(rows.shape[0]), where] = 12.0 * high
    return rows.reshape(shape) + 0.01 * _normal(shape, rng)


def _offset(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    return 6.0 + 0.1 * _normal(shape, rng)


def _tails(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    return (_normal(shape, rng) / _normal(shape, rng).abs().clamp(min=1e-3)).clamp(-LARGEST, LARGEST)


def _peaks(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    """One value far above all others, and far from the head of its row: whoever looks at the head alone overflows."""
    values = _normal(shape, rng)
    values[..., -1 - shape[-1] // 4] = LARGEST
    return values


def _huge(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    """Among usual values some as large as half precision has them."""
    values = _normal(shape, rng)
    large = torch.exp(torch.rand(shape, generator=rng, dtype=torch.float64) * math.log(HUGE[1] / HUGE[0])) * HUGE[0]
    chosen = torch.rand(shape, generator=rng) < HUGE_SHARE
    return torch.where(chosen, large * values.sign(), values)


def _strange(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    """One NaN or infinity in a row: in the first three one of each, and none in the others."""
    values = _normal(shape, rng)
    rows = values.reshape(-1, shape[-1])
    for row, odd in zip(rows, (math.nan, math.inf, -math.inf), strict=False):
        row[int(torch.randint(0, shape[-1], (), generator=rng))] = odd
    return rows.reshape(shape)


_SPREAD = {
    "normal": _normal,
    "scaled_rows": _scaled_rows,
    "spikes": _spikes,
    "offset": _offset,
    "tails": _tails,
    "peaks": _peaks,
    "huge": _huge,
    "strange": _strange,
    "loss_scaled": _normal,
}


def _weight(shape: tuple[int, ...], rng: torch.Generator) -> Any:
    """Some are exactly 0, as in a layer that was pruned: nobody may divide by them. The first is not."""
    values = 1.0 + 0.3 * _normal(shape, rng)
    values[1:][torch.rand(values[1:].shape, generator=rng) < ZEROS] = 0.0
    return values


def _with_a_nan(values: Any, rng: torch.Generator) -> Any:
    first = values.reshape(-1, values.shape[-1])[0]
    first[int(torch.randint(0, len(first), (), generator=rng))] = math.nan
    return values


def _log_probability(shape: tuple[int, ...], kind: str, rng: torch.Generator) -> Any:
    if kind == "strange":
        return _with_a_nan(_normal(shape, rng).log_softmax(dim=-1), rng)
    # Logits of several hundred would leave one class with all the probability and the rest with none.
    return _SPREAD[kind](shape, rng).clamp(-20, 20).log_softmax(dim=-1)


def _values(what: Fill, spec: TensorSpec, kind: str, rng: torch.Generator) -> Any:
    if what == "weight":
        return _weight(spec.shape, rng)
    if not spec.shape or (kind in MATRICES and len(spec.shape) < 2):
        return _normal(spec.shape, rng)
    if what == "projection":
        return _normal(spec.shape, rng) / max(1, spec.shape[-1]) ** 0.5
    if what == "turned_projection":
        return _normal(spec.shape, rng) / max(1, spec.shape[-2]) ** 0.5
    if what in ("probability", "log_probability"):
        logs = _log_probability(spec.shape, kind, rng)
        return logs if what == "log_probability" else logs.exp()
    if what == "halves":
        half = _normal((*spec.shape[:-1], spec.shape[-1] // 2), rng).tanh()
        return torch.cat([half, half], dim=-1)
    return _SPREAD[kind](spec.shape, rng)


def _classes(spec: TensorSpec, rng: torch.Generator) -> Any:
    """Any class, none left out. The first is the last one, so that the tail of a row is looked up."""
    found = torch.randint(0, max(1, spec.below), spec.shape, generator=rng)
    found.view(-1)[:1] = max(1, spec.below) - 1
    return found


def _routing(spec: TensorSpec, rng: torch.Generator) -> Any:
    """So many classes a row, some of them sought after and others hardly."""
    liking = 2 * torch.randn(spec.below, generator=rng)
    return (torch.randn((spec.shape[0], spec.below), generator=rng) + liking).topk(spec.shape[1]).indices


def _labels(spec: TensorSpec, ignored: int, rng: torch.Generator, *, strangers: bool) -> Any:
    """Classes. About a third of the rows are ignored, the first never, and of two or more at least one. What is ignored
    may be a class, but not the first. Of the rest some are negative, where the op takes any label but one to count."""
    labels = torch.randint(0, max(1, spec.below), spec.shape, generator=rng)
    labels[labels == ignored] = 0
    if strangers:
        labels[torch.rand(spec.shape, generator=rng) < 0.3] = STRANGER
    first = labels[:1].clone()
    labels[torch.rand(spec.shape, generator=rng) < 0.34] = ignored
    if len(labels) > 1:
        labels[int(torch.randint(1, len(labels), (), generator=rng))] = ignored
    labels[:1] = first
    return labels


def _gradient(spec: TensorSpec, rng: torch.Generator) -> Any:
    """Never all ones: a kernel that forgets to multiply must be caught. A number keeps away from 1 as far as half
    precision could round it there: from 0.25 to 0.75, or from 1.25 to 1.75."""
    if spec.ones:
        return torch.ones(spec.shape, dtype=torch.float64)
    if spec.shape == ():
        drawn = torch.rand((), generator=rng, dtype=torch.float64)
        return drawn + (0.25 if drawn < 0.5 else 0.75)
    return _normal(spec.shape, rng)


def fill(recipe: Recipe, probe: Probe) -> dict[str, torch.Tensor]:
    """Every tensor of the call by name, already in the type the kernel gets."""
    rng = torch.Generator().manual_seed(probe.seed)
    operands = {operand.name: operand for operand in recipe.operands}
    filled: dict[str, torch.Tensor] = {}
    following: dict[TensorSpec, Following] = {}
    for argument in probe.call.arguments:
        spec = argument.tensor
        if spec is None:
            continue
        operand = operands[spec.name]
        ignored = probe.constants.get("ignore_index")
        if operand.follows is not None:
            following[spec] = operand.follows
        elif operand.fill == "routing":
            filled[spec.name] = _routing(spec, rng).to(DTYPES[spec.dtype])
        elif operand.fill == "labels" and ignored is None:
            filled[spec.name] = _classes(spec, rng)
        elif operand.fill == "labels":
            assert isinstance(ignored, int)
            filled[spec.name] = _labels(spec, ignored, rng, strangers=operand.strangers)
        else:
            filled[spec.name] = _values(operand.filled(probe.constants), spec, probe.kind, rng).to(DTYPES[spec.dtype])
    drawn = {name: value.double() if value.is_floating_point() else value for name, value in filled.items()}
    for spec, follow in following.items():
        filled[spec.name] = follow(drawn, probe.constants, rng).to(DTYPES[spec.dtype])
    for spec in probe.call.grads:
        gradient = _gradient(spec, rng)
        if probe.kind == "loss_scaled":
            gradient = _loss_scaled(gradient, filled)
        filled[spec.name] = gradient.to(DTYPES[spec.dtype])
    return filled


def _loss_scaled(gradient: Any, filled: dict[str, torch.Tensor]) -> Any:
    """As under a loss that was scaled up for half precision, and going with an input, as it often does in training."""
    alike = next((t for t in filled.values() if t.is_floating_point() and t.shape == gradient.shape), None)
    return LOSS_SCALE * (gradient if alike is None else gradient + alike.double())


def raw_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def to_blob(call: Call, filled: dict[str, torch.Tensor]) -> bytes:
    starts, size = offsets(call.tensors)
    blob = bytearray(size)
    for spec, start in zip(call.tensors, starts, strict=True):
        blob[start : start + spec.nbytes] = raw_bytes(filled[spec.name])
    return bytes(blob)
