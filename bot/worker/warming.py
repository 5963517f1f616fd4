"""Compiles one tiny kernel before a worker is asked for anything, so that its forks inherit what a first compilation
costs.

Triton hashes its own 400 MB and asks each ptxas for its version once a process: 0.7 s that every fork would pay again.
And it has a C compiler build what asks the driver, for every cache that has none.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource

BUILT_S = 20.0
"""What a C compiler has for a file of 300 lines."""


@triton.jit  # type: ignore[untyped-decorator]
def _tiny_kernel(pointer, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    columns = tl.arange(0, BLOCK)
    values = tl.load(pointer + columns, mask=columns < size, other=0.0)
    tl.store(pointer + columns, values - tl.max(values, axis=0) + tl.sum(values, axis=0), mask=columns < size)


def warm_up(target: Any) -> None:
    signature = {"pointer": "*fp32", "size": "i32", "BLOCK": "constexpr"}
    triton.compile(ASTSource(_tiny_kernel, signature, {(2,): 128}), target=target)


def _built() -> None:
    """Into the cache that the launches look into; whoever loads it there wakes no driver yet."""
    from triton.backends.nvidia.driver import CudaUtils

    CudaUtils()


def warm_up_for(number: int) -> None:
    """For an NVIDIA GPU of this capability, without it. What asks the driver is built by a fork: should it wake the
    driver after all, then not here."""
    from triton.backends.compiler import GPUTarget

    warm_up(GPUTarget("cuda", number, 32))
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _built()
        os._exit(0)
    until = time.monotonic() + BUILT_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.01)
