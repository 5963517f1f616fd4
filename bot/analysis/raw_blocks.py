"""What fresh processes read in a calibration, as its file holds it, and whether that is enough to say anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from bot.analysis.paired import (
    CONFIRM_PROCESSES,
    FEWEST_BLOCKS,
    MOST_VOIDED,
    ProcessMean,
    process_mean,
    voided_share,
)
from bot.errors import CorruptRecord
from bot.model.word import Word

SizeClass: TypeAlias = Literal["<20us", "~100us", ">1ms"]
CLASSES: tuple[SizeClass, ...] = ("<20us", "~100us", ">1ms")
SHORT_US, LONG_US = 20.0, 1000.0
Us: TypeAlias = Annotated[float, Field(gt=0)]
Four: TypeAlias = tuple[Us, Us, Us, Us]
"""v0, v0, variant, variant."""


class ProcessBlocks(Word):
    process: int
    blocks: tuple[Four, ...] = Field(min_length=1)
    voided: int = Field(default=0, ge=0)


def no_process_twice(processes: Iterable[int], where: str) -> None:
    """One process read twice would count as two samples and is one."""
    twice = [process for process, times in Counter(processes).items() if times > 1]
    if twice:
        raise CorruptRecord(f"{where}: process {twice[0]} appears twice")


def class_of(us: float) -> SizeClass:
    return "<20us" if us < SHORT_US else ">1ms" if us > LONG_US else "~100us"


def size_of(readings: Iterable[ProcessBlocks]) -> SizeClass:
    """As v0's own slots say."""
    return class_of(median(us for one in readings for block in one.blocks for us in block[:2]))


def means(readings: Iterable[ProcessBlocks]) -> list[tuple[int, ProcessMean]]:
    return [(one.process, process_mean(one.blocks)) for one in readings if len(one.blocks) >= FEWEST_BLOCKS]


def unfit(readings: Sequence[ProcessBlocks]) -> str:
    """Why nothing is concluded from them; empty where something is."""
    count, lost = len(means(readings)), voided_share(readings)
    if count < CONFIRM_PROCESSES:
        return f"{count} processes read enough, not {CONFIRM_PROCESSES}"
    return f"{100 * lost:.0f} % of its blocks were voided" if lost > MOST_VOIDED else ""
