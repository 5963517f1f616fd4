"""Which bench this machine gives: one with a GPU where there is one and it is the one asked for, else one without."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from bot.bench.gpu import Gpu, find_gpus, why_none
from bot.bench.measure import Bench, open_static_bench
from bot.bench.measured import open_measured_bench
from bot.errors import OperatorError


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


def opener_for(gpu: Gpu | None) -> Callable[..., Bench]:
    return open_static_bench if gpu is None else partial(open_measured_bench, gpu=gpu)
