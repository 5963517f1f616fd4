"""No case may pay for another: what was asked about (P-46, C-06), and what was not asked about (L-48)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bot.analysis.paired import MOST_SLOWER, NON_TARGET, Estimate, clearly_slower
from bot.guardrails.hearing import ROUNDING, Weighed, note, reject
from bot.model.commands import Goal
from bot.model.grouping import Group, primary_groups
from bot.model.measurement import Measurement
from bot.model.verdict import CaseScore, Finding

NAME = "regression"
MEMORY = "memory"
"""What is said of memory alone goes by its own name: nothing has become slower."""
MOST_WORSE = 0.05
"""A shape that loses this share of what was asked about is rejected, less is a note (BC-03)."""
NOTED = 0.98
"""Two-sided: the one-sided 99 % that a rejection asks for."""
SHOWN = 5e-5
"""A loss below this share would be printed as 0.00 %."""
SHOWN_OF_MEMORY = 5e-4
"""And below this one as +0.0 %: a flag of four bytes beside 16 MiB is nobody's decision."""


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count} B"


def _memory(measurement: Measurement) -> dict[str, int]:
    return {result.case: result.memory_bytes for result in measurement.cases}


def _quotient(before: float, after: float) -> float:
    """Above 1 is better; NaN, which passes no limit, where the numbers are none."""
    return before / after if before > 0 and after > 0 else math.nan


def _speed_kept(weighed: Weighed, group: Group) -> float:
    names = {case.id for case in group.cases}
    cases = [case for case in weighed.score.cases if case.case in names]
    return _quotient(math.fsum(case.before_us for case in cases), math.fsum(case.after_us for case in cases))


def _memory_kept(weighed: Weighed, group: Group) -> float:
    """A step needs as much as its hungriest pass; nothing counts as one byte."""
    before, after = _memory(weighed.hearing.baseline), _memory(weighed.hearing.candidate)
    names = [case.id for case in group.cases]
    return _quotient(max(1, *(before.get(n, 0) for n in names)), max(1, *(after.get(n, 0) for n in names)))


def _kept(weighed: Weighed, group: Group) -> float:
    match weighed.hearing.goal:
        case Goal.SPEED:
            return _speed_kept(weighed, group)
        case Goal.MEMORY:
            return _memory_kept(weighed, group)
        case Goal.BALANCED:
            return math.sqrt(_speed_kept(weighed, group) * _memory_kept(weighed, group))


WORTH = {Goal.SPEED: "speed", Goal.MEMORY: "memory score", Goal.BALANCED: "speed and memory score"}


def _primary(weighed: Weighed) -> Iterator[Finding]:
    for group in primary_groups(weighed.hearing.suite, weighed.hearing.scope):
        lost = 1 - _kept(weighed, group)
        if not lost < MOST_WORSE - ROUNDING:
            name = " + ".join(case.id for case in group.cases)
            message = (
                f"{name} loses {100 * lost:.2f} % of v0's {WORTH[weighed.hearing.goal]}; it has to be less than 5 %"
            )
            yield reject(NAME, message, group.cases[0].id)


def too_slow(weighed: Weighed) -> dict[str, int]:
    """Cases that are slower beyond doubt, asked about or not, scored or of a size that nobody named, and how many
    processes say so.

    Where memory alone was asked for, time may be paid for it.
    """
    if weighed.hearing.goal is Goal.MEMORY:
        return {}
    found = {name: reading.estimate for name, reading in (weighed.readings() | weighed.unseen()).items()}
    held = zip(found, clearly_slower(list(found.values())), strict=True)
    return {name: len(found[name].processes) for name, is_slower in held if is_slower}


def beyond_doubt(processes: int) -> str:
    return f"{processes} fresh processes leave no doubt that it is more than {100 * MOST_SLOWER:.0f} %"


def is_noise(found: Estimate | None) -> bool:
    """A GPU's times differ a little every time: a loss is told only where the interval holds no gain."""
    return found is not None and not found.interval(NOTED)[1] < 0


def _slower(weighed: Weighed, case: CaseScore, found: Estimate | None, processes: int) -> Finding | None:
    message, goal = weighed.case_is_slower(case), weighed.hearing.goal
    if goal is not Goal.SPEED and not case.after_us <= case.before_us * NON_TARGET * (1 + ROUNDING):
        return reject(NAME, f"{message}; with goal={goal} at most 5 % is allowed", case.case)
    if processes:
        return reject(NAME, f"{message}; {beyond_doubt(processes)}", case.case)
    if case.after_us <= case.before_us * (1 + SHOWN) or is_noise(found):
        return None
    return note(NAME, message, case.case)


def _hungrier(weighed: Weighed, name: str, before: int, after: int) -> Finding | None:
    share = f"{100 * (after / before - 1):+.1f} % memory" if before > 0 else "memory where v0 needs none"
    message, goal = f"{name} needs {share} ({_mib(after)}, v0 {_mib(before)})", weighed.hearing.goal
    if goal is not Goal.MEMORY and not after <= max(before, 0) * NON_TARGET * (1 + ROUNDING):
        return reject(MEMORY, f"{message}; with goal={goal} at most 5 % is allowed", name)
    return note(MEMORY, message, name) if after > before * (1 + SHOWN_OF_MEMORY) else None


def memory(weighed: Weighed) -> list[Finding]:
    before, after = _memory(weighed.hearing.baseline), _memory(weighed.hearing.candidate)
    found = [_hungrier(weighed, name, before[name], after[name]) for name in before if name in after]
    return [finding for finding in found if finding is not None]


def regression(weighed: Weighed) -> list[Finding]:
    estimates = {name: reading.estimate for name, reading in weighed.readings().items()}
    slow = too_slow(weighed)
    found = [_slower(weighed, case, estimates.get(case.case), slow.get(case.case, 0)) for case in weighed.score.cases]
    return [*_primary(weighed), *(finding for finding in found if finding is not None)]
