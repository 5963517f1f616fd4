"""What a wrapper costs the caller on the CPU must not grow: a quick kernel behind a slow wrapper is no gain."""

from __future__ import annotations

from bot.guardrails.hearing import ROUNDING, Weighed, reject
from bot.model.measurement import CaseResult
from bot.model.verdict import Finding

NAME = "host_time"
MOST_SHARE, MOST_US = 0.02, 1.0
"""Whichever of the two is larger may be added to a call; exactly as much passes, and so does what fewer than three of
four blocks show."""


def longer(result: CaseResult) -> str:
    """What is wrong with the wrapper's time; empty when nothing is, or nobody read it."""
    times = result.paired.host_us if result.paired is not None else None
    if result.paired is None or times is None:
        return ""
    before, more = times
    if result.paired.host_surely_us <= max(MOST_SHARE * before, MOST_US) * (1 + ROUNDING):
        return ""
    message = f"a call at {result.case} takes {more:.3g} us longer on the host (v0 {before:.4g} us)"
    return f"{message}; 2 % or 1 us may be added, whichever is more"


def host_time(weighed: Weighed) -> list[Finding]:
    found = ((result.case, longer(result)) for result in weighed.hearing.candidate.cases)
    return [reject(NAME, message, case) for case, message in found if message]
