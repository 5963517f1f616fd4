"""Compiles one tiny kernel before the pool forks, so that its children inherit what a first compilation costs.

Triton hashes its own 400 MB and asks each ptxas for its version once a process: 0.7 s that every child would pay again.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource


@triton.jit  # type: ignore[untyped-decorator]
def _tiny_kernel(pointer, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    columns = tl.arange(0, BLOCK)
    values = tl.load(pointer + columns, mask=columns < size, other=0.0)
    tl.store(pointer + columns, values - tl.max(values, axis=0) + tl.sum(values, axis=0), mask=columns < size)


def warm_up(target: Any) -> None:
    signature = {"pointer": "*fp32", "size": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(_tiny_kernel, signature, {(2,): 128}), target=target)
