"""How close a case comes to what the GPU can do: its bytes at the bandwidth, its arithmetic at the peak.

A ceiling measured on this very GPU is preferred to a datasheet. A time that beats the copy it was measured by by more
than the tolerance shows that the copy was no ceiling, and the datasheet is asked; one that beats that too is an error.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Literal

from bot.hardware.catalog import Datasheet, Quantity, for_runner
from bot.model.diagnosis import CaseRoof, Ceiling
from bot.model.measurement import CaseResult, Measurement, Suite
from bot.model.reasons import ReasonCode

ABOVE_THE_ROOF = 105.0
"""Percent. Datasheets round and boards differ by a few percent; more than that is an error, not a record."""
TARGET_PERCENT = 90.0
"""At this share of the roof nothing is left worth a patch (R-23)."""


def case_percent(result: CaseResult, sheet: Datasheet) -> float | None:
    """Percent of the roof, or None where there is no time, no traffic, no ceiling, or the number cannot be."""
    return case_roof(result, sheet).percent


def cite(quantity: Quantity) -> str:
    """Where a number of a datasheet was read."""
    return f"{quantity.source} (read {quantity.read})"


def _peak(found: Quantity | None) -> Ceiling | None:
    if found is None:
        return None
    return Ceiling(what="arithmetic", value=found.value, unit="TFLOP/s", kind="datasheet", source=cite(found))


def _bandwidth(sheet: Datasheet) -> Ceiling | None:
    found = sheet.memory_bandwidth
    if found is None:
        return None
    return Ceiling(what="memory", value=found.value, unit="GB/s", kind="datasheet", source=cite(found))


def _plain_pass(result: CaseResult, sheet: Datasheet) -> Ceiling | None:
    if result.roof_us is None or result.minimum_bytes <= 0:
        return None
    source = f"plain pass over the same {result.minimum_bytes} bytes, timed by the judge on this {sheet.gpu}"
    rate = result.minimum_bytes / result.roof_us / 1000
    return Ceiling(what="memory", value=rate, unit="GB/s", kind="measured", source=source)


def _memory_us(result: CaseResult, ceiling: Ceiling) -> float:
    return result.minimum_bytes / (1000 * ceiling.value)


def _arithmetic_us(result: CaseResult, vector: Ceiling | None, matrix: Ceiling | None) -> float | None:
    """At the peak of the units that can do it; None where nobody counted, or nobody published."""
    plain = result.flops - result.matrix_flops
    if result.flops <= 0 or (plain > 0 and vector is None) or (result.matrix_flops > 0 and matrix is None):
        return None
    us = plain / (1e6 * vector.value) if vector is not None and plain > 0 else 0.0
    return us + (result.matrix_flops / (1e6 * matrix.value) if matrix is not None else 0.0)


def memory_ceiling(result: CaseResult, sheet: Datasheet) -> Ceiling | None:
    """The measured one, unless this very case beats it."""
    measured, published = _plain_pass(result, sheet), _bandwidth(sheet)
    if measured is None or published is None or result.timing is None:
        return measured or published
    beaten = _memory_us(result, measured) > result.timing.median_us * ABOVE_THE_ROOF / 100
    return published if beaten else measured


def _bound(us: float, arithmetic_us: float | None) -> Literal["memory", "compute"]:
    return "compute" if arithmetic_us is not None and arithmetic_us > us else "memory"


def case_roof(result: CaseResult, sheet: Datasheet) -> CaseRoof:
    """Bytes, arithmetic, intensity against the ridge, the ceiling that binds and the share of it that is reached."""
    known = CaseRoof(case=result.case, minimum_bytes=result.minimum_bytes, flops=result.flops)
    if result.minimum_bytes <= 0:
        return known.model_copy(update={"detail": "there are no bytes that it has to move"})
    memory = memory_ceiling(result, sheet)
    if memory is None:
        return known.model_copy(update={"detail": "no bandwidth is known for this GPU"})
    vector, matrix = _peak(sheet.fp32), _peak(sheet.bf16 or sheet.fp16)
    unit = matrix if 2 * result.matrix_flops > result.flops else vector
    memory_us, arithmetic_us = _memory_us(result, memory), _arithmetic_us(result, vector, matrix)
    bound = _bound(memory_us, arithmetic_us)
    roof_us = max(memory_us, arithmetic_us or 0.0)
    found: dict[str, Any] = {
        "intensity": result.flops / result.minimum_bytes if result.flops > 0 else None,
        "ridge": 1000 * unit.value / memory.value if unit is not None else None,
        "peak": unit,
        "bound": bound,
        "roof_us": roof_us,
        "ceiling": unit if bound == "compute" else memory,
        "target_us": roof_us / TARGET_PERCENT * 100,
    }
    if result.timing is None:
        return known.model_copy(update=found)
    percent = 100.0 * roof_us / result.timing.median_us
    if percent <= ABOVE_THE_ROOF:
        return known.model_copy(update={**found, "percent": percent})
    detail = (
        f"{result.timing.median_us:.4g} us would be {percent:.1f} % of the roof, and at most {ABOVE_THE_ROOF:.0f} %"
        " can be: its bytes, its time or the ceiling is wrong, so no share is given"
    )
    return known.model_copy(update={**found, "reason": ReasonCode.ABOVE_THE_ROOF, "detail": detail})


def case_roofs(measurement: Measurement) -> tuple[CaseRoof, ...]:
    sheet = for_runner(measurement.runner)
    return tuple(case_roof(result, sheet) for result in measurement.cases)


def may_do_nothing(suite: Suite) -> frozenset[str]:
    """Where the gradient of a loss is 1 the forward pass may have made all that the backward pass returns: no memory
    limits how fast that is."""
    return frozenset(case.id for case in suite.cases if case.grad == "one")


def roof_percent(measurement: Measurement, suite: Suite, cases: Collection[str]) -> float | None:
    """Weighted geometric mean over these cases, but for those that have nothing to move; None as soon as one of the
    others has no share."""
    weights, idle = {case.id: case.weight for case in suite.cases}, may_do_nothing(suite)
    logs, total = 0.0, 0.0
    for roof in case_roofs(measurement):
        is_free = roof.case in idle and (roof.minimum_bytes <= 0 or roof.reason is ReasonCode.ABOVE_THE_ROOF)
        if roof.case not in cases or is_free:
            continue
        if roof.percent is None:
            return None
        logs += weights[roof.case] * math.log(roof.percent)
        total += weights[roof.case]
    return math.exp(logs / total) if total > 0 else None


def above_the_roof(measurement: Measurement) -> tuple[tuple[str, float], ...]:
    """Cases that claim to be faster than the datasheet's bandwidth lets their bytes be moved."""
    sheet = for_runner(measurement.runner)
    ceiling = _bandwidth(sheet)
    shares = (
        (result.case, 100.0 * _memory_us(result, ceiling) / result.timing.median_us)
        for result in measurement.cases
        if ceiling is not None and result.timing is not None and result.minimum_bytes > 0
    )
    return tuple((case, share) for case, share in shares if not share <= ABOVE_THE_ROOF)
