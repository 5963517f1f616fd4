"""What the same pass reaches at a small and at a large size: all that can be said of the limit where no counter was
read (T-06)."""

from __future__ import annotations

from collections.abc import Iterator

from bot.analysis.roofline import case_roofs
from bot.model.diagnosis import CaseRoof, Clue
from bot.model.measurement import Evidence, Measurement, Suite

LARGER = 4
"""Times the bytes from which two sizes are compared."""
GROWS, FLAT = 1.5, 1.1
"""The larger one's share of the roof over the smaller one's."""
LOW = 60.0
"""Percent of the roof."""


def _ends(measured: Measurement, suite: Suite) -> Iterator[tuple[float, CaseRoof, float, CaseRoof]]:
    """The smallest and the largest case of each pass with the share of the roof of both, if they are far apart."""
    directions = {case.id: (case.direction, case.grad) for case in suite.cases}
    known = [roof for roof in case_roofs(measured) if roof.percent is not None and roof.case in directions]
    for one in dict.fromkeys(directions.values()):
        mine = sorted((roof for roof in known if directions[roof.case] == one), key=lambda roof: roof.minimum_bytes)
        if mine and mine[-1].minimum_bytes >= LARGER * mine[0].minimum_bytes:
            small, large = mine[0], mine[-1]
            yield small.percent or 0.0, small, large.percent or 0.0, large


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
    for at_small, small, at_large, large in _ends(measured, suite):
        says = _says(at_small, at_large)
        if says is None:
            continue
        times = large.minimum_bytes / small.minimum_bytes
        found.append(Clue(
            evidence=f"{small.case} reaches {at_small:.0f} % of its roof, and {large.case} with {times:.3g} times the"
            f" bytes {at_large:.0f} %",
            inference=says[0], action=says[1], confidence="medium", basis="timed",
        ))  # fmt: skip
    return found
