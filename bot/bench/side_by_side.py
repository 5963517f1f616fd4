"""One case of several that stand on one replayer: a glance at all, and who is far behind need not be known any better.

They are read in blocks that they share, so that v0 is played once for all of them, or each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeVar

from bot.analysis import racing
from bot.analysis.racing import Standing
from bot.model.measurement import Block

AT_ONCE = 7
"""On one replayer: with v0, there and back, as many as one answer of it holds. Each has buffers of its own, three times
the L2 and more."""
BLOCKS = racing.LOOKS[0]
T = TypeVar("T")
Shared = Callable[[Sequence[int], int], Mapping[int, tuple[Block, ...]]]
"""So many blocks that these share, of each its own; of some none where they do not fit, or were disturbed."""


def groups(some: Sequence[T], most: int = AT_ONCE) -> list[list[T]]:
    """As few as hold them all, none more than one larger than another: who is left over would be read alone."""
    count = -(-len(some) // most)
    return [list(some[len(some) * n // count : len(some) * (n + 1) // count]) for n in range(count)]


def read_alone(leader: Standing | None, read: Callable[[int], tuple[Block, ...]]) -> tuple[Block, ...]:
    first = read(racing.GLANCE)
    if racing.behind(racing.glanced(first), leader):
        return first
    return (*first, *read(BLOCKS - racing.GLANCE))


def read_together(count: int, leader: Standing | None, read: Shared) -> tuple[list[tuple[Block, ...]], Standing | None]:
    """(blocks of each, who leads since the glance). Nothing where that shows nothing of somebody, or where there is
    but one: then each is read alone."""
    if count == 1:
        return [], leader
    everybody = range(count)
    first = read(everybody, racing.GLANCE)
    seen = {place: racing.glanced(first[place]) for place in everybody}
    if None in seen.values():
        return [], leader
    leader = reduce(lambda before, now: racing.ahead(now, before), seen.values(), leader)
    staying = [place for place in everybody if not racing.behind(seen[place], leader)]
    rest = read(staying, BLOCKS - racing.GLANCE) if staying else {}
    return [(*first[place], *rest.get(place, ())) for place in everybody], leader
