"""A winner on the sizes of the library's own benchmark: a line a case, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bot.model.harvested import Beside, HarvestedRun
from bot.model.ids import variant_name
from bot.model.verdict import UnseenScore
from bot.render import labels, numbers, times

HEAD = ("Case", "Where from", "v0, us", "Its time, us", "Speed-up", "95 % interval")


def _interval(found: UnseenScore) -> str:
    known = found.low is not None and found.high is not None
    return f"{numbers.ratio(found.low)} to {numbers.ratio(found.high)}" if known else numbers.UNKNOWN


def rows(run: HarvestedRun, figures: Sequence[Beside]) -> list[tuple[str, ...]]:
    cases = {case.id: case for case in run.suite.cases}
    told = {(one.sizes, str(one.dtype)): one.told for one in run.sweep}
    return [
        (
            labels.case_name(cases[found.case]),
            told[cases[found.case].shape, cases[found.case].dtype],
            times.plain_us(found.before_us),
            times.plain_us(found.after_us),
            numbers.ratio(found.speedup),
            _interval(found),
        )
        for found in (one.score for one in figures)
    ]


def bound(figures: Sequence[Beside], most: float) -> str:
    """The one sentence that a verdict would hang on."""
    slower = [found.score.case for found in figures if found.slower]
    if slower:
        return f"Clearly more than {100 * most:.0f} % slower (one-sided 99 %, Holm): {', '.join(slower)}"
    return f"No case is clearly more than {100 * most:.0f} % slower (one-sided 99 %, Holm)"


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


def lines(run: HarvestedRun, figures: Sequence[Beside] | str, most_slower: float) -> list[str]:
    """For a terminal. `figures`, or why there are none; `most_slower` is what a verdict lets pass."""
    gpu = run.baseline.runner.gpu_name or "a GPU"
    named = [f"sizes of {run.benchmark}"] if run.benchmark else []
    drawn = [f"sizes drawn with seed {run.seed}"] if run.seed is not None else []
    said = [f"{run.kernel}, {variant_name(run.variant)} beside v0 on {gpu}, {' and '.join((*named, *drawn))}", ""]
    if isinstance(figures, str):
        said += [figures]
    else:
        said += [*_columns([HEAD, *rows(run, figures)]), "", bound(figures, most_slower)]
    others = list(left_out(run))
    return [*said, *([""] if others else []), *others]
