"""Which experts the tokens of a recorded and of a scored pass go to.

How many tokens an expert gets decides how much is launched for it, and the host may look. What is recorded on some
contents is played on others, so all of them send an expert as many tokens: only which tokens differs.
"""

from __future__ import annotations

import random
from functools import lru_cache


@lru_cache(maxsize=8)
def routed(tokens: int, each: int, experts: int) -> tuple[tuple[int, ...], ...]:
    """For each token so many experts, none twice, all as likely: what a router learns that is asked to balance. Of the
    generator `random` alone is used, which is the same in every version of Python."""
    rng = random.Random(tokens)
    found = []
    for _ in range(tokens):
        chosen: dict[int, None] = {}
        while len(chosen) < min(each, experts):
            chosen[int(rng.random() * experts)] = None
        found.append(tuple(chosen))
    return tuple(found)
