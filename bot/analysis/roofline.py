"""How close a case comes to the time that its minimum bytes take at the datasheet's bandwidth."""

from __future__ import annotations

import math
from collections.abc import Collection

from bot.hardware.catalog import Datasheet, for_runner
from bot.model.measurement import CaseResult, Measurement, Suite

ABOVE_THE_ROOF = 105.0
"""Percent. Datasheets round and boards differ by a few percent; more than that is an error, not a record."""


def case_percent(result: CaseResult, sheet: Datasheet) -> float | None:
    """Percent of the roof, or None where there is no time, no traffic or no published bandwidth."""
    if result.timing is None or sheet.bytes_per_us is None or result.minimum_bytes <= 0:
        return None
    return 100.0 * result.minimum_bytes / sheet.bytes_per_us / result.timing.median_us


def roof_percent(measurement: Measurement, suite: Suite, cases: Collection[str]) -> float | None:
    """Weighted geometric mean over these cases; None as soon as one of them has no roof."""
    sheet, weights = for_runner(measurement.runner), {case.id: case.weight for case in suite.cases}
    logs, total = 0.0, 0.0
    for result in measurement.cases:
        if result.case not in cases:
            continue
        percent = case_percent(result, sheet)
        if percent is None:
            return None
        logs += weights[result.case] * math.log(percent)
        total += weights[result.case]
    return math.exp(logs / total) if total > 0 else None


def above_the_roof(measurement: Measurement) -> tuple[tuple[str, float], ...]:
    """Cases that claim to be faster than their bytes can be moved."""
    sheet = for_runner(measurement.runner)
    shares = ((result.case, case_percent(result, sheet)) for result in measurement.cases)
    return tuple((case, share) for case, share in shares if share is not None and not share <= ABOVE_THE_ROOF)
