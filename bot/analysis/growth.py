"""What the same pass reaches at a small and at a large size: all that can be said of the limit where no counter was
read (T-06)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bot.analysis.roofline import case_roofs
from bot.model.diagnosis import Clue
from bot.model.measurement import Evidence, Measurement, Suite

LARGER = 4
"""Times the bytes from which two sizes are compared."""
GROWS, FLAT = 1.5, 1.1
"""The larger one's share of the roof over the smaller one's."""
LOW = 60.0
"""Percent of the roof."""


class Reached(NamedTuple):
    nbytes: int
    percent: float
    """Of the roof."""
    case: str


def _ends(measured: Measurement, suite: Suite) -> Iterator[tuple[Reached, Reached]]:
    """The smallest and the largest case of each pass, if they are far apart."""
    passes = {case.id: (case.direction, case.grad) for case in suite.cases}
    of_pass: dict[object, list[Reached]] = {}
    for roof in case_roofs(measured):
        if roof.percent is not None and roof.case in passes:
            of_pass.setdefault(passes[roof.case], []).append(Reached(roof.minimum_bytes, roof.percent, roof.case))
    for known in of_pass.values():
        small, large = min(known), max(known)
        if large.nbytes >= LARGER * small.nbytes:
            yield small, large


def _says(small: float, large: float) -> tuple[str, str] | None:
    if large >= GROWS * small:
        return (
            "what does not grow with the work takes the small one's time: launches, or too few programs",
            "fewer launches a pass, and more programs where there are few rows",
        )
    if large <= FLAT * small and large < LOW:
        return (
            "more work makes it no better, so neither launches nor idle multiprocessors are its limit",
            "fewer passes over memory where there are more than the least, else fewer instructions an element",
        )
    return None


def of_sizes(measured: Measurement, suite: Suite) -> list[Clue]:
    """Nothing where no clock read them: the model would only be asked for what it took for granted."""
    if measured.runner.evidence is not Evidence.MEASURED:
        return []
    found = []
    for small, large in _ends(measured, suite):
        says = _says(small.percent, large.percent)
        if says is None:
            continue
        found.append(Clue(
            evidence=f"{small.case} reaches {small.percent:.0f} % of its roof, and {large.case} with"
            f" {large.nbytes / small.nbytes:.3g} times the bytes {large.percent:.0f} %",
            inference=says[0], action=says[1], confidence="medium", basis="timed",
        ))  # fmt: skip
    return found
