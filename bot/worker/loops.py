"""Lets a loop of Triton's interpreter count in the type in which it counts on a GPU.

There a loop counts in the widest type of its bounds; the interpreter counts in Python's numbers, which take the type of
whatever they meet. So rows that a program counts in 64 bits would be multiplied in 32.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import reduce
from operator import index
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from bot.worker.reach import NOTE, NOWHERE

NAME = "_range_of_its_type"


def _tensors(numbers: range, kind: Any, note: Any) -> Iterator[Any]:
    for number in numbers:
        handle = interpreter.TensorHandle(np.array([number], dtype=interpreter._get_np_dtype(kind)), kind)
        if note is not None:
            handle.attr[NOTE] = note
        yield tl.tensor(handle, kind)


def _counting(is_wide: Callable[[int], bool]) -> Callable[..., Any]:
    def kind_of(bound: Any) -> Any:
        if isinstance(bound, tl.tensor):
            return bound.dtype
        return tl.int64 if is_wide(index(bound)) else tl.int32

    def counted(arg1: Any, arg2: Any = None, step: Any = None, **hints: Any) -> Any:
        """As `range` and `tl.range`. A loop that no tensor bounds has Python's numbers, as it always had."""
        bounds = (0 if arg2 is None else arg1, arg1 if arg2 is None else arg2, 1 if step is None else step)
        numbers = range(*map(index, bounds))
        told = [bound for bound in bounds if isinstance(bound, tl.tensor)]
        if not told:
            return numbers
        kind = reduce(interpreter.interpreter_semantic.integer_promote_impl, map(kind_of, bounds))
        return _tensors(numbers, kind, NOWHERE if any(NOTE in bound.handle.attr for bound in told) else None)

    return counted


def _is_range(named: ast.expr) -> bool:
    return (isinstance(named, ast.Name) and named.id == "range") or (
        isinstance(named, ast.Attribute) and named.attr == "range"
    )


def install(is_wide: Callable[[int], bool]) -> None:
    """`is_wide`: whether a number would have 64 bits where there are 2^31 elements."""

    def visit_for(self: Any, node: ast.For) -> ast.For:
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call) and _is_range(node.iter.func):
            node.iter.func = ast.Name(id=NAME, ctx=ast.Load())
        return node

    setattr(interpreter, NAME, _counting(is_wide))  # all names of that module are put beside the kernel's own
    interpreter.ASTTransformer.visit_For = visit_for
