"""Writes the table of the README beside it: what was asked for of single passes, and what the last campaign of each
kernel came to.

    python docs/results/h200/asked.py

The figures are those of campaigns/table.py.
"""

from __future__ import annotations

import math
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bot.analysis.rivals import rivalry
from bot.model.measurement import CaseResult
from bot.render import numbers, times, view
from bot.render.escape import Trusted, text

HERE = Path(__file__).resolve().parent
HEAD = ("Kernel", "Pass", "Asked for", "Has", "Stock, us", "Winner, us", "Of the roof", "What was asked would be",
        "torch.compile over stock")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Floor:
    kernel: str
    case: str
    least: float = 0.0
    """So many times as fast as stock."""
    most_us: float = 0.0
    """Or no longer than this."""

    def __str__(self) -> str:
        return f"{self.most_us:g} us" if self.most_us else f"{self.least:g}x"


FLOORS = (
    Floor("rms_norm", "bwd 8192x4096 bf16", 1.9),
    Floor("rms_norm", "bwd 8192x1024 bf16", 2.2),
    Floor("layer_norm", "bwd 8192x4096 bf16", 1.7),
    Floor("fused_add_rms_norm", "bwd 8192x4096 bf16", 1.7),
    Floor("poly_norm", "bwd 8192x4096 bf16", 1.8),
    Floor("dyt", "bwd 8192x4096 bf16", 1.5),
    Floor("geglu", "fwd 4096x14336 bf16", 1.5),
    Floor("geglu", "bwd 4096x14336 bf16", 1.25),
    Floor("softmax", "fwd 4096x32000 bf16", 1.15),
    Floor("softmax", "fwd 1024x65536 bf16", 1.4),
    Floor("jsd", "fwd 8192x32000 bf16", most_us=530.0),
    Floor("group_norm", "fwd 16x32x16x4096 bf16", 10.0),
    Floor("group_norm", "bwd 128x32x4x512 bf16", 5.0),
    Floor("cross_entropy", "fwd 4096x32000 bf16", 1.25),
    Floor("cross_entropy", "fwd 2048x128256 bf16", 1.25),
    Floor("kl_div", "bwd 4096x32000 bf16", 3.0),
    Floor("tvd", "bwd 4096x32000 bf16", 2.0),
)


TABLE = SimpleNamespace(**runpy.run_path(str(HERE / "campaigns/table.py")))
"""The reader of journals, which is a script of its own."""


def last_ones(folder: Path) -> dict[str, Any]:
    """By kernel the last campaign that came to its end with a winner that may be counted."""
    return {one.kernel: one for one in TABLE.read_all(folder) if one.is_over and TABLE.gave([one]) is not None}


def _result(one: Any, case: str) -> CaseResult | None:
    names, results = view.case_names(one.campaign), TABLE._results(one)
    return next((found for name, found in results.items() if names[name] == case), None)


def _compiled(one: Any, case: str) -> str:
    """The faster of both ways in which torch compiles the same mathematics."""
    found = view.measurement_of(one.campaign, one.number)
    told = rivalry(one.campaign.profile, one.number, found, one.campaign.rivals)
    tallies = told.tallies if told is not None else ()
    known = [c.over_v0 for t in tallies if t.name != "eager" for c in t.cases if c.case == case]
    return numbers.ratio(max(known)) if known else "not played"


def row(floor: Floor, one: Any | None) -> list[object]:
    result = _result(one, floor.case) if one is not None else None
    if one is None or result is None:
        return [floor.kernel, floor.case, str(floor), Trusted("**not measured**"), *[TABLE.NONE] * 5]
    reading = one.readings[result.case]
    before, after = reading.before_us, reading.after_us
    wanted = floor.most_us or before / floor.least
    has = TABLE.gain(reading.estimate)
    met = after <= floor.most_us if floor.most_us else reading.estimate.ratio >= floor.least
    linked = Trusted(f"[{text(one.kernel)}](campaigns/{text(one.folder)}/journal.jsonl)")
    at = Trusted(f"{TABLE._share(one, result, wanted)} of it")
    us = [times.plain_us(before), times.plain_us(after)]
    said = text(has) if met else Trusted(f"**{text(has)}**")
    return [linked, floor.case, str(floor), said, *us, TABLE.roof(one, result), at, _compiled(one, result.case)]


def missed(floors: Sequence[Floor], found: dict[str, Any]) -> int:
    return sum("**" in str(row(floor, found.get(floor.kernel))[3]) for floor in floors)


def narrow(floors: Sequence[Floor], found: dict[str, Any]) -> list[str]:
    """Kernels that are there by their figure, and not by the lower end of its interval."""
    names = []
    for floor in floors:
        one = found.get(floor.kernel)
        result = _result(one, floor.case) if one is not None else None
        if one is None or result is None or floor.most_us:
            continue
        estimate = one.readings[result.case].estimate
        if math.exp(estimate.interval()[0]) < floor.least <= estimate.ratio:
            names.append(floor.kernel)
    return names


def page(folder: Path = HERE / "campaigns", floors: Sequence[Floor] = FLOORS) -> str:
    found = last_ones(folder)
    close = narrow(floors, found)
    by_less = f", {' and '.join(close)} by less than half of an interval" if close else ""
    head = f"{len(floors) - missed(floors, found)} of {len(floors)} are there{by_less}; the others stand in bold.\n"
    rows = [row(floor, found.get(floor.kernel)) for floor in floors]
    return "\n".join((head, TABLE.intervals(HERE), TABLE.grid(HEAD, rows)))


def main() -> None:
    readme = HERE / "README.md"
    readme.write_text(TABLE.written(readme.read_text(encoding="utf-8"), page()), encoding="utf-8")


if __name__ == "__main__":
    main()
