"""Nothing moves its bytes faster than memory can: such a number is a fault of ours or a cheat, never a win (E20)."""

from __future__ import annotations

from bot.analysis.estimate import timed
from bot.analysis.roofline import ABOVE_THE_ROOF, above_the_roof
from bot.guardrails.hearing import Weighed, reject
from bot.model.verdict import Finding

NAME = "implausible"


def implausible(weighed: Weighed) -> list[Finding]:
    findings = []
    for case in weighed.score.cases:
        if not (case.after_us > 0 and case.before_us > 0 and case.speedup > 0 and case.memory_ratio > 0):
            message = f"{case.case}: {case.after_us} us against v0's {case.before_us} us is nothing a clock can say"
            findings.append(reject(NAME, message, case.case))
    for name, percent in above_the_roof(timed(weighed.hearing.candidate, weighed.hearing.suite)):
        message = (
            f"{name} would run at {percent:.0f} % of what the memory can do; at most {ABOVE_THE_ROOF:.0f} % is possible"
        )
        findings.append(reject(NAME, message, name))
    return findings
