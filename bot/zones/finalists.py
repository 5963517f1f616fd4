"""What a variant that would win is asked last: each answer takes seconds of a GPU, and changes nothing for a loser."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

from bot.bench.measure import Bench
from bot.model.campaign import Campaign
from bot.model.ids import VariantNumber
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile
from bot.model.verdict import Verdict
from bot.zones.judging import verdict_on


@runtime_checkable
class AsksLast(Protocol):
    """A bench that can put a variant under tools that take their time, and make ready meanwhile what follows."""

    def asked_last(
        self,
        files: tuple[SourceFile, ...],
        found: Measurement,
        following: Callable[[], tuple[SourceFile, ...]] = tuple,
    ) -> Measurement: ...


def asked_last(
    bench: Bench,
    campaign: Campaign,
    number: VariantNumber,
    files: tuple[SourceFile, ...],
    found: Measurement,
    following: Callable[[Verdict], tuple[SourceFile, ...]] = lambda verdict: (),
    passed: Callable[[str], None] = lambda _: None,
) -> Measurement:
    """The measurement with what the tools said, where it is accepted without them. `following`: what would be measured
    next after this verdict; empty where that is not known. `passed` hears how long they took."""
    if not isinstance(bench, AsksLast):
        return found
    verdict = verdict_on(campaign, number, found)
    if not verdict.decision.is_accepted:
        return found
    asked = bench.asked_last(files, found, partial(following, verdict))
    passed(f"tools asked about v{number}, {asked.seconds - found.seconds:.0f} s")
    return asked
