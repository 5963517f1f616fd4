"""Tensors with a fence of known bytes before and behind them, so that a store that misses is seen."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bot.worker.observer import UNWRITTEN, spoil

FENCE = 512
"""Bytes on either side: a multiple of every alignment that a compiler relies on."""
MARK = 0xA7


class Fences:
    """All fenced memory of one run."""

    def __init__(self) -> None:
        self._held: list[tuple[str, torch.Tensor, int]] = []
        """(name, the memory with its fences, bytes of the tensor)"""

    def around(self, shape: Any, stride: Any, dtype: torch.dtype, device: Any, name: str) -> torch.Tensor:
        """An unwritten tensor of this form, fenced."""
        item = torch.empty(0, dtype=dtype).element_size()
        last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        nbytes = 0 if 0 in shape else (last + 1) * item
        room = -(-nbytes // FENCE) * FENCE
        whole = torch.full((room + 2 * FENCE,), MARK, dtype=torch.uint8, device=device)
        # What lies between the end of the tensor and the fence is fence as well.
        self._held.append((name, whole, nbytes))
        return whole.view(dtype).as_strided(tuple(shape), tuple(stride), FENCE // item)

    def broken(self) -> str:
        """Which fence has a hole, in words; empty when none has."""
        for name, whole, nbytes in self._held:
            for side, part in (("before", whole[:FENCE]), ("behind", whole[FENCE + nbytes :])):
                if bool((part != MARK).any()):
                    return f"wrote {side} {name}"
        return ""


class Fencing(TorchDispatchMode):  # type: ignore[misc]
    """Gives what is allocated during a pass a fence, and fills it with rubbish."""

    def __init__(self, fences: Fences, poison: tuple[float, int]) -> None:
        super().__init__()
        self._fences, self._poison = fences, poison

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        unwritten = func._schema.name in UNWRITTEN and isinstance(result, torch.Tensor)
        if not unwritten or not result.is_cuda or result.numel() == 0:
            return result
        fenced = self._fences.around(result.shape, result.stride(), result.dtype, result.device, "what it allocated")
        spoil(fenced, self._poison)
        return fenced
