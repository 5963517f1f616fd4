"""Compiles what a kernel that tunes itself is about to time, side by side: its tuning then times, and nothing more.

Triton compiles each configuration right before it times it, one after the other: dyt's two kernels have 36 of them for
each length of a row. What is timed, how and in which order stays Triton's own.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import triton

MOST = 16
"""Threads. Two thirds of a compilation hold no lock of Python's, and its assembler is a process of its own."""


def compile_ahead(tuner: Any, configs: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """All of these configurations, for a launch with these arguments, into the cache that the launch looks into. What
    does not compile here does not where it is waited for either, and is heard there."""
    mode: Any = getattr(triton, "AsyncCompileMode", None)  # since Triton 3.4
    plain = [config for config in configs if getattr(config, "pre_hook", None) is None]  # a hook may change arguments
    if mode is None or len(plain) < 2:
        return
    # In a context of its own, so that nobody compiles beside others afterwards, whatever happens in here.
    contextvars.copy_context().run(_side_by_side, mode, tuner.fn, plain, args, {**kwargs, "warmup": True})


def _side_by_side(mode: Any, kernel: Any, configs: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    threads = ThreadPoolExecutor(min(MOST, len(os.sched_getaffinity(0))))
    with contextlib.suppress(Exception), threads, mode(threads, ignore_errors=True):
        for config in configs:
            with contextlib.suppress(Exception):
                kernel.run(*args, **kwargs, **config.all_kwargs())
