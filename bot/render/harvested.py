"""A winner on the sizes of the library's own benchmark: a line a case, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bot.analysis.measured import CaseReading
from bot.analysis.stats import Incomparable, case_readings
from bot.model.harvested import HarvestedRun
from bot.model.ids import variant_name
from bot.render import labels, numbers, times

HEAD = ("Case", "In the script", "v0, us", "Its time, us", "Speed-up", "95 % interval")


def _interval(found: CaseReading) -> str:
    low, high = found.estimate.interval()
    if math.isinf(high):
        return numbers.UNKNOWN
    return f"{numbers.ratio(math.exp(low))} to {numbers.ratio(math.exp(high))}"


def rows(run: HarvestedRun) -> list[tuple[str, ...]]:
    """Empty where the winner was not timed: then `trouble` says why."""
    try:
        found = case_readings(run.measurement, run.suite)
    except Incomparable:
        return []
    told = {(one.sizes, one.dtype): one.told for one in run.sweep}
    return [
        (
            labels.case_name(case),
            told[case.shape, case.dtype],
            times.plain_us(found[case.id].before_us),
            times.plain_us(found[case.id].after_us),
            numbers.ratio(found[case.id].estimate.ratio),
            _interval(found[case.id]),
        )
        for case in run.suite.cases
        if case.id in found
    ]


def trouble(run: HarvestedRun) -> str:
    """Why there are no times, or not of all cases."""
    if run.measurement.fault is not None:
        return labels.fault(run.measurement.fault)
    wrong = [f"{row.case}: {row.detail}" for row in run.measurement.checks if not row.passed]
    if wrong:
        return f"not timed, as a check failed: {wrong[0]}"
    try:
        case_readings(run.measurement, run.suite)
    except Incomparable as error:
        return str(error)
    return ""


def left_out(run: HarvestedRun) -> Iterator[str]:
    for one in run.sweep:
        sizes = " x ".join(str(size) for _, size in one.sizes)
        if one.left_out:
            yield f"{one.told}, {sizes} {one.dtype}: {one.left_out}"
        elif one.differs:
            yield f"{one.told}, {sizes} {one.dtype}: timed without {', '.join(one.differs)}"


def _columns(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def lines(run: HarvestedRun) -> list[str]:
    """For a terminal."""
    gpu = run.measurement.runner.gpu_name or "a GPU"
    said = [f"{run.kernel}, {variant_name(run.variant)} beside v0 on {gpu}, sizes of {run.benchmark}", ""]
    found = rows(run)
    said += list(_columns([HEAD, *found])) if found else []
    if why := trouble(run):
        said += ["", why]
    others = list(left_out(run))
    return [*said, *([""] if others else []), *others]
