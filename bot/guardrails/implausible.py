"""Nothing moves its bytes faster than memory can: such a number is a fault of ours or a cheat, never a win (E20)."""

from __future__ import annotations

from collections.abc import Iterator

from bot.analysis.estimate import timed
from bot.analysis.roofline import ABOVE_THE_ROOF, above_the_roof
from bot.guardrails.hearing import Weighed, reject
from bot.model.verdict import CaseScore, Finding

NAME = "implausible"


def _is_a_number(case: CaseScore) -> bool:
    return case.before_us > 0 and case.after_us > 0 and case.speedup > 0 and case.memory_ratio > 0


def _too_fast(weighed: Weighed) -> Iterator[Finding]:
    for name, percent in above_the_roof(timed(weighed.hearing.candidate, weighed.hearing.suite)):
        message = f"{name} would run at {percent:.1f} % of what the memory can do"
        yield reject(NAME, f"{message}; at most {ABOVE_THE_ROOF:.0f} % can be", name)


def implausible(weighed: Weighed) -> list[Finding]:
    findings = [
        reject(NAME, f"{case.case}: {case.after_us} us, v0 {case.before_us} us: no clock can say that", case.case)
        for case in weighed.score.cases
        if not _is_a_number(case)
    ]
    return [*findings, *_too_fast(weighed)]
