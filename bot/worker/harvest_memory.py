"""How much memory a function would take at its peak, told from tensors that have none."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROUND = 512
"""The allocator of a GPU hands out multiples of this."""


class Peak(TorchDispatchMode):  # type: ignore[misc]
    """Adds up what is made while it is active, and takes off what goes."""

    def __init__(self) -> None:
        super().__init__()
        self._now, self.most = 0, 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf.untyped_storage())
        return result

    def _add(self, storage: Any) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        nbytes = -(-storage.nbytes() // ROUND) * ROUND
        self._now += nbytes
        self.most = max(self.most, self._now)
        weakref.finalize(storage, self._drop, nbytes)

    def _drop(self, nbytes: int) -> None:
        self._now -= nbytes


def peak_of(probe: Callable[[], torch.Tensor]) -> int:
    """Bytes of one forward and backward pass of what the probe returns."""
    with Peak() as peak:
        result = probe()
        result.backward(torch.empty_like(result))
    return int(max(1, peak.most))
