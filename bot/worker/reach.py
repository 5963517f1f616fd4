"""How far what was counted in 32 bits reaches into memory: from 2^31 elements on it wraps.

No check is as large as that, so the types tell it. `tl.program_id(0)` has 32 bits, and its product with the length of a
row has no more unless it was widened before. Followed is what the number of a program went into, or one that was read
from memory: how large it was where it was made in 32 bits, a place for a place, through widening, division and whatever
else hides that. What adds up in a pointer has 64 bits. Rows may be counted in 32, and so may the places of a block:
neither are as many as there are elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from bot.worker.footprint import Launch

NOTE = "reach"
"""Under this name a handle of the interpreter holds it; nothing where no such number went into it."""
NOWHERE: Any = np.zeros(1, dtype=np.int64)
"""Of the number itself, and of what was made of it in 64 bits alone. No grid is as long as that."""

ROWS, COLUMNS = 4, 8
"""Less says nothing: half of two rows is one of them, and the number of a row is as large as that of an element."""

MAKING = ("add", "sub", "mul", "shl", "or", "xor")
"""What may wrap where it has 32 bits."""
KEEPING = (
    "sdiv",
    "udiv",
    "srem",
    "urem",
    "and",
    "ashr",
    "lshr",
    "minsi",
    "minui",
    "maxsi",
    "maxui",
    "umulhi",
    "addptr",
)
"""What is no larger than what it was made of, or has 64 bits in any case."""


def _joined(one: Any, other: Any) -> Any:
    """The larger of both, a place for a place."""
    if other is None or other is one:
        return one
    if one is None or one is NOWHERE:
        return other
    return one if other is NOWHERE else np.maximum(np.abs(one), np.abs(other))


def _is_narrow(handle: Any) -> bool:
    return bool(handle.data.itemsize <= 4)


def _brought(handle: Any) -> Any:
    """What it brings along beside its own size."""
    note = handle.attr.get(NOTE)
    return NOWHERE if note is handle.data else note


def _noted(handle: Any, note: Any) -> Any:
    if note is not None:
        handle.attr[NOTE] = note
    return handle


def _made(handle: Any, brought: Any) -> Any:
    """It was made in as many bits as it has. Its own size is looked at when an address is used, and not before."""
    if brought is None or not _is_narrow(handle):
        return _noted(handle, brought)
    return _noted(handle, handle.data if brought is NOWHERE else _joined(brought, handle.data))


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, lhs: Any, rhs: Any) -> Any:
        made, one, other = original(self, lhs, rhs), lhs.attr.get(NOTE), rhs.attr.get(NOTE)
        if one is None and other is None:
            return made
        return _made(made, _joined(_brought(lhs), _brought(rhs)) if _is_narrow(made) else _joined(one, other))

    return run


def _keeping(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.attr.get(NOTE), rhs.attr.get(NOTE)  # before: `ashr` puts other data into its operands
        return _noted(original(self, lhs, rhs), _joined(one, other))

    return run


def _cast(original: Callable[..., Any]) -> Callable[..., Any]:
    """To 32 bits it is made anew; to 64 it is as large as it was."""

    def run(self: Any, source: Any, *rest: Any) -> Any:
        made = original(self, source, *rest)
        return _made(made, _brought(source)) if _is_narrow(made) else _noted(made, source.attr.get(NOTE))

    return run


def _placed(original: Callable[..., Any], source_at: int) -> Callable[..., Any]:
    """The same integers in other places."""

    def run(self: Any, *arguments: Any) -> Any:
        made, source = original(self, *arguments), arguments[source_at]
        note = source.attr.get(NOTE)
        if note is None or note is NOWHERE:
            return _noted(made, note)
        if note is source.data:
            return _noted(made, made.data)
        sizes = np.broadcast_to(note, source.data.shape).astype(np.int64)
        others = list(arguments)
        others[source_at] = interpreter.TensorHandle(sizes, tl.int64)
        return _noted(made, original(self, *others).data)

    return run


def _chosen(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, condition: Any, lhs: Any, rhs: Any) -> Any:
        made, one, other = original(self, condition, lhs, rhs), lhs.attr.get(NOTE), rhs.attr.get(NOTE)
        if one is None and other is None:
            return made
        sizes = (NOWHERE if note is None else np.abs(note) for note in (one, other))
        return _noted(made, np.where(condition.data, *sizes))

    return run


def _numbered(original: Callable[..., Any]) -> Callable[..., Any]:
    """A program's number, or what memory holds: nobody knows how large it becomes."""

    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        made = original(self, *arguments, **named)
        return _noted(made, NOWHERE) if made.dtype.is_int() else made

    return run


def _of_all(handles: Iterable[Any]) -> Any:
    note = None
    for handle in handles:
        note = _joined(note, handle.attr.get(NOTE))
    return note


def _block(original: Callable[..., Any]) -> Callable[..., Any]:
    """A block pointer is handed its place in 32 bits, one number for each dimension, and multiplies it in 64."""

    def run(self: Any, base: Any, shape: Any, strides: Any, offsets: Any, *rest: Any) -> Any:
        made = original(self, base, shape, strides, offsets, *rest)
        for mine, given in zip(made.offsets, offsets, strict=True):
            _noted(mine, given.attr.get(NOTE))
        return made

    return run


def _advanced(original: Callable[..., Any]) -> Callable[..., Any]:
    """It takes its steps in 64 bits."""

    def run(self: Any, pointer: Any, offsets: Any) -> Any:
        made = original(self, pointer, offsets)
        for mine, before, step in zip(made.offsets, pointer.offsets, offsets, strict=True):
            _noted(mine, _of_all([before, step]))
        return made

    return run


def _materialized(original: Callable[..., Any], places: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(self: Any, given: Any) -> Any:
        pointers, masks = original(self, given)
        return _noted(pointers, _of_all([self.base, *places(self, given)])), masks

    return run


def farthest(pointers: Any, used: Any) -> tuple[int, int]:
    """The address of those that are used that was reached by the largest number of 32 bits, and that number."""
    note = pointers.attr.get(NOTE)
    if note is None or note is NOWHERE or not used.any():
        return 0, 0
    sizes = np.abs(np.broadcast_to(note, pointers.data.shape)[used])
    place = int(sizes.argmax())
    return int(pointers.data[used][place]), int(sizes[place])


def _is_telling(tensor: torch.Tensor) -> bool:
    columns = tensor.shape[-1] if tensor.dim() > 1 else 0
    return columns >= COLUMNS and tensor.numel() >= ROWS * columns


def wrapping(launches: Iterable[Launch], tensors: Iterable[tuple[str, Any]]) -> list[str]:
    """Into which of these tensors a number of 32 bits reaches as far as half of what there is."""
    reached: dict[int, int] = {}
    for launch in launches:
        for region in launch.regions:
            if region.far:
                key = region.storage.cdata
                reached[key] = max(reached.get(key, 0), region.far)
    found = []
    for name, tensor in tensors:
        if reached and isinstance(tensor, torch.Tensor) and _is_telling(tensor):
            far = reached.get(tensor.untyped_storage()._cdata, 0)
            if 2 * far >= tensor.numel() * tensor.element_size():
                found.append(
                    f"offsets into {name} are counted in 32 bits across its rows: from 2^31 elements on they wrap"
                )
    return found


def install() -> None:
    builder = interpreter.InterpreterBuilder
    hands = {
        **dict.fromkeys(MAKING, _making),
        **dict.fromkeys(KEEPING, _keeping),
        **dict.fromkeys(("int_cast", "bitcast", "int_to_ptr", "ptr_to_int"), _cast),
        **dict.fromkeys(("broadcast", "expand_dims", "reshape", "trans", "unsplat"), lambda one: _placed(one, 0)),
        "splat": lambda one: _placed(one, 1),
        "select": _chosen,
        **dict.fromkeys(("get_program_id", "masked_load", "atomic_rmw", "atomic_cas"), _numbered),
        "make_block_ptr": _block,
        "advance": _advanced,
    }
    for name, hand in hands.items():
        setattr(builder, f"create_{name}", hand(getattr(builder, f"create_{name}")))
    pointers = interpreter.BlockPointerHandle
    pointers.materialize_pointers = _materialized(pointers.materialize_pointers, lambda self, given: self.offsets)
    described = interpreter.TensorDescHandle
    described.materialize_pointers = _materialized(described.materialize_pointers, lambda self, given: given)
