"""One case of several that stand on one replayer, read in blocks that they share: v0 is played once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bot.analysis import racing
from bot.analysis.racing import Standing
from bot.model.measurement import Block

BLOCKS = racing.LOOKS[0]
Read = Callable[[Sequence[int], int], Mapping[int, tuple[Block, ...]]]
"""So many blocks that these share, of each its own; of some none where they do not fit, or were disturbed."""


def read_on(count: int, leader: Standing | None, read: Read) -> tuple[list[tuple[Block, ...]], Standing | None]:
    """(blocks of each, who leads since). Who is far behind after a glance need not be known any better. Nothing where a
    glance shows nothing of somebody: then each is read by itself."""
    everybody = range(count)
    first = read(everybody, racing.GLANCE)
    seen = {place: racing.glanced(first[place]) for place in everybody}
    if None in seen.values():
        return [], leader
    known = [standing for standing in (*seen.values(), leader) if standing is not None]
    leader = max(known, key=lambda standing: standing.low)
    staying = [place for place in everybody if not racing.behind(seen[place], leader)]
    rest = read(staying, BLOCKS - racing.GLANCE) if staying else {}
    return [(*first[place], *rest.get(place, ())) for place in everybody], leader
