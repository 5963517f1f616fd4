"""What else computes the same: the kernel's mathematics as plain PyTorch does it, as it is or under torch.compile.

An arm as a tape is one, on the same lanes. It is only ever played beside v0, in a process that no variant's kernels
enter: what it computes is the right result, and lies in that process's part of the GPU's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from bot.judge.arms import Lane
from bot.judge.idioms import IDIOMS
from bot.judge.inputs import DTYPES
from bot.judge.layout import Layout
from bot.judge.recipe import Constants
from bot.judge.recipes import RECIPES
from bot.worker.contract import Call, ContractError, TensorSpec
from bot.worker.contract.tape import Left

MODES = {"compiled": None, "max-autotune": "max-autotune-no-cudagraphs"}
"""How torch compiles a rival; one that is not here it does not. The lanes are in graphs of our own."""
NAMES = ("eager", *MODES)
AHEAD = 4
"""Processes that compile one rival ahead of time. Whoever plays has none beside it: they would outlive a case."""


def _swapped(spec: TensorSpec) -> bool:
    """Heads as they leave a projection: the sequence before the heads in memory."""
    return spec.layout == "swapped" and len(spec.shape) == 4


def _laid(flat: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """These elements as the pass is handed them."""
    shape = list(spec.shape)
    if _swapped(spec):
        shape[1], shape[2] = shape[2], shape[1]
    found = flat.view(shape)
    return found.transpose(1, 2) if _swapped(spec) else found


def _tensor(lane: Lane, spec: TensorSpec, offset: int) -> torch.Tensor:
    dtype = DTYPES[spec.dtype]
    start = (lane.base + offset) // torch.empty(0, dtype=dtype).element_size()
    count = int(torch.Size(spec.shape).numel())
    return _laid(lane.memory.view(dtype)[start : start + count], spec)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Whoever writes this by hand computes in float32 what comes in half of it, as models' own layers do."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _mathematics(kernel: str, call: Call, constants: Constants) -> Callable[..., tuple[Any, ...]]:
    """(tensor arguments in their order) -> outputs, each in the type that its gradient has. A loss stays as wide as it
    was added up: where v0 hands it over in float32 it would be off by a rounding that nobody but us makes."""
    names = [a.name for a in call.arguments if a.tensor is not None]
    types = [DTYPES[spec.dtype] for spec in call.grads]
    idiom = IDIOMS.get(kernel)
    said = idiom or RECIPES[kernel].reference

    def outputs(*tensors: torch.Tensor) -> tuple[Any, ...]:
        given = dict(zip(names, tensors, strict=True))
        found = said(given if idiom else {name: _wide(t) for name, t in given.items()}, constants)
        return tuple(out if out is None or out.dim() == 0 else out.to(types[place]) for place, out in enumerate(found))

    return outputs


def _compiled(run: Callable[..., tuple[Any, ...]], mode: str | None, hands: int) -> Callable[..., tuple[Any, ...]]:
    import torch._inductor.config as inductor

    inductor.compile_threads = hands  # its variable is read when this is imported, and not again
    # Who compiles ahead of time does so beside others: what is fastest is read again by whoever plays, alone.
    inductor.autotune_local_cache = False
    compiled: Callable[..., tuple[Any, ...]] = torch.compile(run, dynamic=False, mode=mode)
    return compiled


def _rival(name: str, kernel: str, call: Call, *, hands: int = 1) -> Callable[..., tuple[Any, ...]]:
    if name not in NAMES:
        raise ContractError(f"no rival is called {name[:40]!r}")
    if kernel not in RECIPES:
        raise ContractError(f"nobody knows what {kernel[:40]!r} computes")
    constants: Constants = {**RECIPES[kernel].stock, **{a.name: a.value for a in call.arguments if a.tensor is None}}
    run = _mathematics(kernel, call, constants)
    return _compiled(run, MODES[name], hands) if name in MODES else run


def _pulled(
    call: Call,
    outputs: tuple[Any, ...],
    given: Callable[[TensorSpec], torch.Tensor],
    leaves: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """The gradients of these leaves, with the incoming ones `given`."""
    roots = [(out, call.grads[n]) for n, out in enumerate(outputs) if out is not None and out.requires_grad]
    found = torch.autograd.grad(
        [out for out, _ in roots], list(leaves.values()), [given(spec) for _, spec in roots], allow_unused=True
    )
    return {name: g for name, g in zip(leaves, found, strict=True) if g is not None}


def compile_ahead(name: str, kernel: str, call: Call, device: str = "cuda") -> None:
    """One pass over zeros: torch keeps what it compiled where whoever plays the same pass finds it."""

    def zeros(spec: TensorSpec) -> torch.Tensor:
        return _laid(torch.zeros(torch.Size(spec.shape).numel(), dtype=DTYPES[spec.dtype], device=device), spec)

    run = _rival(name, kernel, call, hands=AHEAD)
    given = {a.name: (zeros(a.tensor), a.tensor.grad) for a in call.arguments if a.tensor is not None}
    leaves = {which: tensor.requires_grad_() for which, (tensor, is_leaf) in given.items() if is_leaf}
    outputs = run(*(tensor for tensor, _ in given.values()))
    if call.direction != "forward":
        _pulled(call, outputs, zeros, leaves)


class RivalArm:
    """One of them on the lanes."""

    scratch_bytes = 0
    """It takes its memory from torch."""

    def __init__(self, name: str, kernel: str, call: Call, layout: Layout, left: tuple[Left, ...]) -> None:
        self._run = _rival(name, kernel, call)
        self._call, self.left = call, left
        self._offsets = {entry: offset for entry, offset, _ in layout.inputs}
        self._outputs: dict[int, tuple[Any, ...]] = {}
        self._leaves: dict[int, dict[str, torch.Tensor]] = {}
        self._results: dict[int, dict[tuple[str, str], torch.Tensor]] = {}
        """By the place of a lane; kept, for they lie in a graph's own memory."""

    @property
    def has_before(self) -> bool:
        return self._call.direction == "backward"

    @property
    def only_asks(self) -> bool:
        return False

    def _forward(self, lane: Lane) -> None:
        given = {}
        for argument in self._call.arguments:
            if argument.tensor is not None:
                tensor = _tensor(lane, argument.tensor, self._offsets[argument.name]).detach()
                given[argument.name] = tensor.requires_grad_() if argument.tensor.grad else tensor
        self._leaves[lane.base] = {name: tensor for name, tensor in given.items() if tensor.requires_grad}
        self._outputs[lane.base] = self._run(*given.values())

    def _backward(self, lane: Lane) -> dict[tuple[str, str], torch.Tensor]:
        def given(spec: TensorSpec) -> torch.Tensor:
            return _tensor(lane, spec, self._offsets[spec.name])

        found = _pulled(self._call, self._outputs[lane.base], given, self._leaves[lane.base])
        return {("gradient", name): gradient for name, gradient in found.items()}

    def prepare(self, lane: Lane, stream: int) -> None:
        if self.has_before:
            self._forward(lane)

    def body(self, lane: Lane, stream: int) -> None:
        results: dict[tuple[str, str], torch.Tensor] = {}
        if not self.has_before:
            self._forward(lane)
            outputs = enumerate(self._outputs[lane.base])
            results = {("output", str(place)): out.detach() for place, out in outputs if out is not None}
        if self._call.direction != "forward":
            results |= self._backward(lane)
        self._results[lane.base] = results

    def hand_over(self, lane: Lane, into: list[torch.Tensor]) -> None:
        for left, target in zip(self.left, into, strict=True):
            target.copy_(self._results[lane.base][left.role, left.name])
