"""Spares workers the tuning of an autotuned kernel, which times each of dozens of configurations.

What is asked of a check is whether results are right, and they have to be with every configuration. So each check takes
one of them, and different checks take different ones. A recording takes what was chosen before for the same kernel on
the same grid, v0's above all, so that neither is luckier. Any other kernel is tuned as v0's was, for what suits v0's is
no choice of its own: on an H200 twice the programs gave a sketch of dyt's backward 1.45x with 4 warps, and nothing with
the 8 that suit it without.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import triton.language as tl
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from bot.worker.compiling_ahead import compile_ahead, timed_once
from bot.worker.contract.gpu import MAX_CHOICES, Choice, is_sound

UNFIT = (OutOfResources, PTXASError, CompileTimeAssertionFailure)
"""What Triton's own tuning takes for a configuration that this chip cannot run."""
WHOLE = (int, type(None))
PLAIN = (bool, float, str, *WHOLE)
NAMED = (*PLAIN, torch.dtype, tl.dtype)
"""What a key may hold to be known again in another process."""

# -- checks ---------------------------------------------------------------------------------------------------


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


# -- recordings -----------------------------------------------------------------------------------------------


def _key(tuner: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """By which Triton remembers what it chose; another release that does it otherwise finds nothing and tunes."""
    given = {name: value for name, value in {**tuner.nargs, **kwargs}.items() if name in tuner.arg_names}
    named = [given[name] for name in tuner.keys if name in given]
    return (*named, *(str(value.dtype) for value in given.values() if hasattr(value, "dtype")))


def _among(configs: Sequence[Any]) -> str:
    return hashlib.sha256("\n".join(sorted(map(str, configs))).encode()).hexdigest()[:16]


def _source(kernel: Any) -> str:
    """Stands for the text of a Python function and of the jitted ones that it names, and those that they name."""
    texts: dict[Any, str] = {}
    waiting = [kernel]
    while waiting:
        one = waiting.pop()
        if one in texts:
            continue
        try:
            texts[one] = inspect.getsource(one)
        except (OSError, TypeError):
            return ""
        named = [one.__globals__.get(name) for name in one.__code__.co_names]
        waiting += [helper.fn for helper in named if isinstance(helper, JITFunction)]
    return hashlib.sha256("\n".join(sorted(texts.values())).encode()).hexdigest()[:16]


def _grid(tuner: Any, kwargs: dict[str, Any], config: Any) -> tuple[int, ...]:
    """How many programs a launch with this configuration has; none where nobody can tell."""
    grid = kwargs.get("grid")
    try:
        sizes = grid({**tuner.nargs, **kwargs, **config.kwargs}) if callable(grid) else grid
        return tuple(int(size) for size in (sizes if isinstance(sizes, (tuple, list)) else (sizes,)))
    except Exception:  # whatever a function of the author's raises, the launch raises it again
        return ()


def _described(tuner: Any, key: tuple[Any, ...], config: Any, kwargs: dict[str, Any]) -> Choice | None:
    """None where another process could not tell what is meant."""
    constants = tuple(config.kwargs.items())
    numbers = (config.num_warps, config.num_stages, config.num_ctas, config.maxnreg)
    if not all(isinstance(value, NAMED) for value in key) or getattr(config, "ir_override", None):
        return None
    if not all(type(value) in PLAIN for _, value in constants) or not all(type(n) in WHOLE for n in numbers):
        return None
    choice = Choice(
        kernel=f"{tuner.base_fn.__module__}.{tuner.base_fn.__qualname__}",
        key=repr(key),
        among=_among(tuner.configs),
        constants=constants,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        num_ctas=config.num_ctas,
        maxnreg=config.maxnreg,
        source=_source(tuner.base_fn),
        grid=_grid(tuner, kwargs, config),
    )
    return choice if is_sound(choice) else None


class Tuned:
    """What was chosen before, and what is chosen now."""

    def __init__(self, pins: Sequence[Choice]) -> None:
        self._pins = frozenset(pins)
        self._now: dict[tuple[object, ...], Choice | None] = {}

    @property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(choice for choice in self._now.values() if choice is not None)[:MAX_CHOICES]

    def settle(self, tuner: Any, key: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What Triton would find by timing, it now finds where it keeps what it timed."""
        if not self._pins or key in tuner.cache:
            return
        for config in tuner.prune_configs(kwargs):
            if _described(tuner, key, config, kwargs) in self._pins:
                tuner.cache[key] = config
                return

    def gives_up(self, tuner: Any, key: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether it was a pin that did not fit this chip: the variant may need more than v0 does."""
        config = tuner.cache.get(key)
        if config is None or _described(tuner, key, config, kwargs) not in self._pins:
            return False
        del tuner.cache[key]
        return True

    def note(self, tuner: Any, key: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Two kernels of one name and text that chose differently cannot be told apart later, so neither is told."""
        choice = _described(tuner, key, tuner.best_config, kwargs)
        if choice is not None:
            place = (choice.kernel, choice.key, choice.source, choice.grid)
            self._now[place] = choice if self._now.get(place, choice) == choice else None


@contextlib.contextmanager
def pinned(pins: Sequence[Choice]) -> Iterator[Tuned]:
    """While active, an autotuned kernel takes what is pinned for it, where it is the one that this was chosen for."""
    original, tuned = Autotuner.run, Tuned(pins)

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        if len(tuner.configs) == 1:
            return original(tuner, *args, **kwargs)
        tuner.nargs = nargs = dict(zip(tuner.arg_names, args, strict=False))
        key = _key(tuner, kwargs)
        tuned.settle(tuner, key, kwargs)
        known = key in tuner.cache
        codes = {} if known else compile_ahead(tuner, tuner.prune_configs(kwargs), args, kwargs)
        try:
            with timed_once(tuner, codes) if codes else contextlib.nullcontext():
                result = original(tuner, *args, **kwargs)
        except UNFIT:
            if not tuned.gives_up(tuner, key, kwargs):
                raise
            result = original(tuner, *args, **kwargs)
        tuner.nargs = nargs  # it forgets them
        tuned.note(tuner, key, kwargs)
        return result

    Autotuner.run = run
    try:
        yield tuned
    finally:
        Autotuner.run = original
