"""Makes the arguments of a call on the GPU: from the judge's bytes for a check, from nothing for a recording."""

from __future__ import annotations

from typing import Any

import torch

from bot.worker.contract import Call, TensorSpec, offsets
from bot.worker.contract.routing import routed
from bot.worker.fences import Fences
from bot.worker.passes import DTYPES, GAP, Materials

DEVICE = "cuda"


def _bound(call: Call, made: dict[str, torch.Tensor]) -> Materials:
    for spec in call.tensors:
        if spec.grad:
            made[spec.name].requires_grad_(True)
    arguments = [made[a.name] if a.tensor is not None else a.value for a in call.arguments]
    return Materials(arguments, made, [made[spec.name] for spec in call.grads])


def _other_way_round(spec: TensorSpec) -> tuple[int, int]:
    """The two dimensions that changed places in memory; the same one twice where none did."""
    if spec.layout == "transposed":
        return -2, -1
    return (1, 2) if spec.layout == "swapped" and len(spec.shape) == 4 else (-1, -1)


def _strides(spec: TensorSpec) -> tuple[int, ...]:
    """Of the tensor as callers hand it over: dense, with a gap after each row or batch, or transposed."""
    if not spec.shape:  # the gradient of a loss
        return ()
    shape = list(spec.shape)
    if spec.layout == "sliced" and len(shape) > 2:
        shape[-2] += 1
    first, second = _other_way_round(spec)
    shape[first], shape[second] = shape[second], shape[first]
    if spec.layout == "padded":
        shape[-1] += GAP
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(1, size)
    steps.reverse()
    steps[first], steps[second] = steps[second], steps[first]
    return tuple(steps)


def from_blob(call: Call, blob: bytes, fences: Fences) -> Materials:
    """The judge's values, each tensor between fences."""
    starts, _ = offsets(call.tensors)
    content = bytearray(blob)
    made = {}
    for spec, start in zip(call.tensors, starts, strict=True):
        dtype = DTYPES[spec.dtype]
        tensor = fences.around(spec.shape, _strides(spec), dtype, DEVICE, f"input {spec.name}")
        if spec.nbytes:
            raw = torch.frombuffer(content, dtype=torch.uint8, count=spec.nbytes, offset=start)
            tensor.copy_(raw.view(dtype).reshape(spec.shape))
        made[spec.name] = tensor
    return _bound(call, made)


def _number(spec: TensorSpec) -> torch.Tensor:
    """Of a loss, between 0.25 and 0.75. At 1 the host may leave out what it launches at all others, and in bfloat16 a
    normal number is 1 so often that recordings of honest variants were not believed."""
    return (0.25 + 0.5 * torch.rand((), device=DEVICE, dtype=torch.float32)).to(DTYPES[spec.dtype])


def _drawn(spec: TensorSpec, kind: str) -> torch.Tensor:
    if kind == "labels":
        return torch.randint(0, max(1, spec.below), spec.shape, device=DEVICE, dtype=torch.int64)
    if kind == "routing":
        chosen = torch.tensor(routed(*spec.shape, spec.below), device=DEVICE, dtype=DTYPES[spec.dtype])
        return chosen[torch.randperm(spec.shape[0], device=DEVICE)]
    if spec.ones:
        return torch.ones(spec.shape, device=DEVICE, dtype=DTYPES[spec.dtype])
    if not spec.shape:
        return _number(spec)
    values = torch.randn(spec.shape, device=DEVICE, dtype=torch.float32)
    if kind == "weight":
        values = 1 + 0.3 * values
    elif kind == "projection":
        values = values / max(1, spec.shape[-1]) ** 0.5
    elif kind == "turned_projection":
        values = values / max(1, spec.shape[-2]) ** 0.5
    elif kind == "probability":
        values = values.softmax(dim=-1)
    elif kind == "log_probability":
        values = values.log_softmax(dim=-1)
    elif kind == "halves":
        values = values[..., : spec.shape[-1] // 2].tanh().repeat(*([1] * (len(spec.shape) - 1)), 2)
    made = torch.empty_strided(spec.shape, _strides(spec), device=DEVICE, dtype=DTYPES[spec.dtype])
    return made.copy_(values)


def drawn(call: Call, fills: dict[str, str]) -> dict[str, torch.Tensor]:
    """Plausible contents by name. What is recorded does not depend on them, or it is not replayed."""
    return {spec.name: _drawn(spec, fills.get(spec.name, "signal")) for spec in call.tensors}


def laid(call: Call, contents: dict[str, torch.Tensor]) -> Materials:
    return _bound(call, {name: tensor.clone() for name, tensor in contents.items()})


def refill(stuff: Materials, contents: dict[str, torch.Tensor]) -> None:
    """Other contents at the same addresses."""
    with torch.no_grad():
        for name, tensor in stuff.tensors.items():
            tensor.detach().copy_(contents[name])


def detached(stuff: Materials) -> dict[str, Any]:
    return {name: tensor.detach() for name, tensor in stuff.tensors.items()}
