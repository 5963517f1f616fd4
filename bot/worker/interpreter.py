"""Mends Triton's interpreter where real kernels trip over it, and lets it keep books.

Install in a process of its own that was started with TRITON_INTERPRET=1, before the kernel's module is imported: the
variable is read when @triton.jit decorates, and a library binds libdevice functions by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from bot.worker import libdevice, loops, quick_folds, quick_types, reach
from bot.worker.footprint import Launch, OutOfBounds, open_books


class Books:
    """What the interpreter saw since the last `clear`."""

    def __init__(self) -> None:
        self.backwards = False
        """Run the programs of a grid from last to first: a kernel must not care."""
        self.around: Callable[[bool], None] = lambda entering: None
        """Told when a launch begins and ends, so that other observers can look away."""
        self.clear()

    def clear(self) -> None:
        self.launches: list[Launch] = []
        self.open: Launch | None = None
        self.out_of_bounds = ""

    def counts_all(self, number: int) -> bool:
        """Whether it is the number of elements of the largest tensor: where that is 2^31, Triton gives it 64 bits."""
        return self.open is not None and number == self.open.most_elements


def _scalars(books: Books, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Float and bool arguments become tensors as on a GPU; stock ones stay Python numbers without `.to`."""

    def convert(argument: Any) -> Any:
        if isinstance(argument, (bool, np.bool_)):
            return tl.tensor(interpreter.TensorHandle(np.array([argument], dtype=np.bool_), tl.int1), tl.int1)
        if isinstance(argument, float):
            return tl.tensor(interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32), tl.float32)
        if isinstance(argument, int) and books.counts_all(argument):
            return tl.tensor(interpreter.TensorHandle(np.array([argument], dtype=np.int64), tl.int64), tl.int64)
        return original(argument)

    return convert


def _indexable(original: Callable[..., None]) -> Callable[..., None]:
    """`range` over a tensor: numpy 2.4 no longer turns a one-element array into an int (triton-lang/triton#9171)."""

    def patch(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch


def _patched_once(books: Books, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A kernel's device functions see the same language modules as the kernel: patching them again takes 2 ms a
    call."""

    def patch(function: Any) -> Any:
        key = frozenset(id(v) for v in function.__globals__.values() if v is tl or v is tl.core)
        if books.open is None or key not in books.open.patched:
            scope = original(function)
            if books.open is not None:
                books.open.patched[key] = scope
            return scope
        return books.open.patched[key]

    return patch


def _used(pointers: Any, mask: Any) -> Any:
    """Which of the addresses are really used."""
    return np.broadcast_to(mask.data, pointers.data.shape)


def _item_size(pointers: Any) -> int:
    return int(max(1, pointers.get_element_ty().primitive_bitwidth // 8))


def _watch_memory(books: Books) -> None:
    builder = interpreter.InterpreterBuilder
    load, store, cas, rmw = (
        builder.create_masked_load,
        builder.create_masked_store,
        builder.create_atomic_cas,
        builder.create_atomic_rmw,
    )

    def reaches(launch: Launch, ptrs: Any, where: Any) -> None:
        address, elements = reach.farthest(ptrs, where)
        if elements:
            launch.reaches(address, elements * _item_size(ptrs))

    def masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        if books.open is not None:
            where = _used(ptrs, mask)
            books.open.reads(ptrs.data[where], _item_size(ptrs))
            reaches(books.open, ptrs, where)
        return load(self, ptrs, mask, *rest, **named)

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        if books.open is not None:
            where = _used(ptrs, mask)
            values = np.broadcast_to(value.data, ptrs.data.shape)[where]
            books.open.writes(ptrs.data[where], values, _item_size(ptrs))
            reaches(books.open, ptrs, where)
        return store(self, ptrs, value, mask, *rest, **named)

    def atomic(original: Callable[..., Any], pointer_at: int, mask_at: int | None) -> Callable[..., Any]:
        def run(self: Any, *arguments: Any) -> Any:
            if books.open is not None:
                books.open.atomics = True
                pointers = arguments[pointer_at]
                everywhere = np.ones(pointers.data.shape, dtype=bool)
                where = everywhere if mask_at is None else _used(pointers, arguments[mask_at])
                used = pointers.data[where]
                books.open.reads(used, _item_size(pointers))
                books.open.writes(used, used, _item_size(pointers))
                reaches(books.open, pointers, where)
            return original(self, *arguments)

        return run

    builder.create_masked_load = masked_load
    builder.create_masked_store = masked_store
    builder.create_atomic_cas = atomic(cas, 0, None)
    builder.create_atomic_rmw = atomic(rmw, 1, 3)


def _watch_programs(books: Books) -> None:
    original = interpreter.InterpreterBuilder.set_grid_idx

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        nx, ny, nz = self.grid_dim
        if books.backwards:
            x, y, z = nx - 1 - x, ny - 1 - y, nz - 1 - z
        if books.open is not None:
            books.open.program = 1 + (x * ny + y) * nz + z
        original(self, x, y, z)

    interpreter.InterpreterBuilder.set_grid_idx = set_grid_idx


def _stray_address(error: BaseException | None) -> str:
    """The interpreter wraps an exception once for each device function it passed through."""
    while error is not None and not isinstance(error, OutOfBounds):
        error = error.__cause__
    return "" if error is None else str(error)


def _watch_launches(books: Books) -> None:
    original = interpreter.InterpretedFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        names = inspect.getfullargspec(self.fn).args
        arguments = {**dict(zip(names, args, strict=False)), **{k: v for k, v in kwargs.items() if k in names}}
        books.around(True)
        books.open = open_books(self.fn.__name__, arguments)
        books.launches.append(books.open)
        try:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        except interpreter.InterpreterError as error:
            books.out_of_bounds = _stray_address(error)
            raise
        finally:
            books.open = None
            books.around(False)

    interpreter.InterpretedFunction.run = run


def install() -> Books:
    books = Books()
    libdevice.install()
    quick_types.install()
    quick_folds.install()
    reach.install()
    loops.install(books.counts_all)
    interpreter._implicit_cvt = _scalars(books, interpreter._implicit_cvt)
    interpreter._patch_lang_tensor = _indexable(interpreter._patch_lang_tensor)
    interpreter._patch_lang = _patched_once(books, interpreter._patch_lang)
    _watch_memory(books)
    _watch_programs(books)
    _watch_launches(books)
    return books
