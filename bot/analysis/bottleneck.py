"""Why a kernel is slow: where the model says its time goes, told as evidence -> inference -> action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bot.analysis.estimate import LaunchCost, case_costs, estimate_survey, programs_of, timed
from bot.analysis.occupancy import occupancy
from bot.analysis.roofline import roof_percent
from bot.hardware.catalog import Datasheet
from bot.model.diagnosis import Bottleneck, Clue, Diagnosis
from bot.model.measurement import Case, CaseResult, Launch, Measurement, Suite, Survey

SPILLS_HURT = 0.15
"""Share of the time; below it something else is the story."""
DOMINATES = 0.6
"""A class is named when it takes this share (T-02, T-03); otherwise the kernel is balanced."""
WASTEFUL = 1.25
"""Traffic factor from which an intermediate result is suspected in memory."""
NARROW_BITS = 32
WORTH_SAYING = 0.01

LATE = ("scale_in_kernel", "cache_hints")
STRATEGIES: dict[Bottleneck, tuple[str, ...]] = {
    Bottleneck.MEMORY: (
        *("launch_parameters", "drop_zero_fill", "tile_rows", "walk_rows", "pipeline_rows"),
        *(*LATE, "more_programs", "block_size"),
    ),
    Bottleneck.RESOURCE: (
        *("launch_parameters", "walk_rows", "tile_rows", "pipeline_rows", "more_programs"),
        *("drop_zero_fill", "block_size", *LATE),
    ),
    **dict.fromkeys(
        (Bottleneck.COMPUTE, Bottleneck.BALANCED, Bottleneck.LAUNCH),
        (
            *("launch_parameters", "pipeline_rows", "more_programs", "drop_zero_fill", "tile_rows"),
            *("walk_rows", "block_size", *LATE),
        ),
    ),
}
"""What to try, in order. Launch numbers always come first (T-20): they are cheap to try and easy to read."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One launch of one case, and where its time goes."""

    case: Case
    launch: Launch
    cost: LaunchCost


@dataclass(frozen=True, slots=True)
class Shares:
    memory: float
    waiting: float
    issue: float
    spills: float
    fixed: float

    def largest(self) -> tuple[str, float]:
        named = {name: getattr(self, name) for name in ("memory", "waiting", "issue", "spills", "fixed")}
        name = max(named, key=lambda key: named[key])
        return name, named[name]


def _spent(baseline: Measurement, suite: Suite, sheet: Datasheet) -> tuple[Spent, ...]:
    cases = {case.id: case for case in suite.cases}
    found = []
    for result in baseline.cases:
        case = cases.get(result.case)
        if case is None:
            continue
        costs = case_costs(result.launches, result.minimum_bytes * result.traffic_factor, case, sheet) or ()
        found += [Spent(case, launch, cost) for launch, cost in zip(result.launches, costs, strict=False)]
    return tuple(found)


def _shares(spent: Sequence[Spent]) -> Shares | None:
    """Mean over the launches, each weighing the same: the longest case must not speak for all."""
    if not spent:
        return None

    def mean(part: str) -> float:
        return math.fsum(getattr(one.cost, part) / one.cost.total for one in spent) / len(spent)

    parts = {part: mean(part) for part in ("memory", "waiting", "issue", "spills")}
    return Shares(**parts, fixed=max(0.0, 1 - math.fsum(parts.values())))


def _class(shares: Shares) -> Bottleneck:
    if shares.spills >= SPILLS_HURT:
        return Bottleneck.RESOURCE
    if shares.memory >= DOMINATES:
        return Bottleneck.MEMORY
    if shares.fixed + shares.waiting >= DOMINATES:
        return Bottleneck.LAUNCH
    if shares.issue >= DOMINATES:
        return Bottleneck.COMPUTE
    return Bottleneck.BALANCED


def _worst(spent: Sequence[Spent]) -> tuple[Spent, ...]:
    """For each kernel the case in which least of its time is memory traffic."""
    worst: dict[str, Spent] = {}
    for one in spent:
        known = worst.get(one.launch.kernel)
        if known is None or one.cost.memory / one.cost.total < known.cost.memory / known.cost.total:
            worst[one.launch.kernel] = one
    return tuple(worst.values())


def _spill_clue(one: Spent, sheet: Datasheet) -> Clue | None:
    resources = one.launch.resources
    if resources is None or resources.spill_bytes <= 0:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: {resources.spill_bytes} B of spills a thread"
        f" with {resources.registers} registers on {one.case.id}",
        inference="each thread holds more values than it has registers and keeps the rest in memory",
        action="more warps a program, a smaller block, or tiles of the row",
    )


def _occupancy_clue(one: Spent, sheet: Datasheet) -> Clue | None:
    fit = occupancy(one.launch, sheet)
    processors = int(sheet.number("multiprocessors") or 1)
    beside = min(fit.programs, -(-programs_of(one.launch) // processors))
    warps = beside * one.launch.num_warps
    lost = (one.cost.waiting + one.cost.issue) / one.cost.total
    if fit.most_warps is None or lost < SPILLS_HURT:
        return None
    reason = "the grid has no more" if beside < fit.programs else f"{fit.limit} keep out more"
    return Clue(
        evidence=f"{one.launch.kernel}: {warps} of {fit.most_warps} warps busy on a multiprocessor"
        f" ({beside} x {one.launch.num_warps}, {reason}) on {one.case.id}",
        inference=f"an estimated {lost:.0%} of its time is latency and instructions that no neighbour hides",
        action="more programs side by side, or more warps a program",
    )


def _width_clue(one: Spent, sheet: Datasheet) -> Clue | None:
    bits = one.launch.resources.load_bits if one.launch.resources else 0
    if not 0 < bits <= NARROW_BITS:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: the widest load is {bits} bits on {one.case.id}",
        inference="an access could carry 128: neighbours do not lie in one thread, or rows are unaligned",
        action="at least 128 bits of neighbouring elements a thread",
    )


def _traffic_clues(baseline: Measurement) -> list[Clue]:
    worst = max(baseline.cases, key=lambda case: case.traffic_factor, default=None)
    if worst is None or worst.traffic_factor < WASTEFUL:
        return []
    return [
        Clue(
            evidence=f"{worst.case} moves {worst.traffic_factor:.2f} times the bytes of its inputs and outputs",
            inference="an intermediate result goes through memory",
            action="reduce it inside the kernel, or do not write it",
        )
    ]


def _survey_clues(baseline: Measurement, suite: Suite, sheet: Datasheet, surveys: Sequence[Survey]) -> list[Clue]:
    """The warps that promise most, by kernel. Other blocks are left out: nobody knows yet if they are right."""
    facts, cases = {r.case: r for r in baseline.cases}, {c.id: c for c in suite.cases}
    best: dict[str, tuple[float, Survey]] = {}
    for survey in surveys:
        result = facts.get(survey.case)
        if result is None or result.timing is None or survey.case not in cases or not _same_block(survey, result):
            continue
        us = estimate_survey(survey, result, cases[survey.case], sheet)
        if us is not None:
            kernel, gain = survey.setting.kernel, result.timing.median_us / us - 1
            best[kernel] = max(best.get(kernel, (WORTH_SAYING, survey)), (gain, survey), key=lambda pair: pair[0])
    return [
        Clue(
            evidence=f"{kernel}: {_setting(survey)} is estimated {gain:.0%} faster on {survey.case}",
            inference="the launch numbers are not the best for this shape",
            action="launch numbers that follow the shape",
        )
        for kernel, (gain, survey) in best.items()
        if gain > WORTH_SAYING
    ]


def _same_block(survey: Survey, result: CaseResult) -> bool:
    constants = {(name, int(value)) for name, value in survey.setting.constants}
    recorded = [dict(launch.constants) for launch in result.launches if launch.kernel == survey.setting.kernel]
    return all(all(found.get(name) == str(value) for name, value in constants) for found in recorded)


def _setting(survey: Survey) -> str:
    setting = survey.setting
    numbers = [f"{name} {value}" for name, value in setting.constants]
    numbers += [f"{setting.num_warps} warps"] * (setting.num_warps is not None)
    numbers += [f"{setting.num_stages} stages"] * (setting.num_stages is not None)
    return ", ".join(numbers)


SAYS = {
    "memory": "moving its bytes",
    "waiting": "waiting for latency that nothing hides",
    "issue": "instructions that nothing hides",
    "spills": "spilled registers",
    "fixed": "the launch itself",
}


def diagnose(baseline: Measurement, suite: Suite, sheet: Datasheet, surveys: Sequence[Survey]) -> Diagnosis:
    """The class of the bottleneck with its evidence. Without a profiler it is a heuristic and says so."""
    told = timed(baseline, suite)
    spent = _spent(baseline, suite, sheet)
    shares = _shares(spent)
    if shares is None:
        return Diagnosis(
            bottleneck=Bottleneck.BALANCED,
            confidence="heuristic",
            sentence="No launch could be modelled, so nothing is said about where the time goes.",
            strategies=STRATEGIES[Bottleneck.BALANCED],
        )
    kind, (name, share) = _class(shares), shares.largest()
    roof = roof_percent(told, suite, {case.id for case in suite.cases})
    at_roof = f"; it stands at {roof:.0f} % of the {sheet.gpu}'s roof" if roof is not None else ""
    clues = [clue for one in _worst(spent) for look in LOOKS if (clue := look(one, sheet)) is not None]
    clues += _traffic_clues(baseline) + _survey_clues(told, suite, sheet, surveys)
    return Diagnosis(
        bottleneck=kind,
        confidence="heuristic",
        sentence=f"{share:.0%} of the estimated time goes into {SAYS[name]}{at_roof}.",
        clues=tuple(clues),
        strategies=STRATEGIES[kind],
        roof_percent=roof,
    )


LOOKS = (_spill_clue, _occupancy_clue, _width_clue)
