"""Ideas that have a round together where that promises more than any of them alone.

A kernel waits for its instructions or it does not. Where it does, what takes some of them gives a part of what is asked
of a round, and may never have one: on an H200 a walk of softmax over 32,000 columns took 160 us as it was accepted, and
a sketch of it 142 us with products in place of divisions and exponentials to the base of two. Its exponentials had
their round first, 148 us, and what the products gave on top of them, 1.03x of that pass, was half a percent of the
score and too little for another. And some ideas are only good for the next: rows in tiles are numbered tile by tile,
so that programs side by side read what lies side by side, once they are in tiles.

So they race once more as one, beside each of them, and the better promise comes first.
"""

from __future__ import annotations

from collections.abc import Callable

from bot.analysis.strategies import TOGETHER
from bot.engine import rewriting
from bot.engine.transforms import PER_KERNEL
from bot.engine.transforms.rewrite import Rewrite
from bot.proposers import promise
from bot.proposers.brief import Brief

FEWEST = 2
Making = Callable[[str, str, str], Rewrite | None]
"""A rewrite by its name, the text and the kernel that it keeps to."""
IN_ONE_KERNEL = frozenset(name for name, parts in TOGETHER.items() if parts[-1] in PER_KERNEL)
"""Those whose last rewrite may keep to one kernel. On an H200 tiles of geglu's backward were 4 % faster in order, and
those of its forward 2 to 4 % slower."""


def joined(titles: list[str]) -> str:
    first, *others = titles
    return ", and ".join([first, *(title[:1].lower() + title[1:] for title in others)])


def of_file(name: str, text: str, only: str = "", making: Making = rewriting.of_file) -> Rewrite | None:
    """All of its rewrites that find something in a file, one on top of the other. None where there are no two. `only`:
    the kernel that the last of them keeps to."""
    found: list[Rewrite] = []
    for part in TOGETHER[name]:
        here = only if part == TOGETHER[name][-1] else ""
        rewrite = making(part, found[-1].text if found else text, here)
        found += [rewrite] if rewrite is not None else []
    if len(found) < FEWEST:
        return None
    return Rewrite(
        text=found[-1].text,
        kernels=tuple(dict.fromkeys(kernel for one in found for kernel in one.kernels)),
        title=joined([one.title for one in found]),
        why=" ".join(one.why for one in found if one.why),
        seen=" ".join(one.seen for one in found if one.seen),
    )


def is_due(brief: Brief, technique: str) -> bool:
    """Whether a technique may have a round now. One of several ideas only after a race, and behind each of them that
    promises as much by itself."""
    name = technique.partition(":")[0]
    if name not in TOGETHER:
        return True
    whole = promise.of(brief, technique)
    ahead = [promise.of(brief, part) for part in TOGETHER[name] if not brief.rounds_with(part)]
    return whole is not None and all(part is None or part < whole for part in ahead)
