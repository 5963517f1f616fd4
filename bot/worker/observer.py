"""Watches torch's own operations during a pass: what they allocate, what they move, and what they leave unwritten."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from bot.worker.footprint import covered_bytes

UNWRITTEN = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
WRITE_ONLY = {"aten::fill_", "aten::zero_", "aten::copy_"}
"""In-place operations that do not read what they overwrite."""
SHAPE_ONLY = {"aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::new_zeros", "aten::new_full"}
"""Operations that look at the shape of their argument, not at its values."""
FREE = {"aten::set_", "aten::resize_", "aten::_local_scalar_dense", "aten::equal"}

POISON = ((float("nan"), 0x7F), (-12345.0, 0x2D))
"""Two patterns for memory nobody wrote, for floating and for integer elements; what is read of them differs."""


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _moved(name: str, arguments: list[torch.Tensor], results: list[torch.Tensor]) -> int:
    written = {tensor.untyped_storage()._cdata: covered_bytes(tensor) for tensor in results}
    read = {}
    if name not in SHAPE_ONLY:
        sources = arguments[1:] if name in WRITE_ONLY else arguments
        read = {tensor.untyped_storage()._cdata: covered_bytes(tensor) for tensor in sources}
    return sum(written.values()) + sum(read.values())


def spoil(tensor: torch.Tensor, poison: tuple[float, int]) -> None:
    """Fill memory that nobody wrote, so that whoever reads it is found out."""
    floating, whole = poison
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(floating)
    else:
        tensor.fill_(whole % 2 if tensor.dtype is torch.bool else whole)


class Observer(TorchDispatchMode):  # type: ignore[misc]
    """Active around a pass. `look_away` is for launches, which have books of their own."""

    def __init__(self, poison: tuple[float, int] | None = None) -> None:
        super().__init__()
        self.poison = poison
        self.moved_bytes = 0
        self.peak_bytes = 0
        """Inputs and all that was allocated, at the worst moment: as a GPU counts what is asked for."""
        self._resident = 0
        self._away = False
        self._counting = False
        self._known: dict[int, StorageWeakRef] = {}
        """By address. As long as the reference is kept, no other storage gets the address."""
        self._live: list[tuple[StorageWeakRef, int]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """True, the default, imports torch._dynamo at the first operation: 2.4 s for nothing."""
        return False

    def look_away(self, away: bool) -> None:
        self._away = away

    def inputs(self, tensors: list[torch.Tensor]) -> None:
        """Memory that was there before the pass began."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._known:
                self._resident += storage.nbytes()
            self._known[storage._cdata] = StorageWeakRef(storage)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """The part of the pass that is scored; what the part before it left behind stays where it is."""
        self._resident += sum(size for reference, size in self._live if not reference.expired())
        self._counting, self._live, self.peak_bytes = True, [], self._resident
        try:
            yield
        finally:
            self._counting = False

    def _allocated(self, results: list[torch.Tensor]) -> None:
        for tensor in results:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._known:
                self._known[storage._cdata] = StorageWeakRef(storage)
                self._live.append((self._known[storage._cdata], storage.nbytes()))
        kept = []
        for reference, size in self._live:
            if reference.expired():
                self._known.pop(reference.cdata, None)
            else:
                kept.append((reference, size))
        self._live = kept
        if self._counting:
            self.peak_bytes = max(self.peak_bytes, self._resident + sum(size for _, size in kept))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name
        if self._away or name in FREE or func.is_view:
            return result
        results = _tensors(result)
        self._allocated(results)
        if name in UNWRITTEN:
            self._spoil(results)
        elif self._counting:
            self.moved_bytes += _moved(name, _tensors(list(args) + list(kwargs.values())), results)
        return result

    def _spoil(self, results: list[torch.Tensor]) -> None:
        if self.poison is not None:
            for tensor in results:
                spoil(tensor, self.poison)


class Recycling(Observer):
    """As an allocator that hands out, in the same order, what an earlier pass gave back, with all that lies in it."""

    def __init__(self, poison: tuple[float, int], given_back: list[torch.Tensor]) -> None:
        super().__init__(poison)
        self._given_back = given_back
        self.handed_out: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if self._away or func._schema.name not in UNWRITTEN:
            return result
        place = len(self.handed_out)
        if place < len(self._given_back) and _is_like(self._given_back[place], result):
            result = self._given_back[place]
        self.handed_out.append(result)
        return result


def _is_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
