"""What a race promises of an idea: whether a round may accept it, in the words of the campaign's goal."""

from __future__ import annotations

from collections.abc import Mapping

from bot.analysis.paired import MIN_GAIN, MOST_SLOWER, NON_TARGET
from bot.analysis.stats import geometric_mean, value_of
from bot.model.commands import Goal
from bot.model.grouping import Group, primary_groups
from bot.model.measurement import Measurement
from bot.model.race import Lap, Race, Racer
from bot.proposers.brief import Brief

NEARLY = 0.7
"""The share of what a variant has to gain that a race has to promise: its figures are of one process."""
WORTH_A_ROUND = 1 + NEARLY * MIN_GAIN
TOO_SLOW = 1 - 2 * MOST_SLOWER
"""A case that a race saw below this is slower than any verdict lets it be. Not stricter: one process has its own luck,
and on an H200 an idea that leaves a pass as it is came home 3 % behind in it."""


def _step_us(times: Mapping[str, float], group: Group, ratios: Mapping[str, float]) -> tuple[float, float]:
    """A step as it is, and with each pass so many times faster; (0, 0) where a pass has no time."""
    if not all(case.id in times for case in group.cases):
        return 0.0, 0.0
    now = [times[case.id] for case in group.cases]
    then = [times[case.id] / ratios.get(case.id, 1.0) for case in group.cases]
    return sum(now), sum(then)


def medians(facts: Measurement) -> dict[str, float]:
    return {case.case: case.timing.median_us for case in facts.cases if case.timing is not None}


def score(brief: Brief, times: Mapping[str, float], ratios: Mapping[str, float], memory: float = 1.0) -> float:
    """What the goal makes of cases that take so long, each so many times faster, with so many times less memory."""
    steps = [(group.weight, *_step_us(times, group, ratios)) for group in primary_groups(brief.suite, brief.scope)]
    known = [(weight, now / then) for weight, now, then in steps if now and then]
    if not known:
        return 1.0
    speed = geometric_mean([ratio for _, ratio in known], [weight for weight, _ in known])
    return value_of(speed, memory, brief.goal)


def _spared(brief: Brief, now: Mapping[str, Lap], then: Mapping[str, Lap]) -> float:
    """How many times less memory the hungriest pass of a step needs; 1 where nobody counted all of them. Of a pass that
    one did not run in nobody expects another."""
    then = {**now, **then}
    both = [
        (group.weight, *(max(at[c.id].peak_bytes if c.id in at else 0 for c in group.cases) for at in (now, then)))
        for group in primary_groups(brief.suite, brief.scope)
    ]
    counted = [(weight, before / after) for weight, before, after in both if before and after]
    if len(counted) < len(both) or not counted:
        return 1.0
    return geometric_mean([ratio for _, ratio in counted], [weight for weight, _ in counted])


def _over_itself(brief: Brief, race: Race, racer: Racer) -> float | None:
    """Laps are v0's time over one's own, and the times are v0's too."""
    if racer.left or race.itself is None:
        return None
    now, then = ({lap.case: lap for lap in one.laps} for one in (race.itself, racer))
    times = {case: us / now[case].speedup for case, us in medians(brief.baseline).items() if case in now}
    ratios = {case: lap.speedup / now[case].speedup for case, lap in then.items() if case in now}
    return score(brief, times, ratios, _spared(brief, now, then))


def _at_worst(racer: Racer) -> float:
    """The case that it surely slows down most, v0's time over its own."""
    return min((lap.high for lap in racer.laps), default=1.0)


def _is_hungry(brief: Brief, racer: Racer) -> bool:
    """Whether a case needs more memory than any verdict lets it."""
    before = {one.case: one.memory_bytes for one in brief.baseline.cases if one.memory_bytes}
    grown = any(lap.peak_bytes > before[lap.case] * NON_TARGET for lap in racer.laps if lap.case in before)
    return grown and brief.goal is not Goal.MEMORY


def of(brief: Brief, technique: str) -> float | None:
    """What the last race that this idea ran in made of it over what it was held against. None where it ran in none, did
    not come home, or has had a round since the opening: what it gives a second time nobody saw. Who launches what the
    source as it stands does, or another of the race, has nothing to give of its own. Where a case is slower
    than any verdict lets it be, no more than that, and nothing of one that spills where nothing did or needs more
    memory than is allowed: whatever else it gains, it would be refused."""
    had_a_round = bool(brief.rounds_with(technique))
    for race in (brief.race, brief.opening if not had_a_round else None):
        racer = next((one for one in race.others if one.idea == technique), None) if race is not None else None
        if race is not None and racer is not None:
            if racer.is_nothing_new:
                return 1.0
            promised, worst = _over_itself(brief, race, racer), _at_worst(racer)
            if promised is not None and (racer.spills or _is_hungry(brief, racer)):
                return 0.0
            pays = promised is not None and worst < TOO_SLOW and brief.goal is not Goal.MEMORY
            return min(promised, worst) if promised is not None and pays else promised
    return None
