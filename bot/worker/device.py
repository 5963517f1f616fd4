"""Makes code that was written for a GPU run where there is none.

Tensors live at `home` ("cpu" with values, "meta" with shapes only) and say that they are on cuda:0, so that host code
takes the same branches as on a GPU; torch.cuda answers for the chip that is compiled for.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bot.worker.contract.arches import Arch

CUDA = torch.device("cuda", 0)
_CACHED = type(functools.cache(len))
_BUILT_FOR = torch.version.cuda
_NOW: dict[str, Any] = {}
"""What torch.cuda answers."""
_SAYS = {torch.Tensor.device: CUDA, torch.Tensor.is_cuda: True, torch.Tensor.is_cpu: False, torch.Tensor.is_meta: False}
"""Attributes of a tensor that are answered for it."""
_STAYS = (torch.Tensor.cuda, torch.Tensor.pin_memory)
_ITEM = (torch.Tensor.item, torch.Tensor.__index__, torch.Tensor.__int__, torch.Tensor.__float__)
_WIDE = (torch.mm, torch.addmm, torch.bmm, torch.baddbmm)
"""Products that may be asked for in a wider type, by GPUs alone."""
_DIFFER = (torch.ne, torch.Tensor.ne, torch.Tensor.__ne__)
OTHER = 2.0
"""What a number without a value reads as: not 1, at which the host of a loss has nothing left to launch."""
_ALIKE = (torch.equal, torch.allclose, torch.Tensor.equal, torch.Tensor.allclose)


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class PretendCuda(TorchFunctionMode):  # type: ignore[misc]
    """While active, tensors claim to be on a GPU and what is made "on cuda" is made at home.

    `holds` is the answer to `if <tensor>` where there are no values: what a guard asks is false (`if x.isnan().any()`),
    what an assertion asks is true (`assert labels.max() < classes`). `alike` is the answer to whether two tensors are
    equal there: a gradient is, to 1, where it is 1, and reads as another number elsewhere.
    """

    def __init__(self, home: str, *, holds: bool = False, alike: bool = False) -> None:
        super().__init__()
        self._home, self._holds, self._alike = torch.device(home), holds, alike

    def _at_home(self, value: Any) -> Any:
        return self._home if _is_cuda(value) else value

    def _read(self, value: torch.Tensor) -> float | int:
        return (1.0 if self._alike else OTHER) if value.is_floating_point() else 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        getter = getattr(func, "__self__", None)
        if getter is not None and func.__name__ == "__get__":
            for attribute, answer in _SAYS.items():
                if getter is attribute:
                    return answer
        if self._home.type == "meta" and args:
            # Values do not exist here; one plausible answer keeps the launches coming.
            if func in _ITEM:
                return self._read(args[0])
            if func is torch.Tensor.tolist:
                return torch.full(args[0].shape, self._read(args[0]), dtype=args[0].dtype).tolist()
            if func is torch.Tensor.__bool__:
                return self._holds
            if func in _ALIKE:
                return self._alike
            if func in _DIFFER and args[0].dim() == 0:
                return not self._alike
        if func in _STAYS:
            return args[0]
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        kwargs = {name: self._at_home(value) for name, value in (kwargs or {}).items()}
        if func in _WIDE and (wide := kwargs.pop("out_dtype", None)) is not None:
            args = [value.to(wide) if isinstance(value, torch.Tensor) else value for value in args]
        return func(*[self._at_home(value) for value in args], **kwargs)


class _NoDevice(contextlib.AbstractContextManager[None]):
    """torch.cuda.device and torch.cuda.stream as contexts that change nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.idx = 0

    def __exit__(self, *_: Any) -> None:
        return None


class _Stream:
    """The only stream there is. A class, as annotations say `torch.cuda.Stream | None`."""

    cuda_stream = 0
    device = CUDA

    def __init__(self, *_: Any, **__: Any) -> None:
        return None

    def synchronize(self) -> None:
        return None

    def wait_stream(self, other: Any) -> None:
        return None


def _properties(arch: Arch, processors: int) -> SimpleNamespace:
    major, minor = arch.capability
    return SimpleNamespace(
        name=arch.chip,
        major=major,
        minor=minor,
        multi_processor_count=processors,
        gpu_eu_count=processors,
        total_memory=arch.memory_bytes,
        warp_size=arch.warp,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=arch.shared_bytes,
        shared_memory_per_multiprocessor=arch.shared_bytes,
        L2_cache_size=50 * 2**20,
        gcnArchName=str(arch.number),
        is_integrated=0,
    )


def _answers(arch: Arch, processors: int) -> dict[str, Any]:
    properties = _properties(arch, processors)
    stream = _Stream()
    return {
        "is_available": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "device": _NoDevice,
        "device_of": _NoDevice,
        "stream": _NoDevice,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "Stream": _Stream,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: arch.capability,
        "get_device_name": lambda device=None: arch.chip,
        "is_bf16_supported": lambda *args, **kwargs: True,
        "is_current_stream_capturing": lambda: False,
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
    }


class StubDriver:
    """Triton's view of a chip that is not there. `aim` chooses what is compiled for; each chip is its own device."""

    def __init__(self, arch: Arch, processors: int) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget
        self._seen: list[str] = []
        self.aim(arch)
        self.processors = processors
        self.utils = SimpleNamespace(get_device_properties=lambda device: self._device_properties(self.processors))

    def aim(self, arch: Arch) -> None:
        self.arch = arch
        if arch.name not in self._seen:
            self._seen.append(arch.name)

    def _device_properties(self, processors: int) -> dict[str, int]:
        return {
            "max_shared_mem": self.arch.shared_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": processors,
            "warpSize": self.arch.warp,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }

    def get_current_target(self) -> Any:
        return self._target(self.arch.backend, self.arch.number, self.arch.warp)

    def get_current_device(self) -> int:
        return self._seen.index(self.arch.name)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self.arch.capability

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_active_torch_device(self) -> torch.device:
        return CUDA

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Any:
        """Nothing can be timed here: every configuration is as good as the first."""
        return lambda kernel_call, quantiles=None, **_: [1.0] * len(quantiles or (1.0,))


def first_configuration() -> None:
    """An autotuned kernel takes its first configuration that survives pruning: there is no clock to choose by."""
    from triton.runtime.autotuner import Autotuner

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))  # the other parameters come by keyword
        config = self.prune_configs(kwargs)[0]
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    Autotuner.run = run


def resize(processors: int) -> None:
    """The chip has another number of multiprocessors from now on, whoever is asked."""
    from triton.runtime.driver import driver

    driver.active.processors = processors
    properties = torch.cuda.get_device_properties()
    properties.multi_processor_count = properties.gpu_eu_count = processors


def _asked(name: str) -> Any:
    """What answers as the chip does that there is by then: a module may have imported it by its name."""
    return lambda *args, **kwargs: _NOW[name](*args, **kwargs)


def _pretend(arch: Arch, processors: int) -> None:
    for name, answer in _answers(arch, processors).items():
        _NOW[name] = answer
        setattr(torch.cuda, name, answer if isinstance(answer, type) else _asked(name))
    is_hip = arch.backend == "hip"
    torch.version.hip, torch.version.cuda = ("6.4", None) if is_hip else (None, _BUILT_FOR or "12.8")


def _caches(owner: Any, module: str) -> Iterator[Any]:
    """Those of a module and of its classes."""
    for value in list(getattr(owner, "__dict__", {}).values()):
        kept = value.__func__ if type(value) in (staticmethod, classmethod) else value
        if type(kept) is _CACHED:
            yield kept
        elif owner is sys.modules.get(module) and issubclass(type(kept), type) and kept.__module__ == module:
            yield from _caches(kept, module)


def _forget(root: Path) -> None:
    """What modules of a tree remember of earlier answers. A name may stand for no module there, or for None."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and Path(file).is_relative_to(root):
            for cache in _caches(module, name):
                cache.cache_clear()


@contextlib.contextmanager
def as_if(driver: StubDriver, arch: Arch, root: Path) -> Iterator[None]:
    """Host code of a tree that asks which chip there is hears of this one, whatever it remembers. What it asked when it
    was imported stands."""
    before = driver.arch, driver.processors
    try:
        _forget(root)
        _pretend(arch, arch.processors)
        driver.aim(arch)
        driver.processors = arch.processors
        yield
    finally:
        _pretend(*before)
        driver.aim(before[0])
        driver.processors = before[1]
        _forget(root)


def install(arch: Arch, processors: int) -> StubDriver:
    """Answer for a chip of this kind, in torch and in Triton. Before the variant is imported."""
    from triton.runtime.driver import driver

    _pretend(arch, processors)
    stub = StubDriver(arch, processors)
    driver.set_active(stub)
    first_configuration()
    return stub
