"""The judge's own wall clock has to tell the same story as the events on the GPU: a clock that lies alone is caught."""

from __future__ import annotations

from collections.abc import Iterator

from bot.guardrails.hearing import ROUNDING, Weighed, reject
from bot.model.verdict import Finding

NAME = "clocks"
MOST_APART = 0.05
"""Wall time holds what events do not: one message and one wait, 0.7 to 1.1 ms beside the 20 ms of work that a run
takes at least (docs/results/h200/spike, part a). That is up to 5 % of it; work left out or moved elsewhere is more."""


def _disagreements(weighed: Weighed) -> Iterator[Finding]:
    for result in weighed.hearing.candidate.cases:
        if result.paired is None or result.paired.burst is None:
            continue
        wall, events = result.paired.burst
        told = f"at {result.case} events say x{events:.3f} of v0's time, the judge's own clock x{wall:.3f}"
        if not (events > 0 and abs(wall / events - 1) <= MOST_APART + ROUNDING):
            yield reject(NAME, f"{told}; at most {100 * MOST_APART:.0f} % may lie between them", result.case)


def clocks(weighed: Weighed) -> list[Finding]:
    return list(_disagreements(weighed))
