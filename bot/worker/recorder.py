"""Catches every kernel launch of a pass instead of running it.

The op runs on tensors that have shapes and no values; what it would have launched is kept as a specialised call that
can be compiled for any chip, as it is or with other launch numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Any

import torch
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from bot.worker.contract import Call, Caught, CaughtCase, Override
from bot.worker.contract.arches import Arch
from bot.worker.device import StubDriver
from bot.worker.footprint import covered_bytes, distinct_tensors
from bot.worker.loading import NotTheVariant, origin_of
from bot.worker.observer import Observer
from bot.worker.passes import materials, run_pass

OPTIONS = ("num_warps", "num_stages")
_run_original = JITFunction.run


class NotTheLaunch(Exception):
    """A launch with such numbers cannot be written."""


class Address:
    """Stands for a tensor argument: specialisation looks at its type and whether its address divides by 16."""

    def __init__(self, dtype: torch.dtype, address: int, nbytes: int) -> None:
        self.dtype = dtype
        self._address = address
        self._nbytes = nbytes

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        return self._nbytes


def _address(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Address(value.dtype, value.storage_offset() * value.element_size(), covered_bytes(value))
    if isinstance(value, TensorDescriptor):
        return replace(value, base=_address(value.base))
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_address(item) for item in value)
    return value


def _trait(value: Any) -> str:
    """What of an argument can change the compiled code."""
    if isinstance(value, Address):
        return f"{value.dtype}%{value.data_ptr() % 16 == 0}{value.ptr_range() < 2**31}"
    if isinstance(value, TensorDescriptor):
        return f"{_trait(value.base)}{value.block_shape}{value.padding}"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, int):
        return f"int{value == 1}{value % 16 == 0}{-(2**31) <= value < 2**31}"
    return "float" if isinstance(value, float) else repr(value)


@dataclass(frozen=True)
class Capture:
    """One launch, ready to be compiled.

    A kernel may have a parameter called `num_warps`: Triton takes it for the option too where a launch says it by name,
    and only for a constant where it is said by position. So what was said by position is compiled by position.
    """

    function: JITFunction[Any]
    arguments: dict[str, Any]
    """By parameter name, tensors as addresses."""
    placed: int
    """The first so many of them were said by position."""
    options: dict[str, Any]
    grid: Any
    regions: tuple[tuple[str, int], ...]
    file: str
    sha256: str

    @property
    def kernel(self) -> str:
        return str(self.function.fn.__name__)

    @property
    def constexprs(self) -> dict[str, Any]:
        names = {p.name for p in self.function.params if p.is_constexpr}
        return {name: value for name, value in self.arguments.items() if name in names}

    def key(self, arch: Arch) -> str:
        """Equal keys compile to equal code."""
        constants = self.constexprs
        traits = [f"{n}={constants[n]!r}" if n in constants else f"{n}:{_trait(v)}" for n, v in self.arguments.items()]
        options = [f"{name}={value!r}" for name, value in sorted(self.options.items())]
        return "|".join([arch.name, self.file, self.kernel, *traits, *options])

    def sized_grid(self) -> tuple[int, ...]:
        """A grid that is a function is asked again, so that it follows overridden constants."""
        grid = self.grid(self.arguments) if callable(self.grid) else self.grid
        sizes = tuple(int(size) for size in (grid if isinstance(grid, (tuple, list)) else (grid,)))
        return (*sizes, 1, 1, 1)[:3]

    def with_numbers(self, override: Override) -> Capture:
        """An option that is a parameter too is both from now on, and so are said by name the arguments behind it."""
        changed = {name: getattr(override, name) for name in OPTIONS if getattr(override, name) is not None}
        own = {name: value for name, value in changed.items() if name in self.arguments}
        constants = {name: value for name, value in override.constants if name in self.constexprs}
        return replace(
            self,
            arguments={**self.arguments, **constants, **own},
            placed=min([self.placed, *(list(self.arguments).index(name) for name in own)]),
            options={**self.options, **changed},
        )

    def _by_name(self) -> dict[str, Any]:
        """What is said by name. A default is left to Triton, for which it is no option.

        Raises NotTheLaunch where another option's own parameter would have to be said by name, and so would count.
        """
        told = dict(list(self.arguments.items())[self.placed :])
        unsaid = [name for name in OPTIONS if name in told and name not in self.options]
        for name in unsaid:
            if self.function.signature.parameters[name].default is Parameter.empty:
                raise NotTheLaunch(f"{self.kernel} is told {name} by position, behind a number that is to be another")
            del told[name]
        return {**told, **self.options}

    def compile(self, driver: StubDriver, arch: Arch) -> Any:
        """A CompiledKernel for this chip. Triton's own `run`, told to warm up only."""
        driver.aim(arch)
        placed = list(self.arguments.values())[: self.placed]
        return _run_original(self.function, *placed, grid=None, warmup=True, **self._by_name())

    def caught(self, arch: Arch) -> Caught:
        return Caught(
            kernel=self.kernel,
            file=self.file,
            sha256=self.sha256,
            grid=self.sized_grid(),
            num_warps=int(self.options.get("num_warps", 4)),
            num_stages=int(self.options.get("num_stages", 2 if arch.backend == "hip" else 3)),
            constants=tuple((name, _plain(value)) for name, value in self.constexprs.items()),
            regions=self.regions,
        )


def _plain(value: Any) -> str:
    value = getattr(value, "value", value)
    return str(value)[:200]


class Recorder:
    """Between `install` and the end of the process, launches are caught here."""

    def __init__(self, root: Path, arch: Arch) -> None:
        self.root = root
        self._arch = arch
        self.captures: list[Capture] = []
        self.around: Callable[[bool], None] = lambda entering: None

    def _catch(self, function: JITFunction[Any], *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        self.around(True)
        try:
            names = {p.name for p in function.params}
            options = {k: v for k, v in kwargs.items() if k not in names or k in OPTIONS}
            bound = function.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
            bound.apply_defaults()
            regions = tuple((name, covered_bytes(tensor)) for name, tensor in distinct_tensors(bound.arguments))
            file, digest = origin_of(function.fn, self.root)
            if not digest:
                raise NotTheVariant(f"the source of {function.fn.__name__} is in no file")
            arguments = {name: _address(value) for name, value in bound.arguments.items()}
            self.captures.append(Capture(function, arguments, len(args), options, grid, regions, file, digest))
        finally:
            self.around(False)

    def install(self) -> None:
        recorder = self

        def run(self: JITFunction[Any], *args: Any, **kwargs: Any) -> None:
            recorder._catch(self, *args, **kwargs)

        JITFunction.run = run

    def _record(self, op: Any, call: Call, home: str, *, holds: bool = False) -> tuple[CaughtCase, tuple[Capture, ...]]:
        self.captures = []
        observer = Observer()
        self.around = observer.look_away
        run_pass(op, call, materials(call, home, None), home, observer, self.captures.clear, holds=holds)
        captures = tuple(self.captures)
        launches = tuple(capture.caught(self._arch) for capture in captures)
        return CaughtCase(call.case, launches, observer.peak_bytes, observer.moved_bytes), captures

    def record(self, op: Any, call: Call) -> tuple[CaughtCase, tuple[Capture, ...]]:
        """The launches of one pass, with what torch itself allocates and moves beside them.

        Shapes alone are enough for most ops; one whose host code needs values gets memory that holds whatever it holds.
        """
        try:
            return self._without_values(op, call)
        except NotTheVariant:
            raise
        except (NotImplementedError, RuntimeError):
            return self._record(op, call, "cpu")

    def _without_values(self, op: Any, call: Call) -> tuple[CaughtCase, tuple[Capture, ...]]:
        try:
            return self._record(op, call, "meta")
        except AssertionError:
            return self._record(op, call, "meta", holds=True)
