"""What keeps the best variant from the roof where memory is the limit."""

from __future__ import annotations

from bot.model.ids import variant_name
from bot.model.rivals import BelowRoof, NearRoof, Rivalry
from bot.render import numbers
from bot.render.escape import Trusted, text
from bot.render.rival_rows import Names

LONGEST = 300
"""Characters of a line: kernels have names."""


def _of(found: Rivalry | None) -> NearRoof | None:
    """Nothing where nothing won, nor where memory limits no case."""
    return found.roof if found is not None and found.roof is not None and found.roof.cases else None


def headline(found: Rivalry | None) -> str:
    """`v3 stays below 85 % of the roof in 2 of 8 cases that memory limits`; empty where nothing is to be said."""
    roof = _of(found)
    if found is None or roof is None:
        return ""
    what, near = variant_name(found.best), f"{roof.percent:.0f} % of the roof"
    many = numbers.many(roof.cases, "case that memory limits", "cases that memory limits")
    if roof.below:
        return f"{what} stays below {near} in {len(roof.below)} of {many}"
    return f"{what} reaches {near} in {'the' if roof.cases == 1 else 'all'} {many}"


def _line(one: BelowRoof, names: Names) -> str:
    why = "; ".join(one.why) or "nothing is known of why"
    return f"{names.get(one.case, one.case)}: {one.after:.0f} % of the roof, v0 {one.before:.0f} %; {why}"


def lines(found: Rivalry | None, names: Names, most: int) -> list[str]:
    """Case by case, the farthest first."""
    roof = _of(found)
    below = roof.below if roof is not None else ()
    more = len(below) - most
    return [*(_line(one, names) for one in below[:most]), *([numbers.many(more, "more case")] if more > 0 else [])]


def of_report(found: Rivalry | None, names: Names, most: int) -> Trusted:
    """The same as a list."""
    return Trusted("\n".join(f"- {text(line, LONGEST)}" for line in lines(found, names, most)))
