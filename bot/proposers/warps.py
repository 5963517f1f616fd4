"""Twice or half as many warps for a kernel that an accepted rewrite has changed.

A launch's warps were chosen for the kernel as it was: one that now holds several rows, or waits for none, may want
others. Nothing that the model counts says which, so only a GPU is asked; and each answer is a round like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bot.campaign.lineage import FEWER_WARPS, MORE_WARPS
from bot.engine import launch_numbers
from bot.engine.most_warps import MOST_WARPS
from bot.engine.source import NotUnderstood
from bot.model.variant import Hypothesis, Proposal
from bot.proposers.brief import Brief
from bot.proposers.forecast import UNSEEN


@dataclass(frozen=True, slots=True)
class Way:
    """One way to go, for as long as it is accepted."""

    technique: str
    words: str
    more: bool
    last: int
    """Where no launch may go on from."""


WAYS = (
    Way(MORE_WARPS, "Twice as many warps", more=True, last=MOST_WARPS),
    Way(FEWER_WARPS, "Half as many warps", more=False, last=1),
)


def _warps_of(brief: Brief) -> dict[str, set[int]]:
    """For each changed kernel the warps it is launched with, the kernel that takes most time first."""
    found: dict[str, set[int]] = {}
    slowest = sorted(brief.facts.cases, key=lambda case: -(case.timing.median_us if case.timing else 0.0))
    for launch in (launch for case in slowest for launch in case.launches):
        if not brief.untouched(launch.kernel):
            found.setdefault(launch.kernel, set()).add(launch.num_warps)
    return found


def _may_go(brief: Brief, way: Way, kernel: str, warps: set[int]) -> bool:
    """Not past the end, not twice after a no, and not back after the other way was right."""
    earlier = brief.rounds_with(f"{way.technique}:{kernel}")
    others = [one for other in WAYS if other is not way for one in brief.rounds_with(f"{other.technique}:{kernel}")]
    refused = bool(earlier) and not earlier[-1].is_accepted
    return way.last not in warps and not refused and not any(one.is_accepted for one in others)


def _proposal(brief: Brief, way: Way, kernel: str, warps: set[int], by: str) -> Proposal | None:
    file = brief.file_of(kernel)
    why = f"{way.words} as is usual for the block."
    try:
        text = launch_numbers.with_other_warps(file.text, kernel, more=way.more, why=why) if file is not None else ""
    except NotUnderstood:
        return None
    if file is None or text == file.text:
        return None
    now = ", ".join(map(str, sorted(warps)))
    hypothesis = Hypothesis(
        title=f"{way.words} for {kernel}",
        why=f"{kernel} is not what it was when its warps ({now}) were chosen: v{brief.incumbent} changed its work.",
        expected=UNSEEN,
        technique=f"{way.technique}:{kernel}",
        references=brief.references,
    )
    return Proposal(files=brief.with_text(file.path, text), hypothesis=hypothesis, proposer=by)


def ideas(brief: Brief, by: str, but: Collection[str] = ()) -> Iterator[Proposal]:
    if not brief.is_measured or not brief.incumbent:
        return
    raced = {numbers.kernel for racer in brief.race.others for numbers in racer.numbers} if brief.race else set()
    for kernel, warps in _warps_of(brief).items():
        if kernel in raced or kernel in but:  # and was asked already, or is, with all the others
            continue
        for way in WAYS:
            found = _proposal(brief, way, kernel, warps, by) if _may_go(brief, way, kernel, warps) else None
            if found is not None:
                yield found
