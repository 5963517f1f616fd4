"""What compiled kernels, the interpreter and the model of time say of a launch: evidence -> inference -> action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.analysis.estimate import LaunchCost, case_costs, estimate_case, estimate_survey, moved_bytes, programs_of
from bot.analysis.occupancy import occupancy
from bot.hardware.catalog import Datasheet
from bot.model.diagnosis import Clue
from bot.model.measurement import Case, CaseResult, Launch, Measurement, Suite, Survey
from bot.model.variant import SourceFile

SPILLS_HURT = 0.15
"""Share of the time; below it something else is the story."""
WASTEFUL = 1.25
"""Traffic factor from which an intermediate result is suspected in memory."""
NARROW_BITS = 32
WORTH_SAYING = 0.01
MANY_REGISTERS = 128
"""From here a multiprocessor of 65,536 registers holds 16 warps at most (T-09 K)."""
MANY_BARRIERS = 8
FULL = 0.75
"""Share of the warps that fit from which more of them would hide nothing more."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One launch of one case, and where its time goes."""

    case: Case
    launch: Launch
    cost: LaunchCost


def spent_on(baseline: Measurement, suite: Suite, sheet: Datasheet) -> tuple[Spent, ...]:
    cases = {case.id: case for case in suite.cases}
    found = []
    for result in baseline.cases:
        case = cases.get(result.case)
        if case is None:
            continue
        costs = case_costs(result.launches, moved_bytes(result.launches, result), case, sheet) or ()
        found += [Spent(case, launch, cost) for launch, cost in zip(result.launches, costs, strict=False)]
    return tuple(found)


def _beside_memory(one: Spent) -> float:
    """The share of its time that is not memory traffic."""
    return 1 - one.cost.memory / one.cost.total


def _of_spills(one: Spent) -> float:
    return one.launch.resources.spill_bytes if one.launch.resources is not None else 0


def _of_registers(one: Spent) -> float:
    return one.launch.resources.registers if one.launch.resources is not None else 0


def _spills(one: Spent, sheet: Datasheet) -> Clue | None:
    resources = one.launch.resources
    if resources is None or resources.spill_bytes <= 0:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: {resources.spill_bytes} B of spills a thread"
        f" with {resources.registers} registers on {one.case.id}",
        inference="each thread holds more values than it has registers and keeps the rest in memory",
        action="more warps a program, a smaller block, or tiles of the row",
        confidence="high",
        basis="compiled",
    )


def _registers(one: Spent, sheet: Datasheet) -> Clue | None:
    resources = one.launch.resources
    if resources is None or resources.spill_bytes > 0 or resources.registers <= MANY_REGISTERS:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: {resources.registers} registers a thread on {one.case.id}",
        inference=f"more than {MANY_REGISTERS} leave a multiprocessor few warps to switch between",
        action="a smaller block, or more warps for the same block",
        confidence="medium",
        basis="compiled",
    )


def _occupancy(one: Spent, sheet: Datasheet) -> Clue | None:
    fit = occupancy(one.launch, sheet)
    processors = int(sheet.number("multiprocessors") or 1)
    beside = min(fit.programs, -(-programs_of(one.launch) // processors))
    warps = beside * one.launch.num_warps
    lost = (one.cost.waiting + one.cost.issue) / one.cost.total
    if fit.most_warps is None or lost < SPILLS_HURT or warps > FULL * fit.most_warps:
        return None
    reason = "the grid has no more" if beside < fit.programs else f"{fit.limit} keep out more"
    return Clue(
        evidence=f"{one.launch.kernel}: {warps} of {fit.most_warps} warps busy on a multiprocessor"
        f" ({beside} x {one.launch.num_warps}, {reason}) on {one.case.id}",
        inference=f"an estimated {lost:.0%} of its time is latency and instructions that no neighbour hides",
        action="more programs side by side, or more warps a program",
    )


def _width(one: Spent, sheet: Datasheet) -> Clue | None:
    bits = one.launch.resources.load_bits if one.launch.resources else 0
    if not 0 < bits <= NARROW_BITS:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: the widest load is {bits} bits on {one.case.id}",
        inference="an access could carry 128: neighbours do not lie in one thread, or rows are unaligned",
        action="at least 128 bits of neighbouring elements a thread",
        basis="compiled",
    )


def _double(one: Spent, sheet: Datasheet) -> Clue | None:
    if one.launch.resources is None or not one.launch.resources.uses_fp64:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: float64 instructions on {one.case.id}, a case in {one.case.dtype}",
        inference="an unexpected float64: a Python float or a constant widened part of the arithmetic",
        action="keep the constant in float32",
        confidence="high",
        basis="compiled",
    )


def _barriers(one: Spent, sheet: Datasheet) -> Clue | None:
    found = one.launch.resources.barriers if one.launch.resources else 0
    if found < MANY_BARRIERS or one.cost.waiting / one.cost.total < SPILLS_HURT:
        return None
    return Clue(
        evidence=f"{one.launch.kernel}: {found} barriers and {one.launch.num_warps} warps on {one.case.id}",
        inference="all warps of a program meet at each of them, and the slowest is waited for",
        action="fewer reductions, or fewer warps a program",
        confidence="low",
        basis="compiled",
    )


LOOKS: tuple[tuple[Callable[[Spent, Datasheet], Clue | None], Callable[[Spent], float]], ...] = (
    (_spills, _of_spills),
    (_registers, _of_registers),
    (_occupancy, _beside_memory),
    (_width, _beside_memory),
    (_double, _beside_memory),
    (_barriers, _beside_memory),
)
"""What may be said of a launch, and which case of a kernel it is said of: the one that has most of it. A kernel that
spills in one case and waits in another has both told."""


def of_launches(spent: Sequence[Spent], sheet: Datasheet) -> list[Clue]:
    kernels = dict.fromkeys(one.launch.kernel for one in spent)
    launches = [[one for one in spent if one.launch.kernel == kernel] for kernel in kernels]
    said = (look(max(mine, key=most), sheet) for mine in launches for look, most in LOOKS)
    return [clue for clue in said if clue is not None]


def of_others(baseline: Measurement, sources: Sequence[SourceFile]) -> list[Clue]:
    """Kernels that stand in a file of another kernel of the library: nothing here may change them."""
    own = {file.path for file in sources}
    found = {launch.kernel: launch.source_file for case in baseline.cases for launch in case.launches}
    return [
        Clue(
            evidence=f"{kernel} stands in {path}, which is not a file of this kernel",
            inference="others rely on it as it is, so nothing here changes it",
            action="optimise the kernel whose file that is",
            confidence="high",
            basis="compiled",
        )
        for kernel, path in found.items()
        if own and path not in own
    ]


def of_traffic(baseline: Measurement) -> list[Clue]:
    worst = max(baseline.cases, key=lambda case: case.traffic_factor, default=None)
    if worst is None or worst.traffic_factor < WASTEFUL:
        return []
    return [
        Clue(
            evidence=f"{worst.case} moves {worst.traffic_factor:.2f} times the bytes of its inputs and outputs",
            inference="an intermediate result goes through memory",
            action="reduce it inside the kernel, or do not write it",
            confidence="high",
            basis="counted",
        )
    ]


def of_launch_counts(baseline: Measurement) -> list[Clue]:
    """Kernels that follow each other through memory could be one."""
    most = max(baseline.cases, key=lambda case: len(case.launches), default=None)
    if most is None or len(most.launches) < 2:
        return []
    names = ", ".join(dict.fromkeys(launch.kernel for launch in most.launches))
    return [
        Clue(
            evidence=f"{most.case} takes {len(most.launches)} Triton launches ({names})",
            inference="each launch costs its start, and what one hands to the next goes through memory",
            action="one kernel for what can be one",
            confidence="low",
            basis="compiled",
        )
    ]


def of_surveys(baseline: Measurement, suite: Suite, sheet: Datasheet, surveys: Sequence[Survey]) -> list[Clue]:
    """The warps that promise most, by kernel. Other blocks are left out: nobody knows yet if they are right."""
    facts, cases = {r.case: r for r in baseline.cases}, {c.id: c for c in suite.cases}
    best: dict[str, tuple[float, Survey]] = {}
    for survey in surveys:
        result = facts.get(survey.case)
        if result is None or survey.case not in cases or not _same_block(survey, result):
            continue
        # Both by the model, also where a clock read the baseline: a time and an estimate are never divided.
        before = estimate_case(result, cases[survey.case], sheet)
        us = estimate_survey(survey, result, cases[survey.case], sheet)
        if before is not None and us is not None:
            kernel, gain = survey.setting.kernel, before / us - 1
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
    counts = (("warp", setting.num_warps), ("stage", setting.num_stages))
    numbers += [f"{count} {one}" + "s" * (count != 1) for one, count in counts if count is not None]
    return ", ".join(numbers)
