"""What was read, in the words of a measurement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bot.bench.takes import Take
from bot.model.measurement import CaseResult, Timing


def timing_of(times: Sequence[float]) -> Timing:
    ordered = sorted(times)
    tenth = len(ordered) // 10
    return Timing(
        median_us=round(statistics.median(ordered), 3),
        low_us=ordered[tenth],
        high_us=ordered[-1 - tenth],
        samples=len(ordered),
        timer="replay",
    )


def recorded(case: CaseResult, take: Take | None) -> CaseResult:
    """What a recording tells beside the launches."""
    peak, waits = (take.peak_bytes, take.waits) if take is not None else (0, 0)
    return case.model_copy(update={"memory_bytes": peak, "host_waits": waits})
