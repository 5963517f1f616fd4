"""The job of a worker that harvests: runs a benchmark script where there is no GPU, with its runner, its memory probe
and its clock replaced, and notes what would reach the op. Tensors have shapes and no values, so nothing is computed.
"""

from __future__ import annotations

import importlib
import json
import runpy
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bot.worker import device, harvest_absent
from bot.worker.contract.harvest import (
    MOST_SIGHTINGS,
    MOST_TROUBLES,
    Given,
    Handed,
    HarvestAnswer,
    HarvestRequest,
    Origin,
    Sighting,
)
from bot.worker.harvest_memory import peak_of

UNKNOWN_BYTES = 2**20
"""What a probe that cannot be followed is said to have taken: little, so that the model is what bounds the sweep."""
LONGEST_S = 8.0
"""Of one point of a sweep: a reference in Python loops takes minutes where each operation is looked at."""
MOST_TEXT = 200


class Seen(BaseException):
    """The op was reached; what the script would do with its result is of no use."""


class TooLong(BaseException):
    """One point of a sweep took longer than LONGEST_S."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def ring(signum: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _text(value: Any) -> str:
    return str(value)[:MOST_TEXT]


def _given(value: Any) -> Given:
    if isinstance(value, torch.Tensor):
        return Given(Handed(str(value.dtype).removeprefix("torch."), tuple(value.shape), tuple(value.stride())))
    if isinstance(value, (list, tuple)) and all(type(item) is int for item in value):
        return Given(value=tuple(value))
    if type(value) is str and len(value) > MOST_TEXT:
        return Given(other="str")
    if type(value) is float and (value != value or abs(value) == float("inf")):
        return Given(other=_text(value))
    if value is None or type(value) in (bool, int, float, str):
        return Given(value=value)
    return Given(other=_text(value) if isinstance(value, torch.dtype) else type(value).__name__)


class Notes:
    """What was seen so far, and of which point of a sweep."""

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply = apply
        """The op's own, for calls that are no point of a sweep."""
        self.sightings: dict[Sighting, None] = {}
        self.troubles: dict[str, None] = {}
        self.unbounded = ""
        self.has_runner = False
        self._here: Origin | None = None
        self._reached: set[Origin] = set()
        self._idle: set[tuple[str, str, str]] = set()
        """(benchmark, configuration, provider) that did not reach the op: at other sizes it will not either."""

    def trouble(self, what: str) -> None:
        if len(self.troubles) < MOST_TROUBLES:
            self.troubles[_text(what)] = None

    def applied(self, *arguments: Any) -> Any:
        """Stands for the op's `apply`."""
        if (self._here is not None or not self.has_runner) and len(self.sightings) < MOST_SIGHTINGS:
            self.sightings[Sighting(self._here or Origin(), tuple(map(_given, arguments)))] = None
        if self._here is not None:
            self._reached.add(self._here)
            raise Seen
        try:  # a warm-up or a probe goes on: with what the op makes of no values, or with something that has a gradient
            return self._apply(*arguments)
        except Exception:
            floating = (a for a in arguments if isinstance(a, torch.Tensor) and a.is_floating_point())
            return next(floating, torch.zeros(())) * 1

    def point(self, benchmark: str, origin: Origin, runs: Iterable[Callable[[], Any]]) -> None:
        """Runs, in turn, what could reach the op at one point, until something does, or comes to its end without."""
        place = (benchmark, origin.config, origin.provider)
        if origin in self._reached or place in self._idle:
            return
        troubles: list[str] = []
        for run in runs:
            self._here = origin
            try:
                with _limited(LONGEST_S):
                    run()
                troubles = []
                break
            except Seen:
                return
            except TooLong:
                troubles.append(f"took more than {LONGEST_S:g} s")
                break
            except (Exception, SystemExit) as error:
                troubles.append(f"{type(error).__name__}: {error}")
            finally:
                self._here = None
        for trouble in troubles:
            self.trouble(f"{origin.provider} at {origin.x_name} {origin.x}: {trouble}")
        self._idle.add(place)


def _liger(notes: Notes, home: Any) -> Callable[..., None]:
    """`run_benchmarks` of Liger-Kernel's `utils`."""

    def run_benchmarks(
        bench_test_fn: Callable[[Any], Any],
        kernel_name: str = "",
        metric_name: str = "",
        metric_unit: str = "",
        x_name: str = "",
        x_label: str = "",
        x_values: Sequence[Any] = (),
        kernel_providers: Sequence[str] = (),
        kernel_operation_modes: Sequence[Any] = (None,),
        extra_benchmark_configs: Sequence[Any] | None = None,
        overwrite: bool = False,
        **_: Any,
    ) -> None:
        for config in extra_benchmark_configs or (None,):
            told = json.dumps(config, default=str)[:MOST_TEXT] if config else ""
            for x in x_values:
                for provider in kernel_providers:
                    inputs = [
                        home.SingleBenchmarkRunInput(
                            x=x, kernel_provider=provider, kernel_operation_mode=mode, extra_benchmark_config=config
                        )
                        for mode in kernel_operation_modes
                    ]
                    origin = Origin(_text(x_name), _text(x_label), _text(x), _text(provider), told)
                    notes.point(_text(kernel_name), origin, [partial(bench_test_fn, one) for one in inputs])

    return run_benchmarks


def _forward(make: Callable[[Any], Any], x: Any) -> None:
    make(x)[0]()


def _sample(notes: Notes, home: Any) -> Callable[..., None]:
    """`record` of the sample library's `recording`."""

    def record(
        kernel: str, providers: dict[str, Any], *, x_name: str, x_label: str, x_values: Any, config: Any
    ) -> None:
        told = json.dumps(config, default=str)[:MOST_TEXT]
        for x in x_values:
            for provider, make in providers.items():
                origin = Origin(_text(x_name), _text(x_label), _text(x), _text(provider), told)
                notes.point(_text(kernel), origin, [partial(_forward, make, x)])

    return record


def _memory(notes: Notes, home: Any) -> Callable[..., int]:
    """`estimate_kernel_peak_memory`, by which Liger-Kernel chooses how far a sweep goes."""

    def estimate_kernel_peak_memory(probe_fn: Callable[[], torch.Tensor]) -> int:
        try:
            with _limited(LONGEST_S):
                return peak_of(probe_fn)
        except TooLong:
            notes.unbounded = f"its memory probe took more than {LONGEST_S:g} s"
        except Exception as error:
            notes.unbounded = _text(f"its memory probe ended with {type(error).__name__}: {error}")
        return UNKNOWN_BYTES

    return estimate_kernel_peak_memory


REPLACED: tuple[tuple[str, str, Callable[[Notes, Any], Callable[..., Any]], bool], ...] = (
    ("utils", "run_benchmarks", _liger, True),
    ("recording", "record", _sample, True),
    ("benchmark_model_configs", "estimate_kernel_peak_memory", _memory, False),
)
"""(module beside the script, function of it, what takes its place, whether it is what runs a sweep)."""


def _replace(notes: Notes, folder: Path) -> None:
    for name, function, make, runs in REPLACED:
        if not (folder / f"{name}.py").is_file():
            continue
        module = importlib.import_module(name)
        if hasattr(module, function):
            setattr(module, function, make(notes, module))
            notes.has_runner = notes.has_runner or runs


def _once(fn: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **__: Any) -> Any:
    """Stands for `triton.testing.do_bench`."""
    fn()
    return [1.0] * len(quantiles) if quantiles else 1.0


def _as_it_is(model: Any = None, **_: Any) -> Any:
    """Stands for `torch.compile`, also where it decorates."""
    return (lambda inner: inner) if model is None else model


def _without_gpu() -> None:
    """No kernel is launched, nothing is compiled and no clock is read."""
    import triton.testing
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    for kind in (JITFunction, Autotuner, Heuristics):
        kind.run = lambda *_, **__: None
    triton.testing.do_bench = _once
    torch.compile = _as_it_is
    memory = torch.cuda.memory
    memory.reset_peak_memory_stats = torch.cuda.reset_peak_memory_stats = lambda device=None: None
    torch.cuda.mem_get_info = memory.mem_get_info = lambda device=None: (
        torch.cuda.get_device_properties().total_memory,
        torch.cuda.get_device_properties().total_memory,
    )


def prepare(request: HarvestRequest) -> None:
    """Before anything of the target is imported."""
    from bot.worker.contract.arches import ARCHES

    arch = ARCHES[request.arch]
    device.install(arch, arch.processors)
    _without_gpu()
    harvest_absent.install()


def harvest(op: Any, request: HarvestRequest) -> HarvestAnswer:
    notes = Notes(op.apply)
    op.apply = notes.applied
    script = Path(request.script)
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script)]
    with torch.device("meta"), device.PretendCuda("meta"):
        try:
            _replace(notes, script.parent)
            runpy.run_path(str(script), run_name="__main__")
        except (Exception, SystemExit) as error:
            if not isinstance(error, SystemExit) or error.code not in (None, 0):
                notes.trouble(f"the script ended with {type(error).__name__}: {error}")
    return HarvestAnswer(tuple(notes.sightings), tuple(notes.troubles), notes.unbounded)
