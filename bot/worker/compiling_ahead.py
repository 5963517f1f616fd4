"""Compiles what a kernel that tunes itself is about to time, side by side: its tuning then times, and nothing more.

Triton compiles each configuration right before it times it, one after the other: dyt's two kernels have 36 of them for
each length of a row. What is timed, how and in which order stays Triton's own, but for this: configurations that come
to the same machine code on the same grid are one, and are timed once. dyt lists each of its launches with one stage and
with two, which mean nothing to a kernel without matrix products.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import triton

from bot.worker.resources import Unreadable, code_of

MOST = 16
"""Threads. Two thirds of a compilation hold no lock of Python's, and its assembler is a process of its own."""
Codes = dict[Any, str]
"""By a configuration what it comes to, where that is known."""


def compile_ahead(tuner: Any, configs: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Codes:
    """All of these configurations, for a launch with these arguments, into the cache that the launch looks into. What
    does not compile here does not where it is waited for either, and is heard there."""
    mode: Any = getattr(triton, "AsyncCompileMode", None)  # since Triton 3.4
    if mode is None or len(configs) < 2:
        return {}
    # In a context of its own, so that nobody compiles beside others afterwards, whatever happens in here.
    return contextvars.copy_context().run(_side_by_side, mode, tuner, configs, args, {**kwargs, "warmup": True})


def _own(value: Any) -> Any:
    """A descriptor like this one: what a hook changes in it is nobody else's."""
    if not hasattr(value, "block_shape"):
        return value
    own = copy.copy(value)
    own.block_shape = list(value.block_shape)
    return own


def _prepare(tuner: Any, config: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """As Triton does before it times this configuration, and again before each launch: a descriptor's blocks, say, are
    as large as the configuration wants them."""
    if getattr(config, "pre_hook", None) is not None:
        config.pre_hook({**dict(zip(tuner.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()})


def _side_by_side(mode: Any, tuner: Any, configs: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Codes:
    made: list[tuple[Any, Any]] = []
    threads = ThreadPoolExecutor(min(MOST, len(os.sched_getaffinity(0))))
    with contextlib.suppress(Exception), threads, mode(threads, ignore_errors=True):
        for config in configs:
            with contextlib.suppress(Exception):
                own, words = [_own(value) for value in args], {name: _own(value) for name, value in kwargs.items()}
                _prepare(tuner, config, own, words)
                made.append((config, tuner.fn.run(*own, **words, **config.all_kwargs())))
    return {config: code for config, one in made if (code := _code(config, one))}


def _code(config: Any, made: Any) -> str:
    """Stands for the machine code with all that a launch adds to it; empty where that cannot be read."""
    try:
        kernel = made.result(True) if hasattr(made, "result") else made
        facts = kernel.metadata
        parts = [code_of(kernel.asm["cubin"]), config.kwargs, facts.num_warps, facts.num_ctas, facts.shared]
        parts.append(getattr(config, "pre_hook", None))  # its time is timed as well
    except (AttributeError, KeyError, Unreadable):
        return ""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@contextlib.contextmanager
def timed_once(tuner: Any, codes: Codes) -> Iterator[None]:
    """While active, what comes to the same code has the time that was read first."""
    plain, known = tuner._bench, dict[str, Any]()

    def bench(*args: Any, config: Any, **meta: Any) -> Any:
        code = codes.get(config, "")
        if code not in known:
            times = plain(*args, config=config, **meta)
            if not code:
                return times
            known[code] = times
        return known[code]

    tuner._bench = bench
    try:
        yield
    finally:
        del tuner._bench
