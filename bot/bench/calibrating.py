"""Times pairs whose answer is known, in many fresh processes: the raw blocks that `verify` recomputes figures from."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bot.analysis.nulls import VARIANTS
from bot.bench import nulls, overlay, planted
from bot.bench.bailiff import Judge
from bot.bench.cell import Cells, places, run_cell
from bot.bench.clearing import clear
from bot.bench.lanes import lanes_for
from bot.bench.launcher import Limits
from bot.bench.planted import Size
from bot.bench.suitcase import pack
from bot.errors import OperatorError
from bot.model.measurement import Fault
from bot.worker.contract import Argument, Call, Plan, PlanRequest, Shape
from bot.worker.contract.gpu import GpuAnswer, GpuRequest
from bot.worker.contract.timing import (
    Blocks,
    BlocksRequest,
    Closed,
    CloseRequest,
    Common,
    CommonRequest,
    Opened,
    OpenRequest,
    Started,
    StartRequest,
)

Told = TypeVar("Told", Blocks, Common)
ARMS_AT_ONCE = 8
"""Pairs that share addresses; the next ones lie elsewhere."""
NULL_KERNELS = 120
"""Of each size, beside v0: every null campaign draws its own from these."""
SHORT_US, LONG_US = 20.0, 1000.0


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    trials: tuple[tuple[float, int], ...]
    """(planted percent, pairs over all sizes)"""
    processes: int = 6
    waves: int = 3
    """Each pair is read in all processes of one wave; a wave that was begun is finished, or counts for nothing."""
    binaries: int = 121
    cells: int = 6
    """Workers that compile and record side by side, before any clock runs."""
    truth_processes: int = 20
    truth_blocks: int = 100
    nulls: int = 0
    """Null campaigns, of one size after the other."""


def amounts(trials: int, nulls: int = 0) -> Amounts:
    """`trials` pairs of v0 against itself, as many of the two effects that are promised on, fewer of the others."""
    found = _of_trials(trials) if trials else Amounts(trials=(), waves=0, binaries=1)
    return replace(found, nulls=nulls, binaries=max(found.binaries, 1 + NULL_KERNELS)) if nulls else found


def _of_trials(trials: int) -> Amounts:
    many = {-2.0: trials, 2.0: trials + trials // 9}
    effects = [(percent, many.get(percent, max(5, trials // 6))) for percent in planted.PLANTED]
    return Amounts(trials=((0.0, trials), *effects), binaries=1 + max(2, round(trials * planted.SIZES[0].share)))


def _of(size: Size, count: int) -> int:
    return max(1, round(count * size.share))


@dataclass(frozen=True)
class Pair:
    """One trial: which recording stands against v0's, and in which wave of processes it is read."""

    size: Size
    percent: float
    folder: Path
    wave: int


def _call(call: Call, size: Size, extra: int, which: int, name: str) -> Call:
    constants = {"turns": size.turns, "extra": extra, "which": which}
    arguments = tuple(Argument(a.name, a.tensor, constants.get(a.name, a.value)) for a in call.arguments)
    return replace(call, case=name, arguments=arguments)


def _right(told: Told) -> Told:
    if told.wrong:
        raise OperatorError(f"a calibration kernel is wrong: {told.wrong}", hint="run `doctor`")
    return told


class Calibrating:
    """One calibration on this machine's GPU."""

    def __init__(self, cells: Cells, seed: int, wanted: Amounts, say: Callable[[str], None]) -> None:
        assert cells.gpu is not None
        self._cells, self._wanted, self._say = cells, wanted, say
        self._rng = random.Random(seed)
        self._site, suite = planted.write(cells.scratch / "tree", wanted.binaries, seed)
        pack("judge", cells.scratch / "judge")
        self._judge = Judge(cells.python, cells.scratch / "judge", cells.scratch / "judge-home", cells.gpu)
        shapes = tuple(Shape(case.id, case.direction, case.shape, case.dtype) for case in suite.cases)
        request = PlanRequest("plan", "calibration", shapes, (), seed, str(cells.scratch), cells.gpu.uuid)
        self._calls = {case.call.case: case.call for case in self._judge.ask(request, Plan).cases}
        self._lanes: dict[str, int] = {}
        self._times: dict[str, list[float]] = {}
        self._equals: dict[str, dict[int, Path]] = {}
        """By size: recordings of all that are v0 in other words, by number."""

    def close(self) -> None:
        self._judge.close()
        clear(self._cells.scratch)

    # -- recordings -------------------------------------------------------------------------------------------

    def _orders(self) -> dict[str, tuple[Size, float, int, int]]:
        """What is recorded, by name: every binary against v0, and each effect with as many binaries as trials."""
        found: dict[str, tuple[Size, float, int, int]] = {}
        for size in planted.SIZES:
            for percent, count in self._wanted.trials:
                for place in range(min(_of(size, count), self._wanted.binaries - 1)):
                    # The scored case itself keeps its name: the first recording of a size is v0's.
                    found[f"{size.name}|{percent}|{place}"] = (size, percent, size.extra(percent), 1 + place)
        for size in planted.SIZES[: self._wanted.nulls]:
            for place in range(NULL_KERNELS):
                percent = 0.0
                found.setdefault(f"{size.name}|{percent}|{place}", (size, percent, size.extra(percent), 1 + place))
        return found

    def _record(self, name: str, calls: tuple[Call, ...]) -> dict[str, Path]:
        request_folder = self._cells.scratch / f"{name}-request"
        request_folder.mkdir()
        where = places(self._cells, name, self._cells.scratch / "tree" / "src", request_folder)
        files = overlay.base_files(self._cells.scratch / "tree", self._site)
        subject = overlay.subject(self._site, files, self._cells.sandbox.path_of(where.source))
        request = GpuRequest("gpu", subject, (), calls, (("x", "signal"),), brief=True)
        answer = run_cell(self._cells, where, request, GpuAnswer, Limits(500, 24 * 2**30), {})
        if isinstance(answer, Fault):
            raise OperatorError(f"the calibration kernels do not run here: {answer.detail}", hint="run `doctor`")
        bad = next((r for r in answer.recordings if not r.folder), None)
        if bad is not None:
            why = bad.why_not or (bad.refusal.detail if bad.refusal is not None else "")
            raise OperatorError(f"the calibration kernels cannot be recorded here: {why}", hint="run `doctor`")
        return {r.case: where.answer.host / r.folder for r in answer.recordings}

    def record(self) -> tuple[dict[str, Path], list[Pair]]:
        """(v0 by size, all pairs)"""
        orders = self._orders()
        stock = {s.name: _call(self._calls[s.name], s, s.extra(0.0), 0, s.name) for s in planted.SIZES}
        calls = [_call(self._calls[s.name], s, extra, which, n) for n, (s, _, extra, which) in orders.items()]
        with ThreadPoolExecutor(max_workers=self._wanted.cells) as threads:
            # Each compiles its own share of the kernels, in all sizes.
            shares = [tuple(stock.values())] + [
                tuple(c for c, (_, _, _, which) in zip(calls, orders.values(), strict=True) if which % cells == number)
                for cells in (self._wanted.cells,)
                for number in range(cells)
            ]
            parts = threads.map(lambda share: self._record(f"recordings-{share[0]}", share[1]), enumerate(shares))
            folders = {case: folder for part in parts for case, folder in part.items()}
        for name, (size, percent, _, which) in orders.items():
            if percent == 0:
                self._equals.setdefault(size.name, {})[which] = folders[name]
        pairs = []
        for size in planted.SIZES:
            for percent, count in self._wanted.trials:
                known = [folders[n] for n, (s, p, _, _) in orders.items() if s is size and p == percent]
                for place in range(_of(size, count)):
                    pairs.append(Pair(size, percent, known[place % len(known)], place % self._wanted.waves))
        return {name: folders[name] for name in stock}, pairs

    # -- clocks -----------------------------------------------------------------------------------------------

    def _open(self, size: Size, stock: Path, folders: list[Path], *, fresh: bool) -> None:
        lanes = self._lanes.setdefault(size.name, 1)
        request = OpenRequest("open", size.name, str(stock), tuple(str(f) for f in folders), lanes, fresh)
        opened = self._judge.ask(request, Opened)
        self._times.setdefault(size.name, []).append(opened.pilot_us)

    def _blocks(self, place: int, blocks: int) -> Blocks:
        return _right(self._judge.ask(BlocksRequest("blocks", place, blocks, 0), Blocks))

    def _common(self, places: Sequence[int], blocks: int) -> Common:
        return _right(self._judge.ask(CommonRequest("common", tuple(places), blocks), Common))

    def _read(
        self, size: Size, stock: Path, folders: list[Path], blocks: int, *, fresh: bool
    ) -> list[tuple[list[list[float]], int]]:
        """(blocks, voided) of each folder against v0."""
        self._open(size, stock, folders, fresh=fresh)
        found = []
        for place in range(len(folders)):
            told = self._blocks(place, blocks)
            found.append(([list(block) for block in told.blocks], told.voided))
        return found

    def trials(self, stock: dict[str, Path], pairs: list[Pair], wave: int) -> list[dict[str, Any]]:
        """Every pair of one wave, each in all of its processes."""
        chosen = [i for i, pair in enumerate(pairs) if pair.wave == wave]
        readings: dict[int, list[dict[str, Any]]] = {i: [] for i in chosen}
        for turn in range(self._wanted.processes):
            process = wave * self._wanted.processes + turn
            self._judge.ask(StartRequest("start", min(3, self._wanted.processes - turn)), Started)
            fresh = True
            for size in self._rng.sample(planted.SIZES, len(planted.SIZES)):
                mine = [i for i in chosen if pairs[i].size is size]
                self._rng.shuffle(mine)
                for start in range(0, len(mine), ARMS_AT_ONCE):
                    some = mine[start : start + ARMS_AT_ONCE]
                    folders = [pairs[i].folder for i in some]
                    told = self._read(size, stock[size.name], folders, size.blocks, fresh=fresh)
                    fresh = False
                    for i, (blocks, voided) in zip(some, told, strict=True):
                        readings[i].append({"process": process, "blocks": blocks, "voided": voided})
            self._say(f"wave {wave + 1} of {self._wanted.waves}, process {turn + 1} of {self._wanted.processes}")
        return [self._told(pairs[i], readings[i]) for i in chosen]

    def _told(self, pair: Pair, readings: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "kernel": f"rows {pair.size.name}",
            "class": self._class(pair.size),
            "planted": pair.percent,
            "truth": f"{pair.size.name} {pair.percent:+g}" if pair.percent else None,
            "readings": readings,
        }

    def truths(self, stock: dict[str, Path], pairs: list[Pair]) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        first = self._wanted.waves * self._wanted.processes
        for process in range(self._wanted.truth_processes):
            self._judge.ask(StartRequest("start", min(3, self._wanted.truth_processes - process)), Started)
            for place, size in enumerate(planted.SIZES):
                effects = [p for p, _ in self._wanted.trials if p]
                folders = [
                    self._rng.choice([pair.folder for pair in pairs if pair.size is size and pair.percent == p])
                    for p in effects
                ]
                told = self._read(size, stock[size.name], folders, self._wanted.truth_blocks, fresh=place == 0)
                for percent, (blocks, voided) in zip(effects, told, strict=True):
                    reading = {"process": first + process, "blocks": blocks, "voided": voided}
                    found.setdefault(f"{size.name} {percent:+g}", []).append(reading)
            self._say(f"process {process + 1} of {self._wanted.truth_processes}: truth")
        return found

    def null(self, stock: dict[str, Path], number: int) -> list[dict[str, Any]]:
        """One null campaign, counted from 0; none where too little of it was undisturbed."""
        size = planted.SIZES[number % len(planted.SIZES)]
        equals = self._equals[size.name]
        clock = nulls.Clock(
            start=lambda count: self._judge.ask(StartRequest("start", count), Started),
            open=lambda some, fresh: self._open(size, stock[size.name], [equals[one] for one in some], fresh=fresh),
            read=self._blocks,
            together=self._common,
        )
        first = self._wanted.waves * self._wanted.processes + self._wanted.truth_processes + number * nulls.PROCESSES
        found = nulls.campaign(clock, self._rng.sample(sorted(equals), VARIANTS), first)
        came = "" if found else ": too much of it was disturbed, it counts for nothing"
        self._say(f"null campaign {number + 1} of {self._wanted.nulls}{came}")
        return [{"kernel": f"rows {size.name}", "class": self._class(size), **found}] if found else []

    def warm_up(self, stock: dict[str, Path]) -> None:
        """How long each size takes decides how many lanes it gets."""
        for place, size in enumerate(planted.SIZES):
            self._read(size, stock[size.name], [stock[size.name]], 4, fresh=place == 0)
            nbytes = self._calls[size.case.id].nbytes
            self._lanes[size.name] = lanes_for(statistics.median(self._times[size.name]), nbytes)
        self._judge.ask(CloseRequest("close"), Closed)

    def _class(self, size: Size) -> str:
        us = statistics.median(self._times[size.name])
        return "<20us" if us < SHORT_US else ">1ms" if us > LONG_US else "~100us"

    @property
    def waves(self) -> int:
        return self._wanted.waves

    @property
    def times(self) -> dict[str, float]:
        """Median microseconds of v0, by size."""
        return {name: round(statistics.median(found), 2) for name, found in self._times.items()}
