"""Ideas that have a round together where each alone promises too little: they take instructions from the same elements.

A kernel waits for its instructions or it does not. Where it does, each of these gives a part of what is asked of a
round, and no part would ever have one: on an H200 a walk of softmax over 32,000 columns took 160 us as it was accepted,
and a sketch of it 142 us with products in place of divisions and exponentials to the base of two, which is 1.2 % of the
score for both together. So they race once more as one, and where one of them is worth a round that one comes first.
"""

from __future__ import annotations

from bot.engine import rewriting
from bot.engine.transforms.rewrite import Rewrite
from bot.proposers import promise
from bot.proposers.brief import Brief

TOGETHER: dict[str, tuple[str, ...]] = {"fewer_instructions": ("divide_once", "base_two", "quick_log", "tanh_by_exp2")}
"""By the technique of the whole, the rewrites it is made of."""
FEWEST = 2


def joined(titles: list[str]) -> str:
    first, *others = titles
    return ", and ".join([first, *(title[:1].lower() + title[1:] for title in others)])


def of_file(name: str, text: str) -> Rewrite | None:
    """All of its rewrites that find something in a file, one on top of the other. None where there are no two."""
    found: list[Rewrite] = []
    for part in TOGETHER[name]:
        rewrite = rewriting.of_file(part, found[-1].text if found else text)
        found += [rewrite] if rewrite is not None else []
    if len(found) < FEWEST:
        return None
    return Rewrite(
        text=found[-1].text,
        kernels=tuple(dict.fromkeys(kernel for one in found for kernel in one.kernels)),
        title=joined([one.title for one in found]),
        why=" ".join(one.why for one in found),
        seen=" ".join(one.seen for one in found),
    )


def _has_a_round_ahead(brief: Brief, part: str) -> bool:
    promised = promise.of(brief, part)
    return promised is not None and promised >= promise.WORTH_A_ROUND and not brief.rounds_with(part)


def is_due(brief: Brief, technique: str) -> bool:
    """Whether a technique may have a round now. One of several ideas only after a race, and after each that is worth a
    round by itself."""
    if technique not in TOGETHER:
        return True
    raced = promise.of(brief, technique) is not None
    return raced and not any(_has_a_round_ahead(brief, part) for part in TOGETHER[technique])
