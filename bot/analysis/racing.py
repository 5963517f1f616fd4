"""Who goes on in the search: looks at 12, 24, 48 and 96 blocks of one process, and the losers leave early; where many
race at once, who is far behind after four.

A race decides who is confirmed, never what is published. What a look says of one variant:

    DROP    even the upper bound is no gain that counts, or the leader is clearly ahead
    GO_ON   not known yet: read on to the next look
    GOES    worth confirming: clear already, or still standing at the last look
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.analysis.distributions import student_quantile
from bot.analysis.paired import MIN_GAIN, ROUNDING, process_mean
from bot.model.measurement import Block

LOOKS = (12, 24, 48, 96)
GLANCE = 4
"""Blocks of a case after which one of many is clearly behind, or is read on."""
FUTILE = 0.975
"""One-sided: a variant leaves when its upper bound of this share is below what is asked."""
CLEAR = 2.60
"""Normal quantile of the last look for an overall one-sided error of about 0.5 %; earlier looks ask sqrt(96 / blocks)
times as much (O'Brien and Fleming), so that four looks cost hardly more errors than one."""
SLACK = 0.005
"""A process favours one set of addresses by some tenths of a percent, which no number of its blocks shows."""


class Step(StrEnum):
    DROP = "drop"
    GO_ON = "go on"
    GOES = "goes"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a variant stands after the blocks of one process: logarithms over v0, above 0 is faster."""

    mean: float
    error: float
    freedom: int
    blocks: int
    """Of the case that has fewest."""

    @property
    def high(self) -> float:
        return self.mean + student_quantile(FUTILE, self.freedom) * self.error

    @property
    def low(self) -> float:
        return self.mean - student_quantile(FUTILE, self.freedom) * self.error


def standing(cases: Sequence[Sequence[Block]], weights: Sequence[float] | None = None) -> Standing:
    """Over one or several cases, weighted as the score weighs them. A case needs the blocks of the first look."""
    weights = [1.0] * len(cases) if weights is None else weights
    if not cases or min(len(blocks) for blocks in cases) < LOOKS[0]:
        raise ValueError(f"a race is looked at after {LOOKS[0]} blocks of each case")
    total, means = math.fsum(weights), [process_mean(blocks) for blocks in cases]
    pairs = list(zip(means, weights, strict=True))
    return Standing(
        mean=math.fsum(weight * found.mean for found, weight in pairs) / total,
        error=math.sqrt(math.fsum((weight * found.error) ** 2 for found, weight in pairs)) / total,
        freedom=min(found.freedom for found in means),
        blocks=min(found.blocks for found in means),
    )


def glanced(blocks: Sequence[Block]) -> Standing | None:
    """One case of one of many; None while too little of it was undisturbed."""
    if len(blocks) < GLANCE:
        return None
    found = process_mean(blocks)
    return Standing(found.mean, found.error, found.freedom, found.blocks)


def behind(now: Standing | None, leader: Standing | None) -> bool:
    """Clearly, and not by chance nor by a lucky set of addresses."""
    return now is not None and leader is not None and now.high < leader.low - SLACK


def ahead(now: Standing | None, leader: Standing | None) -> Standing | None:
    """Who leads since: surely the fastest so far."""
    return now if now is not None and (leader is None or now.low > leader.low) else leader


def next_look(blocks: int) -> int | None:
    """How many blocks the next look needs; None when there is none."""
    return next((look for look in LOOKS if look > blocks), None)


def step(now: Standing, *, min_gain: float = MIN_GAIN, best: float = 1.0, leader: Standing | None = None) -> Step:
    """`best`: the incumbent's confirmed speed-up over v0 on these cases. `leader`: ahead among those still racing."""
    asked = math.log(max(best, 1.0)) + math.log1p(min_gain) - ROUNDING
    if now.high < asked or (leader is not None and now.high < leader.low - SLACK):
        return Step.DROP
    if next_look(now.blocks) is None:
        return Step.GOES if now.mean >= asked else Step.DROP
    clear = CLEAR * math.sqrt(LOOKS[-1] / now.blocks) * now.error
    return Step.GOES if now.mean >= asked and now.mean - clear > math.log(max(best, 1.0)) else Step.GO_ON
