"""From the readings of each case to the speed-up over all of them, with an interval that the processes carry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from bot.analysis.paired import FEWEST_CONTROL_BLOCKS, Estimate, ProcessMean, combine, estimate, usable
from bot.model.measurement import Case, CaseResult, Evidence, Measurement, Paired, Reading, Timing, Unseen


class CaseGroup(Protocol):
    """The cases that are judged as one step."""

    @property
    def cases(self) -> tuple[Case, ...]: ...
    @property
    def weight(self) -> float: ...


@dataclass(frozen=True, slots=True)
class CaseReading:
    """One case: what both arms took, and what each process made of it."""

    before_us: float
    after_us: float
    estimate: Estimate
    numbers: tuple[int, ...] = ()
    """Which of the fresh processes these are; none where the racing process alone read it, which carries no claim."""

    @property
    def is_confirmed(self) -> bool:
        return bool(self.numbers)


def readings_of(result: CaseResult) -> tuple[Reading, ...]:
    """Those that count: of the fresh processes, or of the one that raced where there are none."""
    if result.paired is None:
        return ()
    return usable(result.paired.confirm) or usable((result.paired.search,))


def _numbers(result: CaseResult) -> tuple[int, ...]:
    confirm = result.paired.confirm if result.paired is not None else ()
    return tuple(number for number, reading in enumerate(confirm) if usable((reading,)))


def read_case(result: CaseResult) -> CaseReading | None:
    """None where nobody read enough blocks. Raises ValueError at a time that is no positive number."""
    readings, times = readings_of(result), block_times(result)
    if result.paired is None or times is None:
        return None
    return CaseReading(
        before_us=times[0],
        after_us=times[1],
        estimate=estimate(readings),
        numbers=_numbers(result),
    )


def unseen_readings(measurement: Measurement) -> dict[str, CaseReading]:
    """Of each size that nobody named and that fresh processes read enough of."""
    if measurement.runner.evidence is not Evidence.MEASURED:
        return {}
    found = {one.case.id: read_case(_as_result(one)) for one in measurement.unseen}
    return {name: reading for name, reading in found.items() if reading is not None}


def _as_result(one: Unseen) -> CaseResult:
    return CaseResult(case=one.case.id, paired=Paired(tier="replay", search=Reading(blocks=()), confirm=one.confirm))


def block_times(result: CaseResult) -> tuple[float, float] | None:
    """Medians of v0's and of the variant's slots, over the readings that count."""
    blocks = [block for reading in readings_of(result) for block in reading.blocks]
    if not blocks:
        return None
    return median(us for block in blocks for us in block[:2]), median(us for block in blocks for us in block[2:])


def confirmed_processes(measurement: Measurement) -> int:
    """Fresh processes that read enough blocks of every case, and of every size that nobody named."""
    every = (*measurement.cases, *map(_as_result, measurement.unseen))
    return len(_shared([_numbers(one) for one in every]))


def _shared(numbers: Sequence[tuple[int, ...]]) -> list[int]:
    return sorted(set.intersection(*map(set, numbers))) if numbers else []


def controls(measurement: Measurement) -> dict[str, Estimate]:
    """v0 against a copy of itself, case by case, where the variant was confirmed beside it."""
    fewest = FEWEST_CONTROL_BLOCKS
    found = {one.case: usable(one.paired.control, fewest) for one in measurement.cases if one.paired is not None}
    return {case: estimate(readings, fewest) for case, readings in found.items() if readings}


def is_paired(measurement: Measurement) -> bool:
    """Whether a GPU timed it against v0; a measurement of v0 itself has nothing to be paired with."""
    measured = measurement.runner.evidence is Evidence.MEASURED
    return measured and any(result.paired is not None for result in measurement.cases)


def block_timed(measurement: Measurement) -> Measurement:
    """With the medians of its blocks as its times, wherever there are blocks."""
    cases = []
    for result in measurement.cases:
        times = block_times(result) if measurement.runner.evidence is Evidence.MEASURED else None
        timer = result.timing.timer if result.timing else "graph"
        timing = Timing(median_us=times[1], timer=timer) if times else result.timing
        cases.append(result.model_copy(update={"timing": timing}))
    return measurement.model_copy(update={"cases": tuple(cases)})


def _step(cases: Sequence[CaseReading], logs: Sequence[float]) -> tuple[float, list[float]]:
    """A step's logarithm from those of its passes, and how much of the step each pass is."""
    after = [case.before_us * math.exp(-log) for case, log in zip(cases, logs, strict=True)]
    total = math.fsum(after)
    return math.log(math.fsum(case.before_us for case in cases) / total), [us / total for us in after]


def _one_process(groups: Sequence[CaseGroup], found: Mapping[str, CaseReading], number: int | None) -> ProcessMean:
    """The weighted geometric mean over the groups, as this one process read it; None: whoever read each case first."""
    total = math.fsum(group.weight for group in groups)
    mean = middle = squares = 0.0
    seen: list[ProcessMean] = []
    for group in groups:
        cases = [found[case.id] for case in group.cases]
        here = [case.estimate.processes[case.numbers.index(number) if number is not None else 0] for case in cases]
        log, shares = _step(cases, [process.mean for process in here])
        mean += group.weight * log / total
        middle += group.weight * _step(cases, [process.middle for process in here])[0] / total
        squares += math.fsum(
            (group.weight / total * share * process.error) ** 2 for share, process in zip(shares, here, strict=True)
        )
        seen += here
    fewest = min(process.blocks for process in seen)
    return ProcessMean(mean, math.sqrt(squares), middle, min(process.freedom for process in seen), fewest)


def over_all(groups: Sequence[CaseGroup], found: Mapping[str, CaseReading]) -> Estimate:
    """Each process gives one geometric mean over the groups. Where one case lacks a process, all go without it."""
    shared = _shared([found[case.id].numbers for group in groups for case in group.cases])
    return combine([_one_process(groups, found, number) for number in shared or (None,)])
