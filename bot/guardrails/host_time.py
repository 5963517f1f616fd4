"""What a wrapper costs the caller on the CPU must not grow: a quick kernel behind a slow wrapper is no gain."""

from __future__ import annotations

from statistics import median

from bot.guardrails.hearing import ROUNDING, Weighed, reject
from bot.model.measurement import Block
from bot.model.verdict import Finding

NAME = "host_time"
MOST_SHARE, MOST_US = 0.02, 1.0
"""Whichever of the two is larger may be added to a call; exactly as much passes."""


def _grown(blocks: tuple[Block, ...]) -> tuple[float, float]:
    """What v0's wrapper takes, and what the variant's takes more: medians over blocks, so that drift cancels."""
    before = median((first + second) / 2 for first, second, _, _ in blocks)
    return before, median((third + fourth - first - second) / 2 for first, second, third, fourth in blocks)


def host_time(weighed: Weighed) -> list[Finding]:
    findings = []
    for result in weighed.hearing.candidate.cases:
        if result.paired is None or not result.paired.host:
            continue
        before, more = _grown(result.paired.host)
        if not more <= max(MOST_SHARE * before, MOST_US) * (1 + ROUNDING):
            message = f"a call at {result.case} takes {more:.3g} us longer on the host (v0 {before:.4g} us)"
            findings.append(reject(NAME, f"{message}; 2 % or 1 us may be added, whichever is more", result.case))
    return findings
