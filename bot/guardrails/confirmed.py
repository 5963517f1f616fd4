"""A measured gain is claimed only where fresh processes bear it out: at least five, and their interval above 0."""

from __future__ import annotations

import math

from bot.analysis.measured import confirmed_processes
from bot.analysis.paired import CONFIRM_PROCESSES, SIGNIFICANCE, Estimate, pace
from bot.guardrails.gain import WORTH, asked
from bot.guardrails.hearing import Weighed, note
from bot.model.commands import Goal
from bot.model.measurement import Evidence
from bot.model.verdict import Finding, Pace

NAME = "confirmed"


def _over_best(weighed: Weighed) -> Estimate | None:
    """The score over the best so far, process by process. None for memory alone, which is counted and not timed."""
    found, goal = weighed.estimate(), weighed.hearing.goal
    if found is None or goal is Goal.MEMORY:
        return None
    best = math.log(max(weighed.hearing.best, 1.0))
    if goal is Goal.SPEED:
        return found.moved(-best)
    return found.moved(math.log(weighed.score.memory or 1.0)).scaled(0.5).moved(-best)


def confirmed(weighed: Weighed) -> list[Finding]:
    if weighed.score.evidence is not Evidence.MEASURED:
        return []
    count = confirmed_processes(weighed.hearing.candidate)
    if count < CONFIRM_PROCESSES:
        how = f"{count} fresh processes" if count else "no fresh process"
        return [
            note(NAME, f"not confirmed: read in {how}, {CONFIRM_PROCESSES} are asked for before anything is claimed")
        ]
    found = _over_best(weighed)
    if found is None or pace(found, asked(weighed)) is not Pace.AMBIGUOUS:
        return []
    low, high = (100 * math.expm1(bound) for bound in found.interval(1 - 2 * SIGNIFICANCE))
    what = WORTH[weighed.hearing.goal]
    told = f"{what} {100 * found.gain:+.2f} % over the best so far, and {low:+.2f} to {high:+.2f} % are possible"
    return [note(NAME, f"ambiguous: {told} after {count} fresh processes")]
