"""Why a kernel is slow: by the GPU's own counters where there are any, else where the model says its time goes.

Each conclusion is told as evidence -> inference -> action. Without counters the whole of it is a heuristic and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from bot.analysis import clues, symptoms
from bot.analysis.clues import SPILLS_HURT, Spent, spent_on
from bot.analysis.estimate import timed
from bot.analysis.growth import of_sizes
from bot.analysis.roofline import case_roofs, roof_percent
from bot.analysis.strategies import AIMS, STRATEGIES, UNHIDDEN, plan
from bot.analysis.tiers import tier_of
from bot.hardware.catalog import Datasheet
from bot.model.diagnosis import Bottleneck, Clue, Diagnosis
from bot.model.measurement import Evidence as Kind
from bot.model.measurement import Measurement, Suite, Survey
from bot.model.profiling import Counters, KernelCounters, Timeline
from bot.model.variant import SourceFile

DOMINATES = 0.6
"""A class is named when it takes this share (T-02, T-03); otherwise the kernel is balanced."""
GPU_IDLE, GPU_BUSY = 0.3, 0.6
"""Share of a pass that the GPU works: below the first the host comes first, above the second the kernels do (T-07)."""


@dataclass(frozen=True, slots=True)
class Shares:
    memory: float
    excess: float
    """The part of `memory` that is traffic beyond the least."""
    waiting: float
    issue: float
    spills: float
    fixed: float

    def named(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def largest(self, count: int) -> list[tuple[str, float]]:
        parts = [(name, share) for name, share in self.named().items() if name != "excess"]
        return sorted(parts, key=lambda part: -part[1])[:count]


def _slowness(baseline: Measurement, spent: Sequence[Spent]) -> dict[str, float]:
    """How much longer each case took by the clock than by the model; 1 where no clock read it."""
    modelled: dict[str, float] = {}
    for one in spent:
        modelled[one.case.id] = modelled.get(one.case.id, 0.0) + one.cost.total
    timed_us = {case.case: case.timing.median_us for case in baseline.cases if case.timing is not None}
    return {case: timed_us.get(case, us) / us for case, us in modelled.items()}


def _parts(one: Spent, slowness: float) -> dict[str, float]:
    """Shares of one launch. Bytes take what they take; what a clock found beyond that goes to the other parts."""
    total = one.cost.total * slowness
    memory = min(1.0, one.cost.memory / total)
    others = {part: getattr(one.cost, part) for part in UNHIDDEN}
    others["fixed"] = max(0.0, one.cost.total - one.cost.memory - math.fsum(others.values()))
    whole = math.fsum(others.values())
    left = 1 - memory
    return {"memory": memory} | {part: left * us / whole if whole else 0.0 for part, us in others.items()}


def _shares(spent: Sequence[Spent], baseline: Measurement) -> Shares | None:
    """Mean over the launches, each weighing the same: the longest case must not speak for all."""
    if not spent:
        return None
    slowness = _slowness(baseline, spent)
    factors = {case.case: case.traffic_factor for case in baseline.cases}
    found = [_parts(one, slowness[one.case.id]) for one in spent]
    beyond = [max(0.0, 1 - 1 / factors[one.case.id]) if factors.get(one.case.id) else 0.0 for one in spent]
    excess = math.fsum(parts["memory"] * more for parts, more in zip(found, beyond, strict=True))
    means = {name: math.fsum(parts[name] for parts in found) / len(found) for name in found[0]}
    return Shares(**means, excess=excess / len(found))


def time_of_cases(found: Measurement, suite: Suite, sheet: Datasheet) -> dict[str, dict[str, float]]:
    """Of each case the parts of its time, each launch as heavy as it is long."""
    spent = spent_on(found, suite, sheet)
    slowness = _slowness(found, spent)
    told: dict[str, dict[str, float]] = {}
    for case in dict.fromkeys(one.case.id for one in spent):
        mine = [one for one in spent if one.case.id == case]
        whole = math.fsum(one.cost.total for one in mine)
        parts = [(one.cost.total / whole, _parts(one, slowness[case])) for one in mine]
        told[case] = {name: math.fsum(weight * of[name] for weight, of in parts) for name in parts[0][1]}
    return told


def _beside(baseline: Measurement, timelines: Sequence[Timeline]) -> float:
    """The share of the GPU's work that kernels of others do, mean over the cases that launch one of ours."""
    ours = {launch.kernel for case in baseline.cases for launch in case.launches}
    mine = [(sum(one.us for one in line.kernels if one.kernel in ours), line.busy_us) for line in timelines]
    shares = [1 - min(1.0, us / busy) for us, busy in mine if us and busy]
    return math.fsum(shares) / len(shares) if shares else 0.0


def _class(shares: Shares) -> Bottleneck:
    if shares.spills >= SPILLS_HURT:
        return Bottleneck.RESOURCE
    if shares.memory >= DOMINATES:
        return Bottleneck.MEMORY
    if shares.fixed + shares.waiting >= DOMINATES:
        return Bottleneck.LAUNCH if shares.fixed >= shares.waiting else Bottleneck.LATENCY
    if shares.issue >= DOMINATES:
        return Bottleneck.COMPUTE
    return Bottleneck.BALANCED


SAYS = {
    "memory": "moving its bytes",
    "waiting": "waiting for latency that nothing hides",
    "issue": "instructions that nothing hides",
    "spills": "spilled registers",
    "fixed": "the launch itself",
}


def _and_others(case: str, count: int) -> str:
    return case if count == 1 else f"{case} and {count - 1} more case{'s' if count > 2 else ''}"


def _of_timelines(timelines: Sequence[Timeline]) -> list[Clue]:
    """One clue for each thing that is seen, told of the case in which it is worst."""
    found = []
    waiting = [one for one in timelines if one.waits]
    if waiting:
        most = max(waiting, key=lambda one: one.waits)
        times = "once" if most.waits == 1 else f"{most.waits} times"
        found.append(Clue(
            evidence=f"{_and_others(most.case, len(waiting))}: the host waits for the GPU {times} a pass",
            inference="nothing is queued while it waits",
            action="no value of the GPU on the host's path",
            confidence="high", basis="timeline",
        ))  # fmt: skip
    idle = [one for one in timelines if one.busy_us < GPU_BUSY * one.wall_us]
    if idle:
        least = min(idle, key=lambda one: one.busy_us / one.wall_us)
        busy = least.busy_us / least.wall_us
        found.append(Clue(
            evidence=f"{_and_others(least.case, len(idle))}: the GPU works {least.busy_us:.1f} us of"
            f" {least.wall_us:.1f} us a pass ({busy:.0%}), {least.gap_us:.1f} us of the rest between its kernels",
            inference="the host does not hand out work as fast as it is done",
            action="fewer launches a pass, less Python around them",
            confidence="high" if busy < GPU_IDLE else "medium", basis="timeline",
        ))  # fmt: skip
    return found


def _host_bound(timelines: Sequence[Timeline]) -> bool:
    return bool(timelines) and all(one.busy_us < GPU_IDLE * one.wall_us for one in timelines)


def _profiled(counters: Counters | None) -> tuple[KernelCounters, float] | None:
    read = counters is not None and counters.status == "read"
    return symptoms.dominant(counters.kernels) if counters is not None and read else None


def _of_counters(kernel: KernelCounters, share: float) -> str:
    reading = symptoms.Reading(kernel)
    compute, memory = reading.get("compute"), reading.get("memory")
    told = f"{kernel.kernel} takes {share:.0%} of the profiled time; memory at {memory:.0f} % and compute at"
    told += f" {compute:.0f} % of their peaks (Nsight Compute)"
    waits = symptoms.stalls(kernel, 1)
    return told + (f"; most warps wait for {symptoms.WAITS[waits[0][0]]}" if waits else "")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything a diagnosis may rest on beside the measurement of the untouched kernel."""

    surveys: Sequence[Survey] = ()
    sources: Sequence[SourceFile] = ()
    kernel: str = ""
    counters: Counters | None = None
    timelines: Sequence[Timeline] = ()
    fits: frozenset[str] | None = None
    """Names of the strategies that find something to change in the sources; None where nobody looked."""


def _clues(
    baseline: Measurement, suite: Suite, sheet: Datasheet, spent: Sequence[Spent], known: Evidence
) -> list[Clue]:
    """The GPU's own word first, then what the compiler and the interpreter say, then the model's."""
    counted = known.counters.kernels if known.counters is not None and known.counters.status == "read" else ()
    of_counters = [clue for kernel in _once(counted) for clue in symptoms.symptoms(kernel)]
    facts = [*clues.of_launches(spent, sheet), *clues.of_traffic(baseline), *clues.of_launch_counts(baseline)]
    facts += clues.of_others(baseline, known.sources)
    general = [clue for kernel in _once(counted) for clue in symptoms.symptoms(kernel, symptoms.IN_GENERAL)]
    surveyed = _surveyed(baseline, suite, sheet, known)
    sized = [] if counted else of_sizes(baseline, suite)
    return [*of_counters, *_of_timelines(known.timelines), *sized, *facts, *surveyed, *general]


def _surveyed(baseline: Measurement, suite: Suite, sheet: Datasheet, known: Evidence) -> list[Clue]:
    return clues.of_surveys(baseline, suite, sheet, known.surveys)


def _once(counted: Sequence[KernelCounters]) -> list[KernelCounters]:
    """The longest launch of each kernel."""
    longest: dict[str, KernelCounters] = {}
    for one in counted:
        best = longest.get(one.kernel)
        time = symptoms.Reading(one).get("time") or 0.0
        if best is None or time > (symptoms.Reading(best).get("time") or 0.0):
            longest[one.kernel] = one
    return list(longest.values())


def _impossible(baseline: Measurement) -> list[Clue]:
    """A share of the roof that cannot be is said, with its code, and never shown as one."""
    return [
        Clue(
            evidence=f"{roof.case}: {roof.detail} ({roof.reason})",
            inference="a count, a time or a ceiling is wrong",
            action="nothing about its share of the roof is concluded",
            confidence="high",
            basis="counted",
        )
        for roof in case_roofs(baseline)
        if roof.reason is not None
    ]


def diagnose(
    baseline: Measurement,
    suite: Suite,
    sheet: Datasheet,
    surveys: Sequence[Survey] = (),
    known: Evidence | None = None,
) -> Diagnosis:
    """The class of the bottleneck with its evidence, what to try, and how near each case is to its roof."""
    known = known or Evidence(surveys=surveys)
    told, measured = timed(baseline, suite), baseline.runner.evidence is Kind.MEASURED
    spent = spent_on(baseline, suite, sheet)
    shares = _shares(spent, baseline)
    profiled = _profiled(known.counters)
    classified = symptoms.classified(profiled[0]) if profiled else None
    roof = roof_percent(told, suite, {case.id for case in suite.cases})
    unfit = frozenset(AIMS) - known.fits if known.fits is not None else frozenset()
    if profiled and classified:
        kind, certainty = classified
        sentence = _of_counters(*profiled)
    elif shares is not None:
        kind, certainty = _class(shares), "low"
        (name, share), *others = shares.largest(2 if kind is Bottleneck.BALANCED else 1)
        timed_by = "measured time, as estimated," if measured else "estimated time"
        sentence = f"{share:.0%} of the {timed_by} goes into {SAYS[name]}"
        sentence += "".join(f", {share:.0%} into {SAYS[name]}" for name, share in others)
    else:
        kind, certainty = Bottleneck.BALANCED, "low"
        sentence = "No launch could be modelled, so nothing is said about where the time goes"
    if _host_bound(known.timelines):
        kind, certainty = Bottleneck.HOST, "high"
        sentence += "; and the GPU waits for the host in every case of the timeline"
    at_roof = f"; it stands at {roof:.0f} % of the {sheet.gpu}'s roof" if roof is not None else ""
    return Diagnosis(
        bottleneck=kind,
        confidence="measured" if classified else "heuristic",
        certainty=certainty,
        sentence=f"{sentence}{at_roof}.",
        clues=(*_impossible(told), *_clues(baseline, suite, sheet, spent, known)),
        strategies=tuple(name for name in STRATEGIES[kind] if name not in unfit),
        unfit=tuple(name for name in STRATEGIES[kind] if name in unfit),
        roof_percent=roof,
        plan=plan(kind, shares.named() if shares is not None else None, unfit, _beside(baseline, known.timelines)),
        tier=tier_of(known.kernel, known.sources),
        roofs=case_roofs(told),
    )
