"""How much memory a pass moves, beside what it would have to.

The interpreter says which share of each tensor a launch reads and writes, on a small case; the recorder says how
large those tensors are on the scored one. What torch's own operations move is known from their shapes.

What a program reads again is told in the same way. How much it moves in between is a share of what one program moves,
as if it took as many rows here as there; where the chip says how many programs there are, it may take more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from bot.model.profiling import Moved, ReadAgain
from bot.worker.contract import Call, Caught, CaughtCase, CheckAnswer, Footprint, Touched

UNSEEN = 1.0
"""A region no small case showed is taken to be read or written once."""


def _touches(footprint: Footprint, caught: Caught) -> float:
    """Bytes of the scored launch, if it touched what this one did."""
    sizes = dict(caught.regions)
    return sum((one.read + one.write) * sizes.get(one.region, 0) for one in footprint.regions)


def _unlike(footprint: Footprint, caught: Caught) -> int:
    """How many switches stood otherwise."""
    flags = dict(footprint.flags)
    return sum(flags.get(name, value) != value for name, value in caught.constants)


def _fullest(found: tuple[Footprint, ...], caught: Caught) -> Footprint:
    """Of the larger half, as a single row or column would show tensors that are hardly there: with the switches of the
    scored launch, else the one that touches most. Rows that are ignored or masked are not read, and no scored case has
    any."""
    larger = found[: (len(found) + 1) // 2]
    return min(larger, key=lambda one: (_unlike(one, caught), -_touches(one, caught)))


@dataclass(frozen=True)
class Shares:
    """What the small cases showed of each kernel, by the names of the regions it was handed; the largest case first."""

    seen: dict[tuple[str, frozenset[str]], tuple[Footprint, ...]]

    def touched(self, caught: Caught) -> dict[str, Touched]:
        names = frozenset(name for name, _ in caught.regions)
        found = self.seen.get((caught.kernel, names))
        if found is None:
            found = next((seen for (kernel, _), seen in self.seen.items() if kernel == caught.kernel), None)
        return {touched.region: touched for touched in _fullest(found, caught).regions} if found else {}

    def of(self, caught: Caught) -> dict[str, float]:
        return {name: touched.read + touched.write for name, touched in self.touched(caught).items()}


def _elements(call: Call) -> int:
    return max((spec.nbytes for spec in call.tensors), default=0)


def shares_of(calls: tuple[Call, ...], answer: CheckAnswer) -> Shares:
    returned = {call.id: call for call in answer.calls}
    seen: dict[tuple[str, frozenset[str]], tuple[Footprint, ...]] = {}
    for call in sorted(calls, key=_elements, reverse=True):
        found = returned.get(call.id)
        for footprint in found.runs[0].footprints if found is not None and found.runs else ():
            key = footprint.kernel, frozenset(touched.region for touched in footprint.regions)
            seen[key] = (*seen.get(key, ()), footprint)
    return Shares(seen)


def moved_bytes(case: CaughtCase, shares: Shares) -> float:
    total = float(case.library_bytes)
    for caught in case.launches:
        known = shares.of(caught)
        total += sum(known.get(name, UNSEEN) * nbytes for name, nbytes in caught.regions)
    return total


def _moved(case: str, caught: Caught, touched: dict[str, Touched]) -> Moved:
    unseen = Touched("", UNSEEN, 0.0)
    parts = [(touched.get(name, unseen), nbytes) for name, nbytes in caught.regions]
    programs = prod(max(1, size) for size in caught.grid)
    each = sum((one.read + one.write + one.again) * nbytes for one, nbytes in parts) / programs
    return Moved(
        case=case,
        kernel=caught.kernel[:200],
        read_bytes=sum(one.read * nbytes for one, nbytes in parts),
        written_bytes=sum(one.write * nbytes for one, nbytes in parts),
        again=tuple(
            ReadAgain(nbytes=one.again * nbytes, between=one.between * each) for one, nbytes in parts if one.again > 0
        ),
    )


def moved_of(case: CaughtCase, shares: Shares) -> tuple[Moved, ...]:
    """Launch by launch. None of a kernel that the interpreter never ran: on a GPU nobody watches its addresses."""
    seen = ((caught, shares.touched(caught)) for caught in case.launches)
    return tuple(_moved(case.case, caught, touched) for caught, touched in seen if touched)


def traffic_factor(case: CaughtCase, minimum_bytes: int, shares: Shares) -> float:
    """Never below 1: that would be a small case that read less of a tensor than the scored one, as the one row of two
    that has a successor, and a time that no memory allows."""
    return max(1.0, moved_bytes(case, shares) / minimum_bytes) if minimum_bytes > 0 else 1.0
