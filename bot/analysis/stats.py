"""Scores: what a variant is worth against the baseline, over every case, and never over some of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bot.analysis.estimate import timed
from bot.analysis.measured import CaseReading, block_timed, is_paired, over_all, read_case, unseen_readings
from bot.analysis.paired import Estimate
from bot.analysis.roofline import roof_percent
from bot.model.commands import Goal, Scope
from bot.model.grouping import Group, primary_groups
from bot.model.measurement import Case, CaseResult, Measurement, Suite
from bot.model.verdict import CaseScore, Score, UnseenScore


class Incomparable(ValueError):
    """Two measurements that may not meet in one ratio; the text says why."""


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Weighted; one value that is not a positive number spoils it all, and says so."""
    weights = [1.0] * len(values) if weights is None else weights
    if not values or not all(value > 0 and math.isfinite(value) for value in values):
        raise Incomparable("a geometric mean needs at least one value, and positive ones only")
    total = math.fsum(weights)
    if not total > 0:
        raise Incomparable("the weights of the cases add up to nothing")
    return math.exp(math.fsum(w * math.log(v) for v, w in zip(values, weights, strict=True)) / total)


def primary_cases(suite: Suite, scope: Scope) -> frozenset[str]:
    return frozenset(case.id for group in primary_groups(suite, scope) for case in group.cases)


def by_case(measurement: Measurement, suite: Suite, what: str) -> dict[str, CaseResult]:
    """Results by case, when they are exactly those of the suite (BC-09)."""
    found = [result.case for result in measurement.cases]
    if len(found) != len(set(found)):
        raise Incomparable(f"{what} reports a case twice")
    wanted = {case.id for case in suite.cases}
    missing, foreign = sorted(wanted - set(found)), sorted(set(found) - wanted)
    if missing or foreign:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"adds {', '.join(foreign)}"] * bool(foreign)
        raise Incomparable(f"{what} {' and '.join(parts)}")
    return {result.case: result for result in measurement.cases}


def microseconds(result: CaseResult, what: str) -> float:
    if result.timing is None:
        raise Incomparable(f"{what} has no time for {result.case}")
    return result.timing.median_us


def _ratio(before: float, after: float) -> float:
    """Above 1 is better. Nothing against nothing is even, and a byte stands in for nothing against something."""
    return max(before, 1.0) / max(after, 1.0)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The baseline and the candidate, case by case."""

    before: dict[str, CaseResult]
    after: dict[str, CaseResult]

    def us(self, cases: Iterable[Case], *, after: bool) -> float:
        side, what = (self.after, "the variant") if after else (self.before, "the baseline")
        return math.fsum(microseconds(side[case.id], what) for case in cases)

    def speedup(self, group: Group) -> float:
        return self.us(group.cases, after=False) / self.us(group.cases, after=True)

    def memory(self, group: Group) -> float:
        """A step needs as much memory as its hungriest pass."""
        before = max(self.before[case.id].memory_bytes for case in group.cases)
        return _ratio(before, max(self.after[case.id].memory_bytes for case in group.cases))

    def case_score(self, case: Case, reading: CaseReading | None = None) -> CaseScore:
        group = Group((case,))
        return CaseScore(
            case=case.id,
            before_us=reading.before_us if reading else self.us((case,), after=False),
            after_us=reading.after_us if reading else self.us((case,), after=True),
            speedup=reading.estimate.ratio if reading else self.speedup(group),
            memory_ratio=self.memory(group),
        )


def value_of(speed: float, memory: float, goal: Goal) -> float:
    """What a goal makes of the two."""
    match goal:
        case Goal.SPEED:
            return speed
        case Goal.MEMORY:
            return memory
        case Goal.BALANCED:
            return math.sqrt(speed * memory)


def case_readings(candidate: Measurement, suite: Suite) -> dict[str, CaseReading]:
    """Every case's blocks against v0; empty where no GPU timed any. Raises Incomparable where some are missing."""
    if not is_paired(candidate):
        return {}
    found = {name: read_case(result) for name, result in by_case(candidate, suite, "the variant").items()}
    if unread := sorted(name for name, reading in found.items() if reading is None):
        raise Incomparable(f"the variant was not timed against v0 at {', '.join(unread)}")
    return {name: reading for name, reading in found.items() if reading is not None}


def estimate_over_all(candidate: Measurement, suite: Suite, scope: Scope) -> Estimate | None:
    """What the blocks say over all that is judged; None where no GPU timed the variant against v0."""
    readings = case_readings(candidate, suite)
    return over_all(primary_groups(suite, scope), readings) if readings else None


def _interval(found: Estimate, memory: float, goal: Goal) -> tuple[float, float] | None:
    """Of the value. Memory is counted, not timed, and has none."""
    bounds = found.bounds
    if goal is Goal.MEMORY or bounds is None:
        return None
    return value_of(bounds[0], memory, goal), value_of(bounds[1], memory, goal)


def score(baseline: Measurement, candidate: Measurement, suite: Suite, scope: Scope, goal: Goal) -> Score:
    """The candidate against the baseline. Raises Incomparable where any case of either is missing or has no time.

    Where a GPU timed both arms block by block, ratios come from the blocks of the fresh processes alone.
    """
    if baseline.runner.evidence is not candidate.runner.evidence or baseline.runner.arch != candidate.runner.arch:
        raise Incomparable("the variant and the baseline were not measured on the same machine")
    before, after = timed(baseline, suite), timed(block_timed(candidate), suite)
    pair = _Pair(by_case(before, suite, "the baseline"), by_case(after, suite, "the variant"))
    groups = primary_groups(suite, scope)
    if not groups:
        raise Incomparable(f"the suite has no case for the scope {scope.value}")
    weights = [group.weight for group in groups]
    readings = case_readings(candidate, suite)
    found = over_all(groups, readings) if readings else None
    speed = found.ratio if found else geometric_mean([pair.speedup(group) for group in groups], weights)
    memory = geometric_mean([pair.memory(group) for group in groups], weights)
    interval = _interval(found, memory, goal) if found else None
    return Score(
        evidence=candidate.runner.evidence,
        value=value_of(speed, memory, goal),
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        speed=speed,
        memory=memory,
        roof_percent=roof_percent(after, suite, primary_cases(suite, scope)),
        cases=tuple(pair.case_score(case, readings.get(case.id)) for case in suite.cases),
        unseen=tuple(unseen_score(name, reading) for name, reading in unseen_readings(candidate).items()),
    )


def unseen_score(name: str, reading: CaseReading) -> UnseenScore:
    low, high = reading.estimate.bounds or (None, None)
    return UnseenScore(
        case=name,
        before_us=reading.before_us,
        after_us=reading.after_us,
        speedup=reading.estimate.ratio,
        low=low,
        high=high,
    )
