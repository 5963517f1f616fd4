"""The line of the status comment that says when a person may look again.

Nobody can take it back when the job begins: what works on a GPU holds no token for the conversation. So it says how it
was when it was written, which stays true while the job works.
"""

from __future__ import annotations

from bot.model.wait import Wait
from bot.render import numbers

MINUTE = 60


def _span(low_s: float, high_s: float) -> str:
    if high_s < MINUTE:
        return "less than a minute"
    low, high = round(low_s / MINUTE), max(1, round(high_s / MINUTE))
    if low == high:
        return f"about {numbers.many(high, 'minute')}"
    return f"about {max(low, 1)} to {high} minutes" if low else f"at most {numbers.many(high, 'minute')}"


def line(wait: Wait | None) -> str:
    if wait is None:
        return ""
    before = {0: "no other job was", 1: "1 job was"}.get(wait.ahead, f"{wait.ahead} jobs were")
    place = f"Handed to the runner; when this was written, {before} before it."
    if wait.low_s is None or wait.high_s is None:
        return f"{place} How long it takes cannot be said: too few such jobs have run here."
    jobs = f"the last {wait.samples} {wait.phase} jobs here"
    return f"{place} Expect {_span(wait.low_s, wait.high_s)} from then on, going by {jobs}."
