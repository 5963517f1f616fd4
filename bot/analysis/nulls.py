"""Null campaigns, recomputed from raw blocks: many that are v0 in other words are searched, the one that looks fastest
is confirmed in fresh processes, and nothing may be accepted.

How much the best looked faster is what luck alone gives to whoever publishes a search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from pydantic import ConfigDict, Field

from bot.analysis.distributions import share_at_most
from bot.analysis.paired import MOST_VOIDED, combine, pace, process_mean
from bot.analysis.racing import LOOKS
from bot.analysis.raw_blocks import CLASSES, Four, ProcessBlocks, SizeClass, means, no_process_twice, size_of, unfit
from bot.errors import CorruptRecord
from bot.model.measurement import Block
from bot.model.verdict import Pace
from bot.model.word import Word

VARIANTS = 64
"""Searched in one campaign; the best of fewer is luckier less often."""
FEWEST_SEARCHED = LOOKS[0] // 2
"""Blocks. Who has fewer was far behind, or was disturbed too often, and wins no race."""


class Searched(Word):
    """What one process read of all of them, in their order."""

    process: int
    blocks: tuple[tuple[Four, ...], ...]
    voided: int = Field(default=0, ge=0)

    @property
    def voided_share(self) -> float:
        return self.voided / (self.voided + sum(map(len, self.blocks)) or 1)


class NullCampaign(Word):
    model_config = ConfigDict(populate_by_name=True)

    kernel: str
    size_class: SizeClass = Field(alias="class")
    variants: tuple[int, ...]
    """Which of the recorded kernels were searched: each has a binary of its own."""
    searched: Searched
    chosen: int
    """Which of the recorded kernels was confirmed."""
    readings: tuple[ProcessBlocks, ...] = Field(min_length=1)


class NullVerdict(Word):
    """One campaign."""

    name: str
    size_class: SizeClass
    best: int
    looked_percent: float
    """How much faster it seemed in the search."""
    confirmed_percent: float
    """What fresh processes say of the same one."""
    said: Pace


class NullGroup(Word):
    """All campaigns of one size of kernel, or all."""

    name: str
    campaigns: int
    accepted: int
    at_most: float
    """Share that would be accepted: exact, one-sided at 95 %."""
    looked_percent: float
    confirmed_percent: float
    """Medians."""
    min_gain_percent: float


class Nulls(Word):
    groups: tuple[NullGroup, ...]
    """The last is of all."""
    campaigns: tuple[NullVerdict, ...]


def best(searched: Sequence[Sequence[Block]]) -> int | None:
    """The place of the one that looks fastest; None where too little was read of all."""
    seen = {place: process_mean(blocks).mean for place, blocks in enumerate(searched) if len(blocks) >= FEWEST_SEARCHED}
    return max(seen, key=seen.__getitem__) if seen else None


def check_null(campaign: NullCampaign, where: str) -> None:
    """Raises CorruptRecord where it cannot have been read like that."""
    no_process_twice([campaign.searched.process, *(one.process for one in campaign.readings)], where)
    twice = [number for number, times in Counter(campaign.variants).items() if times > 1]
    if twice:
        raise CorruptRecord(f"{where}: kernel {twice[0]} was searched twice")
    count, read = len(campaign.variants), len(campaign.searched.blocks)
    if count != read:
        raise CorruptRecord(f"{where}: {count} kernels were searched, and there are blocks of {read}")
    found = best(campaign.searched.blocks)
    looked = "none" if found is None else f"kernel {campaign.variants[found]}"
    if looked != f"kernel {campaign.chosen}":
        raise CorruptRecord(f"{where}: kernel {campaign.chosen} was confirmed, but the blocks say {looked} was best")


def _why_not(campaign: NullCampaign) -> str:
    if len(campaign.variants) < VARIANTS:
        return f"{len(campaign.variants)} were searched, not {VARIANTS}"
    if (lost := campaign.searched.voided_share) > MOST_VOIDED:
        return f"{100 * lost:.0f} % of what was searched was voided"
    return unfit(campaign.readings)


def _verdict(name: str, campaign: NullCampaign, min_gains: Mapping[SizeClass, float]) -> NullVerdict:
    size = size_of(campaign.readings)
    looked = process_mean(campaign.searched.blocks[campaign.variants.index(campaign.chosen)])
    found = combine([mean for _, mean in means(campaign.readings)])
    return NullVerdict(
        name=name,
        size_class=size,
        best=campaign.chosen,
        looked_percent=100 * math.expm1(looked.mean),
        confirmed_percent=100 * found.gain,
        said=pace(found, min_gains[size]),
    )


def _group(name: str, some: Sequence[NullVerdict], min_gains: Mapping[SizeClass, float]) -> NullGroup:
    accepted = sum(one.said is Pace.FASTER for one in some)
    return NullGroup(
        name=name,
        campaigns=len(some),
        accepted=accepted,
        at_most=share_at_most(accepted, len(some)),
        looked_percent=median(one.looked_percent for one in some),
        confirmed_percent=median(one.confirmed_percent for one in some),
        min_gain_percent=100 * max(min_gains[one.size_class] for one in some),
    )


def _groups(found: Sequence[NullVerdict], min_gains: Mapping[SizeClass, float]) -> Iterator[NullGroup]:
    for size in CLASSES:
        if some := [one for one in found if one.size_class == size]:
            yield _group(size, some, min_gains)
    yield _group("all", found, min_gains)


def judge_nulls(
    files: Sequence[Sequence[NullCampaign]], min_gains: Mapping[SizeClass, float]
) -> tuple[Nulls | None, list[str]]:
    """By the rule that decides a trial, and what was set aside. What a campaign itself shows moves no limit: a false
    gain would ask for twice as much and never be one."""
    found, set_aside = [], []
    for file, campaigns in enumerate(files):
        for number, campaign in enumerate(campaigns):
            name = f"file {file + 1}, null campaign {number} ({campaign.kernel})"
            if why := _why_not(campaign):
                set_aside.append(f"{name}: {why}: no campaign")
                continue
            one = _verdict(name, campaign, min_gains)
            if one.size_class != campaign.size_class:
                told = f"v0's blocks say {one.size_class}, not {campaign.size_class}: counted there"
                set_aside.append(f"{name}: {told}")
            found.append(one)
    return (Nulls(groups=tuple(_groups(found, min_gains)), campaigns=tuple(found)) if found else None), set_aside
