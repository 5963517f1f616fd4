"""How good the judge's clock is, recomputed from raw blocks: false accepts, planted effects, errors, floors.

A calibration is one JSON object, and several files add up:

    {"machine": {...}, "command": "how it was made",
     "trials": [{"kernel": "rms_norm", "class": "~100us", "planted": 2.0, "truth": "rms_norm +2" or null,
                 "readings": [{"process": 7, "blocks": [[v0, v0, variant, variant], ...]}]}],
     "truths": {"rms_norm +2": [readings]},
     "nulls": [{"kernel": "rms_norm", "class": "~100us", "variants": [17, 3, ...], "chosen": 3,
                "searched": {"process": 8, "blocks": [[blocks of 17], [blocks of 3], ...]},
                "readings": [{"process": 9, "blocks": [...]}]}]}

Times are microseconds. `planted` is in percent, above 0 is faster, 0 is v0 against itself. `process` names one fresh
process of the file; it may have read several trials. `truth` may also be the readings themselves. It counts with
2000 blocks over 20 processes, none of them the trial's own; where no truth is given, A against A is 0 by definition
and a planted effect has none, since what was planted is not what it costs. `nulls` are null campaigns, if there are any
(bot/analysis/nulls.py).
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from bot.analysis.distributions import share_at_least, share_at_most
from bot.analysis.nulls import NullCampaign, Nulls, check_null, judge_nulls
from bot.analysis.paired import (
    CONFIRM_PROCESSES,
    FLOOR_SHARE,
    Estimate,
    ProcessMean,
    by_interval,
    combine,
    effective_min_gain,
    noise_floor,
    pace,
)
from bot.analysis.raw_blocks import CLASSES, ProcessBlocks, SizeClass, means, no_process_twice, size_of, unfit
from bot.errors import CorruptRecord
from bot.model.verdict import Pace
from bot.model.word import Word

TRUTH_BLOCKS, TRUTH_PROCESSES = 2000, 20
RESAMPLES = 200
FEWEST_KNOTS = 5
"""Sets of processes that share no trial; fewer say nothing of how a median would move."""


class Trial(Word):
    model_config = ConfigDict(populate_by_name=True)

    kernel: str
    size_class: SizeClass = Field(alias="class")
    planted: float
    truth: str | tuple[ProcessBlocks, ...] | None = None
    readings: tuple[ProcessBlocks, ...] = Field(min_length=1)


class Calibration(Word):
    machine: dict[str, JsonValue]
    command: str
    trials: tuple[Trial, ...]
    truths: dict[str, tuple[ProcessBlocks, ...]] = Field(default_factory=dict)
    nulls: tuple[NullCampaign, ...] = ()


class Share(Word):
    """So many of so many; both bounds are one-sided at 95 %: exact, and by resampling the processes."""

    hits: int
    tries: int
    at_least: float
    at_most: float
    resampled_low: float | None = None
    resampled_high: float | None = None


class Planted(Word):
    """What became of one planted effect; 0 is A against A."""

    percent: float
    found: Share
    """Called what it is: FASTER above 0, SLOWER below, neither at 0."""
    accepted: Share
    """Called FASTER in enough processes: what would have shipped."""
    ambiguous: int


class Errors(Word):
    """How far the estimates lie from the truth, in percentage points."""

    trials: int
    median: float
    median_low: float | None
    median_high: float | None
    """Of the median, two-sided 95 %, by resampling sets of processes; None where there are too few sets."""
    p95: float
    coverage: Share
    """Truths inside the 95 % interval."""


class Group(Word):
    """All trials of one size of kernel, or of several sizes."""

    name: str
    trials: int
    floor_percent: float | None
    """95th percentile of the size of the confirmed A/A estimates; None where none was tried."""
    min_gain_percent: float
    planted: tuple[Planted, ...]
    errors: Errors | None


class Report(Word):
    machines: tuple[dict[str, JsonValue], ...]
    commands: tuple[str, ...]
    groups: tuple[Group, ...]
    set_aside: tuple[str, ...]
    """What was not counted as the file would have it, and why."""
    nulls: Nulls | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One trial, as its blocks show it."""

    name: str
    planted: float
    size_class: SizeClass
    processes: tuple[tuple[tuple[int, int], ProcessMean], ...]
    """By file and process."""
    truth: float | None

    def estimate(self) -> Estimate:
        return combine([mean for _, mean in self.processes])

    def redrawn(self, drawn: Mapping[tuple[int, int], int]) -> Estimate | None:
        means = [mean for process, mean in self.processes for _ in range(drawn[process])]
        return combine(means) if len(means) >= CONFIRM_PROCESSES else None


def parse(text: bytes | str, what: str) -> Calibration:
    """Raises CorruptRecord that names the place."""
    try:
        found = Calibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise CorruptRecord(f"{what} is no calibration: {place}: {first['msg']}") from error
    if not found.trials and not found.nulls:
        raise CorruptRecord(f"{what} is no calibration: trials: there is none, and no null campaign")
    for number, trial in enumerate(found.trials):
        no_process_twice((one.process for one in trial.readings), f"{what}: trial {number}")
        if isinstance(trial.truth, str) and trial.truth not in found.truths:
            raise CorruptRecord(f"{what}: trial {number}: there is no truth called {json.dumps(trial.truth)}")
    for name, readings in found.truths.items():
        no_process_twice((one.process for one in readings), f"{what}: truth {json.dumps(name)}")
    for number, campaign in enumerate(found.nulls):
        check_null(campaign, f"{what}: null campaign {number}")
    return found


class _Reader:
    """Turns trials into estimates, and keeps what it could not count."""

    def __init__(self) -> None:
        self.set_aside: list[str] = []
        self._truths: dict[tuple[int, str], float] = {}

    def trials(self, calibrations: Sequence[Calibration]) -> Iterator[Read]:
        for file, calibration in enumerate(calibrations):
            for number, trial in enumerate(calibration.trials):
                name = f"file {file + 1}, trial {number} ({trial.kernel}, {trial.planted:+g} %)"
                if why := unfit(trial.readings):
                    self.set_aside.append(f"{name}: {why}: no trial")
                    continue
                found = tuple(((file, process), mean) for process, mean in means(trial.readings))
                size = size_of(trial.readings)
                if size != trial.size_class:
                    self.set_aside.append(f"{name}: v0's blocks say {size}, not {trial.size_class}: counted there")
                truth = self._truth(name, file, trial, calibration)
                yield Read(name=name, planted=trial.planted, size_class=size, processes=found, truth=truth)

    def _truth(self, name: str, file: int, trial: Trial, calibration: Calibration) -> float | None:
        if trial.truth is None:
            return 0.0 if trial.planted == 0 else None
        readings = calibration.truths[trial.truth] if isinstance(trial.truth, str) else trial.truth
        own = {one.process for one in trial.readings} & {one.process for one in readings}
        blocks = sum(len(one.blocks) for one in readings)
        if own:
            self.set_aside.append(f"{name}: its truth was read in its own process {min(own)}: no truth")
            return None
        if blocks < TRUTH_BLOCKS or len(readings) < TRUTH_PROCESSES:
            self.set_aside.append(f"{name}: its truth has {blocks} blocks of {len(readings)} processes: no truth")
            return None
        if not isinstance(trial.truth, str):
            return combine([mean for _, mean in means(readings)]).mean
        key = (file, trial.truth)
        if key not in self._truths:
            self._truths[key] = combine([mean for _, mean in means(readings)]).mean
        return self._truths[key]


def _tied(trials: Sequence[Read]) -> list[list[tuple[int, int]]]:
    """Processes tied together by the trials they share; each knot is redrawn on its own."""
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(process: tuple[int, int]) -> tuple[int, int]:
        while parent.setdefault(process, process) != process:
            parent[process] = process = parent[parent[process]]
        return process

    for trial in trials:
        first = root(trial.processes[0][0])
        for process, _ in trial.processes:
            parent[root(process)] = first
    knots: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for process in sorted(parent):
        knots.setdefault(root(process), []).append(process)
    return list(knots.values())


def _redraws(trials: Sequence[Read]) -> Iterator[list[Estimate | None]]:
    """Each trial as other draws of its processes would have shown it; trials that share processes share the draw."""
    dice, knots = random.Random(len(trials)), _tied(trials)
    for _ in range(RESAMPLES):
        drawn: Counter[tuple[int, int]] = Counter()
        for knot in knots:
            drawn.update(dice.choices(knot, k=len(knot)))
        yield [trial.redrawn(drawn) for trial in trials]


def _redrawn_medians(errors: Sequence[tuple[Read, float]]) -> Iterator[float]:
    """Whole knots are drawn, with all that their processes read: a redraw inside one would add scatter to an error."""
    knots = _tied([trial for trial, _ in errors])
    held = {process: number for number, knot in enumerate(knots) for process in knot}
    groups: list[list[float]] = [[] for _ in knots]
    for trial, error in errors:
        groups[held[trial.processes[0][0]]].append(error)
    dice = random.Random(len(errors))
    for _ in range(RESAMPLES if len(groups) >= FEWEST_KNOTS else 0):
        yield median(error for group in dice.choices(groups, k=len(groups)) for error in group)


Test: TypeAlias = Callable[[Read, Estimate, Pace], bool]


def _is_found(trial: Read, _: Estimate, said: Pace) -> bool:
    if trial.planted == 0:
        return said not in (Pace.FASTER, Pace.SLOWER)
    return said is (Pace.FASTER if trial.planted > 0 else Pace.SLOWER)


def _is_accepted(_: Read, __: Estimate, said: Pace) -> bool:
    return said is Pace.FASTER


def _covers(trial: Read, found: Estimate, _: Pace) -> bool:
    low, high = found.interval()
    return trial.truth is not None and low <= trial.truth <= high


def _off(trial: Read, found: Estimate) -> float:
    assert trial.truth is not None
    return 100 * abs(found.gain - math.expm1(trial.truth))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that so many do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


class _Sheet:
    """All trials with their verdicts, and the same again for every redraw of the processes; figures are of a choice.

    Redraws are judged by the interval alone: resampling inside resampling would take hours and say no more.
    """

    def __init__(self, trials: Sequence[Read], min_gains: Mapping[SizeClass, float]) -> None:
        self.trials = trials
        found = [trial.estimate() for trial in trials]
        gains = [min_gains[trial.size_class] for trial in trials]
        self.seen = [(e, pace(e, gain)) for e, gain in zip(found, gains, strict=True)]
        self.redrawn = [
            [(e, by_interval(e, gain)) if e else None for e, gain in zip(row, gains, strict=True)]
            for row in _redraws(trials)
        ]

    def _share(self, chosen: Sequence[int], holds: Test) -> Share:
        hits = sum(holds(self.trials[i], *self.seen[i]) for i in chosen)
        shares = []
        for row in self.redrawn:
            kept = [holds(self.trials[i], *seen) for i in chosen if (seen := row[i]) is not None]
            shares += [sum(kept) / len(kept)] if kept else []
        return Share(
            hits=hits,
            tries=len(chosen),
            at_least=share_at_least(hits, len(chosen)),
            at_most=share_at_most(hits, len(chosen)),
            resampled_low=percentile(shares, 0.05) if shares else None,
            resampled_high=percentile(shares, 0.95) if shares else None,
        )

    def planted(self, chosen: Sequence[int]) -> Iterator[Planted]:
        for percent in sorted({self.trials[i].planted for i in chosen}):
            alike = [i for i in chosen if self.trials[i].planted == percent]
            yield Planted(
                percent=percent,
                found=self._share(alike, _is_found),
                accepted=self._share(alike, _is_accepted),
                ambiguous=sum(self.seen[i][1] is Pace.AMBIGUOUS for i in alike),
            )

    def errors(self, chosen: Sequence[int]) -> Errors | None:
        chosen = [i for i in chosen if self.trials[i].truth is not None]
        if not chosen:
            return None
        off = [_off(self.trials[i], self.seen[i][0]) for i in chosen]
        medians = list(_redrawn_medians([(self.trials[i], error) for i, error in zip(chosen, off, strict=True)]))
        return Errors(
            trials=len(chosen),
            median=median(off),
            median_low=percentile(medians, 0.025) if medians else None,
            median_high=percentile(medians, 0.975) if medians else None,
            p95=percentile(off, FLOOR_SHARE),
            coverage=self._share(chosen, _covers),
        )


def _controls(trials: Iterable[Read]) -> list[Estimate]:
    return [trial.estimate() for trial in trials if trial.planted == 0]


def _group(name: str, sheet: _Sheet, sizes: Sequence[SizeClass], min_gains: Mapping[SizeClass, float]) -> Group | None:
    chosen = [i for i, trial in enumerate(sheet.trials) if trial.size_class in sizes]
    controls = _controls(sheet.trials[i] for i in chosen)
    if not chosen:
        return None
    return Group(
        name=name,
        trials=len(chosen),
        floor_percent=100 * noise_floor(controls) if controls else None,
        min_gain_percent=100 * max(min_gains[sheet.trials[i].size_class] for i in chosen),
        planted=tuple(sheet.planted(chosen)),
        errors=sheet.errors(chosen),
    )


def report(calibrations: Sequence[Calibration]) -> Report:
    """Every figure, from the blocks of all files together."""
    reader = _Reader()
    trials = list(reader.trials(calibrations))
    min_gains = {size: effective_min_gain(_controls(t for t in trials if t.size_class == size)) for size in CLASSES}
    sheet = _Sheet(trials, min_gains)
    named: list[tuple[str, tuple[SizeClass, ...]]] = [(size, (size,)) for size in CLASSES]
    named += [(">=20us", ("~100us", ">1ms")), ("all", CLASSES)]
    groups = (_group(name, sheet, sizes, min_gains) for name, sizes in named)
    campaigns, not_counted = judge_nulls([found.nulls for found in calibrations], min_gains)
    return Report(
        machines=tuple(found.machine for found in calibrations),
        commands=tuple(found.command for found in calibrations),
        groups=tuple(group for group in groups if group),
        set_aside=(*reader.set_aside, *not_counted),
        nulls=campaigns,
    )
