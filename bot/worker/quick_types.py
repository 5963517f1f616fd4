"""Makes the types of Triton's interpreter cheap: the same answers, a third sooner.

Every operation on a block builds a type, a tuple of its sizes, a type of that tuple and a name for it, and asks for all
of it again the next time. Here what a shape determines is worked out once, and what nobody asks for not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import triton
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

TRIED = ("3.6.",)
"""The versions whose insides these are. Others are left as they are, and slower."""
MISSING = object()


def _sizes(shape: Any) -> tuple[Any, ...]:
    return tuple(size.value if isinstance(size, core.constexpr) else size for size in shape)


def _block_types() -> None:
    """By the shape alone: its checked tuple, how many elements it has. The name only when asked for."""
    original, known = core.block_type.__init__, {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        key = _sizes(shape)
        if key not in known or not all(type(size) is int for size in key):
            original(self, element_ty, shape)
            known[key] = (self.shape, self.numel)
        else:
            self.element_ty = element_ty
            self.shape, self.numel = known[key]

    def name(self: Any) -> str:
        return f"<{self.shape}, {self.element_ty}>"

    core.block_type.name = property(name, lambda self, value: None)
    core.block_type.__init__ = init


def _tuples() -> None:
    """The type of a tuple when it is asked for."""
    original = core.tuple.__init__

    def init(self: Any, args: Sequence[Any], type: Any = None) -> None:
        if type is not None:
            original(self, args, type)
        else:
            self.values = list(args)

    def get(self: Any) -> Any:
        found = self.__dict__.get("_type", MISSING)
        if found is MISSING:
            found = self.__dict__["_type"] = core._type_for_tuple_values(self.values)
        return found

    def put(self: Any, type: Any) -> None:
        self.__dict__["_type"] = type

    core.tuple.type = property(get, put)
    core.tuple.__init__ = init


def _tensors() -> None:
    """By the shape alone: the sizes and their product as constants."""
    known: dict[tuple[int, ...], Any] = {}

    def init(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        sizes = _sizes(type.shape) if type.is_block() else ()
        if sizes not in known:
            known[sizes] = core.constexpr(math.prod(sizes)), tuple(map(core.constexpr, sizes))
        self.numel, shape = known[sizes]
        self.shape = core.tuple(shape)

    core.tensor.__init__ = init


def _alike() -> None:
    """Two blocks of one shape need no broadcast. The shapes of such are one object, see above."""
    original = TritonSemantic.broadcast_impl_value

    def broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
        one, other = lhs.type, rhs.type
        if one.is_block() and other.is_block() and one.shape is other.shape:
            return lhs, rhs
        return original(self, lhs, rhs)

    TritonSemantic.broadcast_impl_value = broadcast


def _numpy_types() -> None:
    original, known = interpreter._get_np_dtype, {}

    def numpy_type(type: Any) -> Any:
        scalar = type.scalar
        if isinstance(scalar, core.pointer_type):
            return original(type)
        if scalar.name not in known:
            known[scalar.name] = original(type)
        return known[scalar.name]

    interpreter._get_np_dtype = numpy_type


def _builtins() -> None:
    """Which functions of a module the interpreter takes over, for each launch anew: the same ones every time."""
    known: dict[Any, list[tuple[str, Any]]] = {}

    def patch(package: Any, builder: Any, scope: Any) -> None:
        if package not in known:
            members = interpreter.inspect.getmembers(package)
            known[package] = [(name, member) for name, member in members if core.is_builtin(member)]
        for name, member in known[package]:
            interpreter._patch_attr(package, name, member, builder, scope)

    interpreter._patch_builtin = patch


def install() -> None:
    if triton.__version__.startswith(TRIED):
        for part in (_block_types, _tuples, _tensors, _alike, _numpy_types, _builtins):
            part()
