"""Nothing moves its bytes faster than memory can: such a number is a fault of ours or a cheat, never a win (E20)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bot.analysis.estimate import timed
from bot.analysis.measured import block_timed
from bot.analysis.roofline import ABOVE_THE_ROOF, above_the_roof, may_do_nothing
from bot.guardrails.gain import asked
from bot.guardrails.hearing import ROUNDING, Hearing, Weighed, info, reject
from bot.model.measurement import Evidence
from bot.model.verdict import CaseScore, Finding

NAME = "implausible"
ABOVE_MEASURED = 1.05
"""How much faster than the measured roof a reading may look; a roof is a reading too."""


def _is_a_number(case: CaseScore) -> bool:
    return case.before_us > 0 and case.after_us > 0 and case.speedup > 0 and case.memory_ratio > 0


def _roof(hearing: Hearing, case: str) -> float | None:
    """The time of a copy of the case's bytes on this GPU, the longer one where both measurements have one."""
    results = (*hearing.baseline.cases, *hearing.candidate.cases)
    return max((one.roof_us for one in results if one.case == case and one.roof_us is not None), default=None)


def _faster_than_a_copy(weighed: Weighed) -> Iterator[Finding]:
    """A copy is no roof where v0, timed with no variant alive, is faster: small ones cost more than their bytes."""
    alone = {one.case: one.timing.median_us for one in weighed.hearing.baseline.cases if one.timing is not None}
    idle = may_do_nothing(weighed.hearing.suite)
    for case in weighed.score.cases:
        roof = _roof(weighed.hearing, case.case)
        if roof is None or case.case in idle or case.after_us >= roof / ABOVE_MEASURED * (1 - ROUNDING):
            continue
        message = f"{case.case} takes {case.after_us:.4g} us, and a plain pass over its bytes {roof:.4g} us"
        if alone.get(case.case, roof) < roof / ABOVE_MEASURED:
            yield info(NAME, f"{message}: v0 alone beats that copy too, so it is no roof", case.case)
        else:
            yield reject(NAME, f"{message}; at most 5 % faster can be", case.case)


def _too_fast(weighed: Weighed) -> Iterator[Finding]:
    """A count of bytes that v0 alone disproves too is no fault of a variant that gains nothing by it."""
    hearing, idle = weighed.hearing, may_do_nothing(weighed.hearing.suite)
    disproved = {name for name, _ in above_the_roof(timed(hearing.baseline, hearing.suite))}
    speedups = {case.case: case.speedup for case in weighed.score.cases}
    for name, percent in above_the_roof(timed(block_timed(hearing.candidate), hearing.suite)):
        if name in idle:
            continue
        message = f"{name} would run at {percent:.1f} % of what the memory can do"
        if name in disproved and speedups.get(name, math.inf) <= 1 + asked(weighed) + ROUNDING:
            yield info(NAME, f"{message}: v0 alone would as well, so its bytes are no floor", name)
        else:
            yield reject(NAME, f"{message}; at most {ABOVE_THE_ROOF:.0f} % can be", name)


def implausible(weighed: Weighed) -> list[Finding]:
    findings = [
        reject(NAME, f"{case.case}: {case.after_us} us, v0 {case.before_us} us: no clock can say that", case.case)
        for case in weighed.score.cases
        if not _is_a_number(case)
    ]
    measured = weighed.score.evidence is Evidence.MEASURED
    return [*findings, *_too_fast(weighed), *(_faster_than_a_copy(weighed) if measured else ())]
