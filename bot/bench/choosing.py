"""Which bench this machine gives: one with a GPU where there is one and it is the one asked for, else one without; and
for how long."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path

from bot.bench.cell import with_standby
from bot.bench.effort import Effort
from bot.bench.gpu import Gpu, find_gpus, the_gpu, why_none
from bot.bench.measure import Bench, Deadlines, make_cells, open_static_bench
from bot.bench.measured import MeasuredBench
from bot.errors import OperatorError
from bot.model.measurement import Suite
from bot.model.site import KernelSite

SURVEYING_S = 30.0
"""Of other launch numbers where there is a clock, in place of a static bench's three minutes: here they race."""


class EvidenceChoice(StrEnum):
    AUTO = "auto"
    """Measured where there is a GPU, estimated where there is none."""
    MEASURED = "measured"
    STATIC = "static"


def gpu_of(choice: EvidenceChoice, find: Callable[[], tuple[Gpu, ...]] = find_gpus) -> Gpu | None:
    """The GPU that measures, None where nothing is measured, or an OperatorError that offers what works."""
    if choice is EvidenceChoice.STATIC:
        return None
    found = find()
    if not found and choice is EvidenceChoice.MEASURED:
        raise OperatorError(
            f"no NVIDIA GPU was found here ({why_none()}), so nothing can be measured",
            hint="--evidence static estimates instead; nothing is then called measured",
        )
    return found[0] if found else None


class Keeping:
    """Opens benches, and keeps the last for who asks for the same again: the jobs of a campaign at a terminal follow
    one another on one machine, and each would check and time the untouched kernel anew."""

    def __init__(self, open_bench: Callable[..., Bench]) -> None:
        self._open = open_bench
        self._kept: tuple[tuple[object, ...], Bench] | None = None

    def __call__(self, *asked: object) -> Bench:
        """As an opener is asked; where its scratch is does not make a bench another one. Whoever asked does not close
        it."""
        wanted = asked[:-1]
        if self._kept is None or self._kept[0] != wanted:
            self.end()
            self._kept = wanted, self._open(*asked)
        return self._kept[1]

    def end(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[1].close()


def open_measured_bench(
    tree: Path,
    site: KernelSite,
    suite: Suite,
    arch: str,
    python: str,
    scratch: Path,
    *,
    gpu: Gpu | None = None,
    deadlines: Deadlines | None = None,
    seed: int | None = None,
    effort: Effort | None = None,
) -> MeasuredBench:
    """A bench on this machine's GPU. `arch` has to be the one it has."""
    found = gpu or the_gpu()
    if found.arch != arch:
        raise OperatorError(
            f"{arch} was asked for, and the GPU here is {found.name} ({found.arch})",
            hint=f"choose the runner that has it, or ask for gpu={found.name.split()[-1].lower()}",
        )
    bounds = deadlines or Deadlines(surveying_s=SURVEYING_S)
    cells, drawn = make_cells(python, scratch, seed, gpu=found)
    cells = with_standby(cells, bounds.memory_bytes)
    return MeasuredBench(Path(tree).absolute(), site, suite, cells, bounds, drawn, effort or Effort())


def opener_for(gpu: Gpu | None) -> Callable[..., Bench]:
    return open_static_bench if gpu is None else partial(open_measured_bench, gpu=gpu)
