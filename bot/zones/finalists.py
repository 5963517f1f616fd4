"""What a variant that would win is asked last: each answer takes seconds of a GPU, and changes nothing for a loser."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bot.bench.measure import Bench
from bot.model.campaign import Campaign
from bot.model.ids import VariantNumber
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile
from bot.zones.judging import verdict_on


@runtime_checkable
class AsksLast(Protocol):
    """A bench that can put a variant under tools that take their time."""

    def asked_last(self, files: tuple[SourceFile, ...], found: Measurement) -> Measurement: ...


def asked_last(
    bench: Bench, campaign: Campaign, number: VariantNumber, files: tuple[SourceFile, ...], found: Measurement
) -> Measurement:
    """The measurement with what the tools said, where it is accepted without them."""
    if not isinstance(bench, AsksLast) or not verdict_on(campaign, number, found).decision.is_accepted:
        return found
    return bench.asked_last(files, found)
