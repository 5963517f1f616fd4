"""A simple model of the time of one case, computed from what the compiler and the interpreter say. Never a measurement.

    time of a launch = max(START + programs / multiprocessors x PROGRAM,  FIXED + memory + waiting + issue + spills)

    memory  = bytes / (bandwidth x ACHIEVABLE) x what narrow accesses cost
    waiting = passes x (PASS + BARRIER x warps, where there is a barrier)
    issue   = passes x instructions x INSTRUCTION
    passes  = ceil(programs / (multiprocessors x programs that fit on one)) x blocks that one program walks through
    spills  = spilled bytes x threads x blocks / bandwidth x SPILL_MEMORY, SPILL_CACHE where all fit in the L2

The bytes of a case are its minimum bytes times the traffic factor that the interpreter counted, shared among its
launches by the memory each was handed. Its matrix products are added at the peak of the tensor cores. Waiting and
issue are what neighbours cannot hide: they shrink when more programs fit beside each other.

The constants were fitted to 478 launches on one H200 (docs/results/h200/model, median error 8 %) and checked on 68 of
other kernels and types (median error 5 %). Settings chosen by it are 1.3 to 1.5 % slower than the best ones.
Weak where it was not fitted: unaligned rows (too fast by up to 2x), tensor cores, atomics, library kernels beside
ours, inputs that a cache holds, and other chips, for which the H200's latencies stand. docs/model.md says more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bot.analysis.occupancy import occupancy
from bot.hardware.catalog import Datasheet, for_runner
from bot.model.measurement import Case, CaseResult, Evidence, Launch, Measurement, Runner, Suite, Survey, Timing

FIXED_US = 1.35
"""From the launch to the first byte and from the last byte to the end."""
START_US = 1.0
PROGRAM_US = 0.0806
"""A multiprocessor takes a new program no faster: 65,536 empty programs took 40.2 us on 132 of them."""
ACHIEVABLE = 0.935
"""Share of the datasheet's bandwidth that the memory term reaches; the other terms are added on top."""
PASS_US = 0.19
INSTRUCTION_US = 0.00119
"""2.36 cycles of a 1980 MHz clock for each instruction of a warp."""
BARRIER_US = 0.0175
"""For each warp that has to meet the others."""
LEAST_BYTES = 2
"""Of an element that a scored case is made of."""
SPILL_MEMORY = 1.11
SPILL_CACHE = 0.19
NARROW = ((16, 1.25), (32, 1.1))
"""Widest access in bits, and what it costs: rows that cannot be read 16 bytes at a time took 1.0 to 1.8 x as long."""


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """Where the time of one launch goes, in microseconds."""

    fixed: float
    memory: float
    waiting: float
    """Latency and barriers that no neighbour hides."""
    issue: float
    """Instructions of a warp, one after another."""
    spills: float
    floor: float
    """The launch cannot be shorter: programs start one by one."""

    @property
    def total(self) -> float:
        return max(self.floor, self.fixed + self.memory + self.waiting + self.issue + self.spills)


def block_of(launch: Launch) -> int | None:
    """Elements one program works on at a time: the product of its constants named like a block."""
    sizes = [int(value) for name, value in launch.constants if "BLOCK" in name.upper() and value.isdecimal()]
    return math.prod(sizes) if sizes and all(sizes) else None


def programs_of(launch: Launch) -> int:
    return max(1, math.prod(max(1, size) for size in launch.grid))


def blocks_walked(launch: Launch, case: Case) -> int:
    """Blocks that one program goes through: the elements of the case over those that all programs hold at once. Sizes
    that are summed over, as those of a projection, are not of one matrix: no launch walks more than it was handed."""
    block = block_of(launch)
    if block is None:
        return 1
    elements = math.prod(max(1, size) for _, size in case.shape)
    elements = min(elements, max(1, launch.tensor_bytes // LEAST_BYTES))
    return max(1, -(-elements // (programs_of(launch) * block)))


def _width_cost(launch: Launch) -> float:
    bits = launch.resources.load_bits if launch.resources else 0
    return next((cost for width, cost in NARROW if 0 < bits <= width), 1.0)


def _spill_us(launch: Launch, side_by_side: float, walked: int, sheet: Datasheet) -> float:
    assert launch.resources is not None and sheet.bytes_per_us is not None
    threads = max(1, launch.num_warps) * (sheet.number("threads_per_warp") or 32)
    spilled = max(0, launch.resources.spill_bytes) * threads
    # Half of the traffic is stores: that much lies somewhere at one time.
    held = spilled / 2 * side_by_side
    fits = sheet.l2 is not None and held <= sheet.l2.value * 2**20
    share = SPILL_CACHE if fits else SPILL_MEMORY
    return spilled * programs_of(launch) * walked / sheet.bytes_per_us * share


def launch_cost(launch: Launch, moved_bytes: float, case: Case, sheet: Datasheet) -> LaunchCost | None:
    """None where the model has nothing to stand on: no binary, or a chip without a published bandwidth."""
    if launch.resources is None or sheet.bytes_per_us is None or sheet.multiprocessors is None:
        return None
    processors = int(sheet.multiprocessors.value)
    programs, walked = programs_of(launch), blocks_walked(launch, case)
    fit = min(occupancy(launch, sheet).programs, -(-programs // processors))
    passes = -(-programs // (processors * fit)) * walked
    barrier = BARRIER_US * max(1, launch.num_warps) if launch.resources.barriers > 0 else 0.0
    return LaunchCost(
        fixed=FIXED_US,
        memory=max(0.0, moved_bytes) / (sheet.bytes_per_us * ACHIEVABLE) * _width_cost(launch),
        waiting=passes * (PASS_US + barrier),
        issue=passes * max(0, launch.resources.instructions) * INSTRUCTION_US,
        spills=_spill_us(launch, min(programs, fit * processors), walked, sheet),
        floor=START_US + programs / processors * PROGRAM_US,
    )


def case_costs(
    launches: tuple[Launch, ...], moved_bytes: float, case: Case, sheet: Datasheet
) -> tuple[LaunchCost, ...] | None:
    """The cost of each launch, or None when one of them cannot be modelled."""
    handed = sum(max(0, launch.tensor_bytes) for launch in launches)
    costs = []
    for launch in launches:
        share = max(0, launch.tensor_bytes) / handed if handed else 1 / len(launches)
        cost = launch_cost(launch, moved_bytes * share, case, sheet)
        if cost is None:
            return None
        costs.append(cost)
    return tuple(costs) or None


def moved_bytes(launches: tuple[Launch, ...], facts: CaseResult) -> float:
    """Where a case need not move any there is nothing to take a multiple of: then all that is handed to launches."""
    if facts.minimum_bytes > 0:
        return facts.minimum_bytes * facts.traffic_factor
    return sum(max(0, launch.tensor_bytes) for launch in launches)


def _products_us(facts: CaseResult, sheet: Datasheet) -> float:
    """Matrix products take at least this long, in a library's kernel beside ours or in ours."""
    peak = sheet.bf16 or sheet.fp16
    return facts.matrix_flops / (1e6 * peak.value) if peak is not None else 0.0


def _total(launches: tuple[Launch, ...], facts: CaseResult, case: Case, sheet: Datasheet) -> float | None:
    try:
        costs = case_costs(launches, moved_bytes(launches, facts), case, sheet)
        total = math.fsum((*(cost.total for cost in costs), _products_us(facts, sheet))) if costs else None
    except (OverflowError, ZeroDivisionError):  # facts come from a job that ran hostile code
        return None
    return total if total is not None and math.isfinite(total) else None


def _others_us(facts: CaseResult, sheet: Datasheet) -> float | None:
    """A pass in which nothing of ours is launched, as the product with the loss's gradient: others move its bytes."""
    if sheet.bytes_per_us is None or facts.minimum_bytes <= 0:
        return None
    try:
        us = FIXED_US + facts.minimum_bytes * facts.traffic_factor / (sheet.bytes_per_us * ACHIEVABLE)
    except OverflowError:  # facts come from a job that ran hostile code
        return None
    return us if math.isfinite(us) else None


def estimate_case(facts: CaseResult, case: Case, sheet: Datasheet) -> float | None:
    """Microseconds of one case, estimated; None when the facts do not allow it. The backward pass of a loss may launch
    nothing where its gradient is 1, and is counted as what a launch takes at least."""
    if case.grad == "one" and not facts.launches:
        return START_US
    if not facts.launches:
        return _others_us(facts, sheet)
    return _total(facts.launches, facts, case, sheet)


def estimate_survey(survey: Survey, baseline: CaseResult, case: Case, sheet: Datasheet) -> float | None:
    """Microseconds of one case under other launch numbers. They do not change the bytes: those are the baseline's."""
    if survey.error:
        return None
    return _total(survey.launches, baseline, case, sheet)


def estimated(measurement: Measurement, suite: Suite, sheet: Datasheet) -> Measurement:
    """The measurement with every timing replaced by the model's; what cannot be modelled has none."""
    cases = {case.id: case for case in suite.cases}
    filled = []
    for facts in measurement.cases:
        us = estimate_case(facts, cases[facts.case], sheet) if facts.case in cases else None
        timing = Timing(median_us=us, timer="model") if us is not None else None
        filled.append(facts.model_copy(update={"timing": timing}))
    return measurement.model_copy(update={"cases": tuple(filled)})


Price = Callable[[Survey, CaseResult, Case], float | None]
"""What a surveyed setting would cost one case."""


def price_on(runner: Runner) -> Price:
    """For rooms that have no business with datasheets."""
    sheet = for_runner(runner)
    return lambda survey, baseline, case: estimate_survey(survey, baseline, case, sheet)


def timed(measurement: Measurement, suite: Suite) -> Measurement:
    """A measurement with times to compare: a GPU's own, or the model's where no GPU was there."""
    if measurement.runner.evidence is Evidence.MEASURED:
        return measurement
    return estimated(measurement, suite, for_runner(measurement.runner))
