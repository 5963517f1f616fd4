"""Forward is not bought with backward, nor backward with forward (L-49, BC-02)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from bot.guardrails.hearing import ROUNDING, Weighed, reject
from bot.model.verdict import CaseScore, Finding

NAME = "cross_pass"
MOST = 1.10
"""Of v0's time: exactly this much passes."""


def _pairs(weighed: Weighed) -> Iterator[tuple[CaseScore, CaseScore]]:
    """Forward and backward of one shape and type, once each way round."""
    scores = {case.case: case for case in weighed.score.cases}
    passes: dict[tuple[object, ...], list[CaseScore]] = {}
    for case in weighed.hearing.suite.cases:
        if case.id in scores:
            passes.setdefault((case.shape, case.dtype, case.direction), []).append(scores[case.id])
    for (shape, dtype, direction), forward in passes.items():
        if direction == "forward":
            backward = passes.get((shape, dtype, "backward"), [])
            yield from product(forward, backward)
            yield from product(backward, forward)


def _paid(loser: CaseScore, gainer: CaseScore) -> bool:
    """Asked the wrong way round on purpose: a time that is no number has not kept the limit."""
    improved = not gainer.after_us >= gainer.before_us * (1 - ROUNDING)
    return improved and not loser.after_us <= loser.before_us * MOST * (1 + ROUNDING)


def cross_pass(weighed: Weighed) -> list[Finding]:
    return [
        reject(
            NAME, f"{weighed.case_is_slower(loser)} while {gainer.case} gained; at most 10 % may be paid", loser.case
        )
        for loser, gainer in _pairs(weighed)
        if _paid(loser, gainer)
    ]
