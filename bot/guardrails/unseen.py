"""Sizes that nobody named: none may be clearly slower, and much less gained there than where it is scored is said."""

from __future__ import annotations

from bot.analysis.measured import CaseReading, over_all
from bot.analysis.paired import MIN_GAIN
from bot.guardrails.hearing import ROUNDING, Weighed, note, reject
from bot.guardrails.regression import beyond_doubt, is_noise, too_slow
from bot.model.commands import Goal
from bot.model.grouping import primary_groups
from bot.model.measurement import Case, Suite
from bot.model.verdict import Finding

NAME = "unseen"
KEPT = 0.5
"""Of the gain on what is scored; a variant that has less of it is fitted to those sizes (F13)."""


def _named(case: Case) -> str:
    sizes = ", ".join(f"{name} {size}" for name, size in case.shape)
    ones = " with a gradient of 1" if case.grad == "one" else ""
    return f"{case.direction} of {sizes} in {case.dtype}{ones}, a size that nobody named,"


def _slower(weighed: Weighed, case: Case, reading: CaseReading, processes: int) -> Finding | None:
    message = f"{_named(case)} is {weighed.slower(reading.before_us, reading.after_us)}"
    if processes:
        return reject(NAME, f"{message}; {beyond_doubt(processes)}", case.id)
    return None if is_noise(reading.estimate) else note(NAME, message, case.id)


def _fitted(weighed: Weighed, cases: tuple[Case, ...], readings: dict[str, CaseReading]) -> Finding | None:
    """Said and left to whoever decides: two sizes that were drawn may be two of those where there is little to gain."""
    groups = primary_groups(Suite(name="full", cases=cases, checks=()), weighed.hearing.scope)
    scored = weighed.estimate()
    if not groups or scored is None or weighed.hearing.goal is Goal.MEMORY or scored.gain < MIN_GAIN:
        return None
    found = over_all(groups, readings)
    if found.interval()[1] >= KEPT * scored.mean - ROUNDING:
        return None
    sizes = f"{len(groups)} size{'s' if len(groups) > 1 else ''} that nobody named"
    told = f"{found.ratio:.3g}x on {sizes}, {scored.ratio:.3g}x on those that are scored"
    return note(NAME, f"fitted to the sizes that are scored: {told}; half of that gain is asked")


def unseen(weighed: Weighed) -> list[Finding]:
    readings = weighed.unseen()
    cases = tuple(one.case for one in weighed.hearing.candidate.unseen if one.case.id in readings)
    slow = too_slow(weighed)
    found = [_slower(weighed, case, readings[case.id], slow.get(case.id, 0)) for case in cases]
    gained = _fitted(weighed, cases, readings) if cases else None
    return [finding for finding in (*found, gained) if finding is not None]
