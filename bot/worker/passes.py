"""Builds the arguments of a call and runs one pass of the op."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from bot.worker.contract import Call, TensorSpec, offsets
from bot.worker.device import PretendCuda
from bot.worker.observer import Observer

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
GAP = 3
"""Elements between two rows of a padded tensor."""


@dataclass
class Materials:
    """The arguments of one pass, with the tensors among them by name."""

    arguments: list[Any]
    tensors: dict[str, torch.Tensor]
    grads: list[torch.Tensor]
    keep_graph: bool = False
    """Whether there may be a second backward pass."""


@dataclass
class Outcome:
    outputs: list[Any]
    gradients: list[tuple[str, Any]]

    @property
    def results(self) -> list[Any]:
        return [*self.outputs, *(gradient for _, gradient in self.gradients)]


def _from_blob(spec: TensorSpec, blob: bytearray, start: int) -> torch.Tensor:
    if spec.nbytes == 0:
        return torch.empty(spec.shape, dtype=DTYPES[spec.dtype])
    raw = torch.frombuffer(blob, dtype=DTYPES[spec.dtype], count=spec.nbytes // _item(spec), offset=start)
    return _laid_out(raw.reshape(spec.shape), spec.layout)


def _bare(spec: TensorSpec, home: str) -> torch.Tensor:
    made = torch.empty(spec.shape, dtype=DTYPES[spec.dtype], device=home)
    return made if spec.layout == "dense" else _laid_out(made, spec.layout)


def _laid_out(dense: torch.Tensor, layout: str) -> torch.Tensor:
    """A copy in memory of its own. What lies in a gap is nobody's to read."""
    if layout == "swapped" and dense.dim() == 4:
        return dense.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
    if layout == "transposed":
        return dense.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)
    if layout == "padded":
        wide = torch.full((*dense.shape[:-1], dense.shape[-1] + GAP), float("nan"), dtype=dense.dtype)
        wide[..., : dense.shape[-1]] = dense
        return wide[..., : dense.shape[-1]]
    if layout == "sliced" and dense.dim() > 2:
        longer = torch.full((*dense.shape[:-2], dense.shape[-2] + 1, dense.shape[-1]), float("nan"), dtype=dense.dtype)
        longer[..., :-1, :] = dense
        return longer[..., :-1, :]
    return dense.clone()


def _item(spec: TensorSpec) -> int:
    return int(torch.empty(0, dtype=DTYPES[spec.dtype]).element_size())


def materials(call: Call, home: str, blob: bytes | None) -> Materials:
    """Fresh tensors: from the blob where there are values, bare shapes otherwise."""
    specs = call.tensors
    starts, _ = offsets(specs)
    made: dict[str, torch.Tensor] = {}
    content = bytearray(blob) if blob else None
    for spec, start in zip(specs, starts, strict=True):
        if content is None:
            made[spec.name] = _bare(spec, home)
        else:
            made[spec.name] = _from_blob(spec, content, start)
        if spec.grad:
            made[spec.name].requires_grad_(True)
    arguments = [made[a.name] if a.tensor is not None else a.value for a in call.arguments]
    grads = [made[spec.name] for spec in call.grads]
    return Materials(arguments, {s.name: made[s.name] for s in specs}, grads)


def forward(op: Any, stuff: Materials) -> list[Any]:
    result = op.apply(*stuff.arguments)
    return list(result) if isinstance(result, tuple) else [result]


def backward(outputs: list[Any], stuff: Materials) -> list[tuple[str, Any]]:
    """torch.autograd.grad, without the part that is overridable: that would switch PretendCuda off for the backward."""
    leaves = [(name, tensor) for name, tensor in stuff.tensors.items() if tensor.requires_grad]
    roots = tuple(o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad)
    grads = tuple(stuff.grads[: len(roots)])
    for root, grad in zip(roots, grads, strict=True):
        if root.shape != grad.shape:
            raise ValueError(f"an output has shape {list(root.shape)}, expected {list(grad.shape)}")
    engine = torch.autograd.Variable._execution_engine
    found = engine.run_backward(
        roots, grads, stuff.keep_graph, False, tuple(tensor for _, tensor in leaves), True, accumulate_grad=False
    )
    return [(name, gradient) for (name, _), gradient in zip(leaves, found, strict=True)]


@contextlib.contextmanager
def _scored(active: bool, observer: Observer, begin: Any) -> Iterator[None]:
    if not active:
        yield
        return
    begin()
    with observer.counting():
        yield


def run_pass(
    op: Any, call: Call, stuff: Materials, home: str, observer: Observer, begin: Any, *, holds: bool = False
) -> Outcome:
    """Forward, backward alone, or both; `begin` is called where the scored part starts."""
    waiting = [id(grad) for grad in stuff.grads] if call.direction == "forward" else []
    observer.inputs([tensor for tensor in stuff.tensors.values() if id(tensor) not in waiting])
    alike = any(spec.ones for spec in call.grads)
    with PretendCuda(home, holds=holds, alike=alike), observer:
        with _scored(call.direction != "backward", observer, begin):
            outputs = forward(op, stuff)
            gradients = backward(outputs, stuff) if call.direction == "full" else []
        if call.direction == "backward":
            with _scored(True, observer, begin):
                gradients = backward(outputs, stuff)
    return Outcome(outputs, gradients)
