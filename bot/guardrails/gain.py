"""A variant has to beat the best so far by at least 1 % (BC-04); the same program under another text beats nobody."""

from __future__ import annotations

from bot.analysis.measured import controls
from bot.analysis.paired import MIN_GAIN, effective_min_gain
from bot.guardrails.hearing import ROUNDING, Weighed, note
from bot.model.commands import Goal
from bot.model.measurement import CaseResult, Evidence
from bot.model.verdict import Finding

NAME = "gain"
WORTH = {
    Goal.SPEED: "speed",
    Goal.MEMORY: "score (memory, goal=memory)",
    Goal.BALANCED: "score (speed and memory, goal=balanced)",
}
"""What is held against the best so far: a score never passes for a speed."""


def asked(weighed: Weighed) -> float:
    """The policy's 1 %, or twice what v0 against itself shows on this machine, whichever is more."""
    if weighed.score.evidence is Evidence.STATIC:
        return MIN_GAIN
    return effective_min_gain(list(controls(weighed.hearing.candidate).values()), MIN_GAIN)


def over_best(weighed: Weighed) -> float:
    """Rounded far below the 1 %, so that whoever compares it with 0.01 draws the same conclusion. v0 is 1."""
    return round(weighed.score.value / max(weighed.hearing.best, 1.0) - 1, 12)


def _program(result: CaseResult) -> tuple[object, ...]:
    """All that a machine could notice: what is launched, how often, and what is moved and held beside it."""
    launches = tuple((launch.binary_digest, launch.grid, launch.num_warps) for launch in result.launches)
    return (result.case, launches, result.traffic_factor, result.memory_bytes)


def _is_unchanged(weighed: Weighed) -> bool:
    before, after = weighed.hearing.baseline.cases, weighed.hearing.candidate.cases
    launches = [launch for result in after for launch in result.launches]
    known = bool(launches) and all(launch.binary_digest for launch in launches)
    return known and {_program(result) for result in before} == {_program(result) for result in after}


def gain(weighed: Weighed) -> list[Finding]:
    if _is_unchanged(weighed):
        return [note(NAME, "the compiled program is v0's: another text, no change")]
    found, least = over_best(weighed), asked(weighed)
    if found >= least - ROUNDING:
        return []
    how = "estimated " if weighed.score.evidence is Evidence.STATIC else ""
    what, why = WORTH[weighed.hearing.goal], f"at least {100 * least:.3g} % is asked"
    return [note(NAME, f"no significant change: {how}{what} {100 * found:+.2f} % over the best so far, {why}")]
