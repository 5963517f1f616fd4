"""Lets Triton's interpreter fold and scan a block at a time: the same answers, hundreds of times sooner.

It knows how to add, multiply and compare along an axis. Any other way of combining two elements it asks for one pair of
elements after the other, which for the sort of 1024 numbers is 56 thousand times. Whatever combines does so in any
order of brackets, so neighbours are combined all at once, then neighbours of those.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import lru_cache
from typing import Any

import numpy as np
import triton
from triton.runtime import interpreter

TRIED = ("3.6.",)
"""The versions whose insides these are. Others are left as they are, and slower."""
CHOICES = (ast.If, ast.IfExp, ast.While, ast.For, ast.BoolOp, ast.Not)


def _combined(ops: Any, first: list[Any], second: list[Any], types: list[Any]) -> list[Any]:
    """Of each place in the first with the same place in the second."""
    given = [ops.to_tensor(part, kind) for parts in (first, second) for part, kind in zip(parts, types, strict=True)]
    found = ops.combine_fn.fn(*given)
    told = found if isinstance(found, tuple) else (found,)
    return [one.handle.data.astype(part.dtype) for one, part in zip(told, first, strict=True)]


def _parts(blocks: Any) -> tuple[list[Any], list[Any]]:
    return [block.handle.data for block in blocks], [block.dtype for block in blocks]


def _folded(ops: Any, blocks: Any) -> list[Any]:
    """Down to one element along the axis."""
    parts, types = _parts(blocks)
    while parts[0].shape[ops.axis] > 1:
        first, second = (
            [part.take(range(start, part.shape[ops.axis], 2), ops.axis) for part in parts] for start in (0, 1)
        )
        parts = _combined(ops, first, second, types)
    kept = parts if ops.keep_dims else [part.squeeze(ops.axis) for part in parts]
    return [ops.to_tensor(part if part.shape else part.item(), kind) for part, kind in zip(kept, types, strict=True)]


def _scanned(ops: Any, blocks: Any) -> list[Any]:
    """Each element with one before it, then with two, four, ... before it."""
    parts, types = _parts(blocks)
    length, step = parts[0].shape[ops.axis], 1
    sizes = [length if axis == ops.axis % parts[0].ndim else 1 for axis in range(parts[0].ndim)]
    places = np.arange(length).reshape(sizes)
    while step < length:
        before = [np.roll(part, step, ops.axis) for part in parts]
        both = _combined(ops, before, parts, types)
        parts = [np.where(places >= step, new, old) for new, old in zip(both, parts, strict=True)]
        step *= 2
    return [ops.to_tensor(part, kind) for part, kind in zip(parts, types, strict=True)]


@lru_cache(maxsize=64)
def _is_plain(function: Any) -> bool:
    """Whether it does to two blocks what it does to each pair of their elements: it decides nothing by them, and calls
    nothing but Triton's own."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    calls = (node.func for node in nodes if isinstance(node, ast.Call))
    return not any(isinstance(node, CHOICES) for node in nodes) and all(isinstance(c, ast.Attribute) for c in calls)


def _either(quick: Any, stock: Any) -> Any:
    def run(ops: Any, blocks: Any) -> Any:
        return quick(ops, blocks) if ops.axis is not None and _is_plain(ops.combine_fn.fn) else stock(ops, blocks)

    return run


def install() -> None:
    if triton.__version__.startswith(TRIED):
        interpreter.ReduceOps.generic_reduce = _either(_folded, interpreter.ReduceOps.generic_reduce)
        interpreter.ScanOps.generic_scan = _either(_scanned, interpreter.ScanOps.generic_scan)
