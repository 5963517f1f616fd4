"""What a kernel timed against v0 block by block shows: an estimate, its interval, and whether it is faster.

Everything is a logarithm of v0's time over the variant's: above 0 the variant is faster. A process is one sample,
since what its addresses and its clocks do to both arms is the same for all of its blocks, however many there are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Protocol

from bot.analysis.distributions import student_below, student_quantile
from bot.model.measurement import Block, Reading
from bot.model.verdict import Pace

TRIM = 0.10
"""Share of the blocks left out at each end: one slow slot in ten moves nothing."""
FEWEST_BLOCKS = 12
"""A process with fewer has nothing to say."""
FEWEST_PROCESSES = 3
"""Two points always lie on a line; an interval needs a third."""
FEWEST_CONTROL_BLOCKS = 6
"""A control that lost half of its blocks still shows whether the clock moves, and must not fall silent for it."""
CONFIRM_PROCESSES = 5
"""Fewer fresh processes than this confirm nothing (evaluation 2.7)."""
SIGNIFICANCE = 0.005
"""One-sided, for a verdict: evaluation 2.7 found 0 of 3000 false accepts over 8 processes with it."""
SHOWN_CONFIDENCE = 0.95
MIN_GAIN = 0.01
MOST_SLOWER = 0.02
"""No case may be slower than v0 by more."""
NON_TARGET = 1.05
"""Most that a metric nobody aimed at may grow (BC-01: exactly this much passes)."""
SLOWER_ERROR = 0.01
"""Chance, over all cases together, of calling a case slower that is not."""
MOST_VOIDED = 0.20
"""More blocks than this thrown away, and the machine is not fit to say anything."""
RESAMPLES = 2000
FLOOR_SHARE = 0.95
ROUNDING = 1e-9
"""Logarithms of the same quotient may differ in the last bits; a limit that is met exactly stays met."""


@dataclass(frozen=True, slots=True)
class ProcessMean:
    """One fresh process: the trimmed mean of its blocks, and what its own scatter leaves open."""

    mean: float
    error: float
    middle: float
    """The median, which the cross-check is made of."""
    freedom: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """All processes together. Without three of them there is a mean and no interval."""

    mean: float
    processes: tuple[ProcessMean, ...]
    between: float
    """Standard error of the mean from the scatter of the processes; infinite where there are too few."""
    within: float
    """Standard error of the mean from the scatter of the blocks inside the processes."""

    @property
    def gain(self) -> float:
        """As people say it: 0.02 is 2 % faster."""
        return math.expm1(self.mean)

    @property
    def ratio(self) -> float:
        return math.exp(self.mean)

    @property
    def freedom(self) -> int:
        return len(self.processes) - 1

    def moved(self, by: float) -> Estimate:
        """Against something that is not v0 itself but so much faster than it."""
        return combine([replace(one, mean=one.mean + by, middle=one.middle + by) for one in self.processes])

    def scaled(self, by: float) -> Estimate:
        """As one factor among others of a score."""
        return combine(
            [replace(one, mean=by * one.mean, middle=by * one.middle, error=by * one.error) for one in self.processes]
        )

    def half_width(self, share: float) -> float:
        """Student's t over the processes, and never less than what the blocks alone leave open."""
        if math.isinf(self.between):
            return math.inf
        blocks = sum(process.freedom for process in self.processes)
        over_blocks = student_quantile(share, blocks) * self.within if self.within else 0.0
        over_processes = student_quantile(share, self.freedom) * self.between if self.between else 0.0
        return max(over_processes, over_blocks)

    def interval(self, confidence: float = SHOWN_CONFIDENCE) -> tuple[float, float]:
        """Two-sided, of the logarithm."""
        half = self.half_width((1 + confidence) / 2)
        return self.mean - half, self.mean + half

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What is shown: of the ratio. None where the processes are too few for any."""
        low, high = self.interval()
        return None if math.isinf(high) else (math.exp(low), math.exp(high))


def log_ratio(block: Block) -> float:
    """Above 0: the variant is faster. A number no clock can show is refused, never left out."""
    a, b, c, d = block
    if not (0 < a < math.inf and 0 < b < math.inf and 0 < c < math.inf and 0 < d < math.inf):
        raise ValueError("a time that is no positive number")
    return (math.log(a) + math.log(b) - math.log(c) - math.log(d)) / 2


def trimmed(values: Sequence[float], share: float = TRIM) -> tuple[float, float, int]:
    """Trimmed mean, Yuen's standard error of it (from the winsorised variance), and its degrees of freedom."""
    ordered, cut = sorted(values), int(share * len(values))
    kept = ordered[cut : len(ordered) - cut]
    mean = math.fsum(kept) / len(kept)
    if len(kept) < 2:
        return mean, math.inf, 0
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = math.fsum(winsorised) / len(winsorised)
    squares = math.fsum((value - centre) ** 2 for value in winsorised)
    return mean, math.sqrt(squares / (len(kept) * (len(kept) - 1))), len(kept) - 1


def process_mean(blocks: Sequence[Block]) -> ProcessMean:
    return _process_mean(tuple(blocks))


@lru_cache(maxsize=256)
def _process_mean(blocks: tuple[Block, ...]) -> ProcessMean:
    """Kept for a while: every guardrail asks for the same few."""
    ratios = [log_ratio(block) for block in blocks]
    mean, error, freedom = trimmed(ratios)
    return ProcessMean(mean=mean, error=error, middle=median(ratios), freedom=freedom, blocks=len(ratios))


def combine(processes: Sequence[ProcessMean]) -> Estimate:
    """The mean of the process means: each fresh process counts once, whatever the number of its blocks."""
    if not processes:
        raise ValueError("no process has read enough blocks")
    count = len(processes)
    mean = math.fsum(process.mean for process in processes) / count
    within = math.sqrt(math.fsum(process.error**2 for process in processes)) / count
    between = math.inf
    if count >= FEWEST_PROCESSES:
        squares = math.fsum((process.mean - mean) ** 2 for process in processes)
        between = math.sqrt(squares / (count * (count - 1)))
    return Estimate(mean=mean, processes=tuple(processes), between=between, within=within)


class Counted(Protocol):
    """What has blocks, and blocks that were thrown away."""

    @property
    def blocks(self) -> Sequence[Block]: ...
    @property
    def voided(self) -> int: ...


def voided_share(readings: Iterable[Counted]) -> float:
    kept, lost = 0, 0
    for reading in readings:
        kept, lost = kept + len(reading.blocks), lost + reading.voided
    return lost / (kept + lost) if lost else 0.0


def usable(readings: Sequence[Reading], fewest: int = FEWEST_BLOCKS) -> tuple[Reading, ...]:
    return tuple(reading for reading in readings if len(reading.blocks) >= fewest)


def estimate(readings: Sequence[Reading], fewest: int = FEWEST_BLOCKS) -> Estimate:
    """Raises ValueError where no process read enough, or a time is no positive number."""
    return combine([process_mean(reading.blocks) for reading in usable(readings, fewest)])


@lru_cache(maxsize=64)
def _draws(count: int) -> tuple[tuple[int, ...], ...]:
    """The same draws for everybody: a verdict computed twice is one verdict."""
    dice = random.Random(count)
    return tuple(tuple(dice.choices(range(count), k=count)) for _ in range(RESAMPLES))


def bootstrap(found: Estimate, confidence: float = SHOWN_CONFIDENCE) -> tuple[float, float]:
    """Percentile interval over resampled processes, of the mean of their medians: another statistic, another way."""
    middles = [process.middle for process in found.processes]
    if len(middles) < FEWEST_PROCESSES:
        return -math.inf, math.inf
    means = sorted(sum(map(middles.__getitem__, drawn)) / len(middles) for drawn in _draws(len(middles)))
    outside = int((1 - confidence) / 2 * RESAMPLES)
    return means[outside], means[-1 - outside]


def by_interval(found: Estimate, min_gain: float = MIN_GAIN) -> Pace:
    """FASTER and SLOWER need the size and the whole interval on one side; SAME needs the whole interval inside."""
    asked = math.log1p(min_gain) - ROUNDING
    low, high = found.interval(1 - 2 * SIGNIFICANCE)
    if low > 0 and found.mean >= asked:
        return Pace.FASTER
    if high < 0 and found.mean <= -asked:
        return Pace.SLOWER
    return Pace.SAME if -asked < low and high < asked else Pace.AMBIGUOUS


def pace(found: Estimate, min_gain: float = MIN_GAIN) -> Pace:
    """The verdict: what the interval says, unless the medians of the processes do not bear it out."""
    said = by_interval(found, min_gain)
    low, high = bootstrap(found) if said in (Pace.FASTER, Pace.SLOWER) else (0.0, 0.0)
    contradicted = (said is Pace.FASTER and not low > 0) or (said is Pace.SLOWER and not high < 0)
    return Pace.AMBIGUOUS if contradicted else said


def slower_p(found: Estimate, limit: float = MOST_SLOWER) -> float:
    """How likely so slow a reading is where the case is slower by just the limit. 1 where there is no interval."""
    error = max(found.between, found.within)
    if math.isinf(error):
        return 1.0
    beyond = found.mean + math.log1p(limit)
    if error == 0:
        return 0.0 if beyond < 0 else 1.0
    return student_below(beyond / error, found.freedom)


def holm(chances: Sequence[float], error: float = SLOWER_ERROR) -> tuple[bool, ...]:
    """Which of several tests hold when the chance of any false one is to stay below `error`."""
    held = [False] * len(chances)
    for rank, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        if chances[i] > error / (len(chances) - rank):
            break
        held[i] = True
    return tuple(held)


def clearly_slower(
    found: Sequence[Estimate], limit: float = MOST_SLOWER, error: float = SLOWER_ERROR
) -> tuple[bool, ...]:
    """Of several cases, those that are slower by more than the limit: one-sided, corrected after Holm."""
    return holm([slower_p(one, limit) for one in found], error)


def noise_floor(controls: Sequence[Estimate]) -> float:
    """What v0 against itself shows: the 95th percentile of the size of its estimates, as a gain. 0 where none is."""
    sizes = sorted(math.expm1(abs(control.mean)) for control in controls)
    return sizes[math.ceil(FLOOR_SHARE * len(sizes)) - 1] if sizes else 0.0


def effective_min_gain(controls: Sequence[Estimate], policy: float = MIN_GAIN) -> float:
    """Nothing below twice what nothing at all shows on this machine."""
    return max(policy, 2 * noise_floor(controls))
