"""What the untouched kernel makes another way each time, and the draws of it that may show more of that."""

from __future__ import annotations

from collections.abc import Collection

from bot.judge.answer import Returned
from bot.judge.known import Known, excuse_of
from bot.judge.plan import BYTES_OF_A_DRAW

RESULTS = ("output", "gradient")
Kind = tuple[str, tuple[str, str]]
"""(direction, result): what the same code makes."""
Restless = frozenset[Kind]
"""What the untouched kernel makes another way each time."""


def restless_of(known: Collection[Known]) -> Restless:
    """Results of which the untouched kernel itself did not leave the same bits in every run of some probe.

    Who adds up shares of programs with float atomics has a last bit that depends on the order, and in one probe luck
    may give it the same bits each time. So one probe speaks for all in which the same code makes the same result, of
    whatever type: shares that group_norm rounds to bfloat16 add up in float16 without rounding, most of the time. That
    a kernel has atomics is not enough, as they need not show in this result; who is
    bit for bit the same in every probe of the suite asks the same of a variant. And a result alone is excused, never
    an input: that one may be overwritten in no order.
    """
    found = set()
    for one in known:
        base = one.baseline
        if base is None or excuse_of(one):
            continue
        for key in base.runs[0]:
            if key[0] in RESULTS and (key in one.restless or not is_same(base, key)):
                found.add(kind_of(one, key))
    return frozenset(found)


def kind_of(known: Known, key: tuple[str, str]) -> Kind:
    return known.probe.call.direction, key


def shaken_of(known: Collection[Known]) -> dict[Kind, tuple[str, ...]]:
    """Unheard draws that may show what restless_of asks for, run more than once. Of each kind those of one probe speak,
    the largest that has any and does not take the oracle long: most programs take part in it. Those of all would take
    as long as all checks. But programs that are more than run at once come in an order of their own, so those of the
    probe in which a variant was restless are asked as well."""
    found: dict[Kind, tuple[str, ...]] = {}
    for one in sorted(known, key=lambda one: (one.probe.call.nbytes <= BYTES_OF_A_DRAW, one.probe.call.nbytes)):
        base = one.baseline
        if base is None or excuse_of(one) or not (one.drawn or one.unheard):
            continue
        again = tuple(draw.call.id for draw in one.unheard if draw.call.turns > 1)
        found |= {kind_of(one, key): again for key in base.runs[0] if key[0] in RESULTS}
    return found


def shaken_here(known: Known) -> tuple[str, ...]:
    """Unheard draws of one probe that are run more than once; none of one that takes the oracle long."""
    if known.probe.call.nbytes > BYTES_OF_A_DRAW:
        return ()
    return tuple(draw.call.id for draw in known.unheard if draw.call.turns > 1)


def is_same(returned: Returned, key: tuple[str, str]) -> bool:
    return len({run[key].raw for run in returned.runs if key in run}) == 1
