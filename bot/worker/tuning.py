"""Spares the checks of an autotuned kernel the tuning: each of a hundred probes would time dozens of configurations.

What is asked of a check is whether results are right, and they have to be with every configuration. So each check takes
one of them, and different checks take different ones.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

UNFIT = (OutOfResources, PTXASError, CompileTimeAssertionFailure)
"""What Triton's own tuning takes for a configuration that this chip cannot run."""


def _from(configs: Sequence[Any], name: str) -> list[Any]:
    """All of them, beginning with the one that this name stands for."""
    start = zlib.crc32(name.encode()) % len(configs)
    return [*configs[start:], *configs[:start]]


@contextlib.contextmanager
def untimed(name: str) -> Iterator[None]:
    """While active, an autotuned kernel runs with a configuration that depends on `name` alone and is never timed."""
    original = Autotuner.run

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        every = tuner.configs
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        unfit: Exception | None = None
        for config in _from(tuner.prune_configs(kwargs), name):
            tuner.configs = [config]  # a choice of one is not timed
            try:
                return original(tuner, *args, **kwargs)
            except UNFIT as error:
                unfit = error
            finally:
                tuner.configs = every
        raise unfit or ValueError(f"{tuner.base_fn.__name__} has no configuration")

    Autotuner.run = run
    try:
        yield
    finally:
        Autotuner.run = original
