"""The bench with a GPU: checked on it, recorded on it, and timed there against v0 with no variant code alive."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from bot.bench import compile_pool, host, race, rivals, sanitizer
from bot.bench.ahead import Ahead
from bot.bench.bailiff import Objection
from bot.bench.cell import Cells
from bot.bench.checks import Checked, Checker, Laid
from bot.bench.effort import Effort
from bot.bench.gpu import Gpu
from bot.bench.lanes import lanes_for
from bot.bench.launcher import Limits
from bot.bench.looking import Found, Scenes, look, profiler_ahead
from bot.bench.measure import Deadlines, StaticBench
from bot.bench.race import Entry, Result
from bot.bench.readings import Wrong, all_paired, goes_on, recorded, timing_of, with_clock
from bot.bench.rival_compilers import Job, compilers, expected, of_winner
from bot.bench.rivals import Heat
from bot.bench.standby import Ready
from bot.bench.takes import GpuChecker, Take
from bot.bench.under_compile import Finalists
from bot.model.measurement import (
    Block,
    CaseResult,
    CheckResult,
    Evidence,
    Fault,
    Measurement,
    Reading,
    Runner,
    Sanitized,
    Suite,
    UnderCompile,
)
from bot.model.rivals import Rival, RivalName
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import CompileAnswer, timing

Told = TypeVar("Told", timing.Blocks, timing.Common)


class MeasuredBench(StaticBench):
    def __init__(
        self,
        tree: Path,
        site: KernelSite,
        suite: Suite,
        cells: Cells,
        deadlines: Deadlines,
        seed: int,
        effort: Effort,
    ) -> None:
        assert cells.gpu is not None
        self._gpu: Gpu = cells.gpu
        self._effort = effort
        self._lanes: dict[str, int] = {}
        self._roofs: dict[str, float | None] = {}
        self._took_us: dict[str, float] = {}
        self._compiled: dict[str, CompileAnswer | Fault] = {}
        self._turn = threading.Lock()  # one variant at a time has the clock
        super().__init__(tree, site, suite, cells.gpu.arch, cells, deadlines, seed)
        self._finalists = Finalists(self._judge)
        self._rivals_ahead = compilers(site.kernel, cells)
        self._ahead = Ahead(partial(self._run, checked=None, passports=True), self._fit, self._takes.forget)
        self._calls = {case.call.case: case.call for case in self._plan.cases}
        self.gpu_ms = 0.0  # spent on timing so far
        self._profiler: Ready | None = None
        self._may_win: Callable[[tuple[CaseResult, ...]], bool] = lambda cases: True
        self._scenes = Scenes(cells, site, self._plan, deadlines.gpu_memory_bytes, self._lay, self._takes.all_pins)
        for standby in cells.standby.values():
            standby.begin()

    def close(self) -> None:
        self._rivals_ahead.end(0)
        if self._profiler is not None:
            self._profiler.dismiss()
        super().close()

    def _make_checker(self, inputs: Path, limits: Limits) -> Checker:
        gpu_limits = Limits(self._deadlines.gpu_s, self._deadlines.gpu_memory_bytes)
        self._takes = GpuChecker(
            self._cells, self._site, self._arch, self._judge, self._plan, inputs, gpu_limits, self._lay_stock
        )
        return self._takes

    @property
    def runner(self) -> Runner:
        gpu = self._gpu
        known = {"gpu_name": gpu.name, "gpu_memory_mib": gpu.memory_mib, "gpu_uuid": gpu.uuid, "driver": gpu.driver}
        return super().runner.model_copy(update={"evidence": Evidence.MEASURED, **known})

    def check(self, files: tuple[SourceFile, ...]) -> Checked:
        """Correctness, and what is needed to time it later: many files may be prepared side by side, none is timed."""
        laid = self._lay(files)
        try:
            checked = self._checks(laid)
            if self._fit(checked):
                self._compiled[sources_digest(files)] = self._compile(laid)
            return checked
        finally:
            shutil.rmtree(laid.folder, ignore_errors=True)

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool, checked: Checked | None = None) -> Measurement:
        started = time.monotonic()
        known = self._compiled.pop(sources_digest(files), None) if not passports else None
        if passports and (ready := self._ahead.take(files)):
            checked, known = ready
        if not self._takes.tunes:
            self._call_replayers(files)
        laid = self._lay(files)
        try:
            with ThreadPoolExecutor(max_workers=1) as beside:
                compiling = beside.submit(lambda: known or self._compile(laid, passports=passports))
                checked = checked or self._checks(laid)
                checked_seconds = round(time.monotonic() - started, 3)
                if not compile_pool.leaves_room():
                    compiling.result()
                clocked, rows, failed = self._clocked(files, checked, compiling.result)
                compiled = compiling.result()
        finally:
            shutil.rmtree(laid.folder, ignore_errors=True)
        cases, stamps, fault = self._facts(compiled, self._books(files), checked.shares)
        return Measurement(
            runner=self.runner,
            source=sources_digest(files),
            checks=rows,
            cases=with_clock(cases, clocked),
            passports=stamps,
            fault=checked.fault or fault or failed,
            checked_seconds=checked_seconds,
            seconds=round(time.monotonic() - started, 3),
        )

    def _clocked(
        self, files: tuple[SourceFile, ...], checked: Checked, quiet: Callable[[], object]
    ) -> tuple[tuple[CaseResult, ...], tuple[CheckResult, ...], Fault | None]:
        """What is right is timed, with nothing said yet of what compiling shows, which may go on beside: it has
        processors of its own. The host's time is read when all is `quiet`."""
        if not self._fit(checked):
            return (), checked.rows, None
        self._call_replayers(files)
        planned = tuple(CaseResult(case=c.call.case, minimum_bytes=c.minimum_bytes) for c in self._plan.cases)
        with self._turn, self._rivals_ahead.held():
            return self._timed(files, planned, checked.rows, quiet)

    def _call_replayers(self, files: tuple[SourceFile, ...]) -> None:
        """They come up while these are checked, as none may beside a clock. Before v0 was the judge is at work."""
        if self._checker.baseline is not None and sources_digest(files) != sources_digest(self._base):
            with self._turn:
                self._judge.ask(timing.StartRequest("start", 1 + self._effort.processes), timing.Started)

    def _fit(self, checked: Checked) -> bool:
        """Whether it may be timed."""
        return checked.fault is None and all(r.passed for r in checked.rows if r.case not in self._checker.excused)

    def _timed(
        self,
        files: tuple[SourceFile, ...],
        cases: tuple[CaseResult, ...],
        rows: tuple[CheckResult, ...],
        quiet: Callable[[], object],
    ) -> tuple[tuple[CaseResult, ...], tuple[CheckResult, ...], Fault | None]:
        digest, base = sources_digest(files), sources_digest(self._base)
        mine, stock = self._takes.takes(digest), self._takes.takes(base)
        cases = tuple(recorded(case, mine.get(case.case)) for case in cases)
        try:
            if digest == base:
                return tuple(self._of_v0(case, stock[case.case]) for case in cases), rows, None
            self._clock_v0(cases, stock)
            return self._with_host(files, self._of_variant(cases, mine, stock, quiet)), rows, None
        except Wrong as error:
            self._judge.ask(timing.CloseRequest("close"), timing.Closed)
            row = CheckResult(case=error.case, passed=False, detail=f"a timed slot went wrong: {error}")
            return cases, (*(r for r in rows if r.case != error.case), row), None
        except Objection as error:
            return cases, rows, Fault(kind="crashed", detail=str(error))
        finally:
            if digest != base:
                self._takes.forget(digest)

    def _with_host(self, files: tuple[SourceFile, ...], cases: tuple[CaseResult, ...]) -> tuple[CaseResult, ...]:
        """And what its wrapper costs, where fresh processes read the rest."""
        if not any(case.paired is not None and case.paired.confirm for case in cases):
            return cases
        stock, mine, memory = self._lay(self._base), self._lay(files), self._deadlines.gpu_memory_bytes
        pins = self._takes.pins([case.case for case in cases])
        return host.told_of(cases, host.Stage(self._cells, self._site, stock, mine, self._plan, memory, pins))

    def weigh(self, may_win: Callable[[tuple[CaseResult, ...]], bool]) -> None:
        self._may_win = may_win

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
        """What profilers see of these files: never a time that is published."""
        with self._rivals_ahead.held(), self._scenes.of(files) as scene:
            return look(scene, kernels, clocked, self._profiler)

    def expect_look(self, kernels: Sequence[str]) -> None:
        self._profiler = profiler_ahead(self._cells, kernels, self._deadlines.gpu_memory_bytes)

    def asked_last(
        self,
        files: tuple[SourceFile, ...],
        found: Measurement,
        following: Callable[[], tuple[SourceFile, ...]] = tuple,
    ) -> Measurement:
        """What tools make of a finalist, side by side: nothing is timed any more, and much of either is the host's.
        What would be measured after it, if they have no objection, is made ready meanwhile."""
        started = time.monotonic()
        with self._turn, ThreadPoolExecutor(max_workers=2) as beside:
            self._judge.ask(timing.StartRequest("start", 1 + self._effort.processes), timing.Started)
            if compile_pool.leaves_room() and not self._takes.tunes:
                beside.submit(lambda: self._ahead.make(following()))
            went = beside.submit(self.under_compile, files)
            told = {"sanitized": self.sanitized(files), "under_compile": went.result()}
        return found.model_copy(update={**told, "seconds": round(found.seconds + time.monotonic() - started, 3)})

    def sanitized(self, files: tuple[SourceFile, ...]) -> Sanitized:
        """What these files do to memory that is not theirs, and v0 does not."""
        with self._scenes.of(files) as mine, self._scenes.of(self._base) as stock:
            return sanitizer.sanitized(mine, stock)

    def under_compile(self, files: tuple[SourceFile, ...]) -> UnderCompile:
        """What torch.compile makes of these files where it takes v0."""
        with self._scenes.of(files) as mine, self._scenes.of(self._base) as stock:
            return self._finalists.under_compile(mine, stock, self._checker.unheld)

    def race(self, entries: tuple[Entry, ...]) -> Result:
        """Many versions of one source beside v0, for what is worth a round; nothing of it is published."""
        started, stock = time.monotonic(), self._stock()
        limits, at_once = Limits(race.RECORD_S, self._deadlines.gpu_memory_bytes), min(race.RECORDERS, len(entries))
        lead = sources_digest(entries[0].files) if entries and self._takes.tunes else ""

        def record(laid: Laid, cases: tuple[str, ...]) -> Mapping[str, Take] | Fault:
            if (digest := sources_digest(laid.files)) == sources_digest(self._base):
                return stock
            return self._takes.brief(laid, cases, limits, at_once=at_once, alone=digest == lead)

        def begin(case: str, takes: Sequence[Take], fresh: bool) -> None:
            learnt = self._learn_lanes(case, stock, fresh=fresh)
            self._open(case, takes, stock[case], fresh=fresh and not learnt)

        def read(case: str, place: int, blocks: int) -> tuple[Block, ...]:
            return self._read(case, blocks, 0, place=place).blocks

        def together(case: str, places: Sequence[int], blocks: int) -> tuple[tuple[Block, ...], ...]:
            return self._told(case, timing.CommonRequest("common", tuple(places), blocks), timing.Common).blocks

        held, spent = self._rivals_ahead.held, lambda: self.gpu_ms
        course = race.Course(self._lay, record, begin, read, together, Wrong, bool(lead), held, spent_ms=spent)
        with self._turn:
            self._judge.ask(timing.StartRequest("start", 1), timing.Started)
            result = race.run(course, entries)
            self._judge.ask(timing.CloseRequest("close"), timing.Closed)
        return replace(result, seconds=round(time.monotonic() - started, 3))

    def expect_rivals(self) -> None:
        self._rivals_ahead.begin(expected(list(self._calls.values()), self._base))

    def rivals(self) -> tuple[Rival, ...]:
        """What plain PyTorch makes of the same cases."""
        largest = sorted(self._plan.cases, key=lambda case: -case.minimum_bytes)
        found = self._played(rivals.PROFILED, [case.call.case for case in largest])
        self._rivals_ahead.begin(of_winner(self._took_us, self._calls, tunes=self._takes.tunes))
        return found

    def rivals_of_winner(self, cases: Sequence[str]) -> tuple[Rival, ...]:
        """What torch makes of these when it takes its time."""
        return self._played(rivals.WON, cases)

    def _played(self, heat: Heat, cases: Sequence[str]) -> tuple[Rival, ...]:
        """A rival computes what is right, so each of these is alone with v0 in processes of their own."""
        stock = self._stock()

        def begin(case: str, name: RivalName, fresh: bool) -> None:
            fresh = self._learn_lanes(case, stock, fresh=True) or fresh
            self._put_on(case, stock[case], (), fresh, (name,))

        with self._turn:
            there = [case for case in cases if stock[case].folder is not None]
            self._rivals_ahead.begin([Job(name, self._calls[case]) for name in heat.names for case in there])
            self._judge.ask(timing.StartRequest("start", len(heat.names)), timing.Started)
            slow = self._rivals_ahead.finish(heat.names, heat.seconds)
            with self._rivals_ahead.held():
                found = rivals.read(heat, there, begin, lambda case: self._read(case, rivals.BLOCKS, 0), Wrong, slow)
                self._judge.ask(timing.CloseRequest("close"), timing.Closed)
        return found

    def _stock(self) -> dict[str, Take]:
        """v0's recordings, also in a job that goes on where another one left."""
        if self._checker.baseline is None:
            self._checker.check_baseline(self._lay(self._base))
        return self._takes.takes(sources_digest(self._base))

    def _learn_lanes(self, case: str, stock: dict[str, Take], *, fresh: bool) -> bool:
        """True where they were not known, and v0 had to be played to know."""
        if case in self._lanes:
            return False
        opened = self._open(case, (stock[case],), stock[case], fresh=fresh)
        self._lanes[case] = lanes_for(opened.pilot_us, self._calls[case].nbytes, opened.slot_us)
        return True

    def _open(self, case: str, some: Sequence[Take], stock: Take, *, fresh: bool) -> timing.Opened:
        """v0 and these, each an arm of its own."""
        for take in (stock, *some):
            if take.folder is None:
                raise Objection(f"{case} cannot be replayed: {take.why_not}")
            if stock.kernels and not take.kernels:
                raise Objection(f"{case} launches no Triton kernel any more")
        return self._put_on(case, stock, tuple(str(take.folder) for take in some), fresh)

    def _put_on(
        self, case: str, stock: Take, arms: tuple[str, ...], fresh: bool, rivals: tuple[str, ...] = ()
    ) -> timing.Opened:
        lanes, still = self._lanes.get(case, 1), self._rivals_ahead.standing_still
        request = timing.OpenRequest("open", case, str(stock.folder), arms, lanes, fresh, rivals, still)
        return self._judge.ask(request, timing.Opened)

    def _read(self, case: str, blocks: int, control: int, *, place: int = 0) -> timing.Blocks:
        return self._told(case, timing.BlocksRequest("blocks", place, blocks, control), timing.Blocks)

    def _told(self, case: str, request: object, kind: type[Told]) -> Told:
        told = self._judge.ask(request, kind)
        self.gpu_ms += told.gpu_ms
        if told.wrong:
            raise Wrong(case, told.wrong)
        return told

    def _of_v0(self, case: CaseResult, stock: Take) -> CaseResult:
        """v0 against itself: its own time, what its clock is worth, and the roof it is under."""
        opened = self._open(case.case, (stock,), stock, fresh=case.case == next(iter(self._calls)))
        self._lanes[case.case] = lanes_for(opened.pilot_us, self._calls[case.case].nbytes, opened.slot_us)
        if self._lanes[case.case] > 1:
            self._open(case.case, (stock,), stock, fresh=False)
        told = self._read(case.case, 0, self._effort.blocks)
        self._roofs[case.case] = self._roof(case)
        took = timing_of([us for block in told.control for us in block])
        self._took_us[case.case] = took.median_us
        return case.model_copy(update={"timing": took, "roof_us": self._roofs[case.case]})

    def _roof(self, case: CaseResult) -> float | None:
        """What a plain pass over as many bytes takes; None where it need not move any."""
        if case.minimum_bytes <= 0:
            return None
        roof = self._judge.ask(timing.RoofRequest("roof", case.minimum_bytes, self._lanes[case.case]), timing.Roof)
        return round(roof.fastest_us, 3)

    def _clock_v0(self, cases: tuple[CaseResult, ...], stock: dict[str, Take]) -> None:
        """A campaign goes on in another job, maybe on another machine: v0 is timed there before anything is held
        against it."""
        for case in cases:
            if case.case not in self._roofs:
                self._of_v0(case, stock[case.case])

    def _of_variant(
        self,
        cases: tuple[CaseResult, ...],
        mine: dict[str, Take],
        stock: dict[str, Take],
        quiet: Callable[[], object],
    ) -> tuple[CaseResult, ...]:
        search = {case.case: self._search(case.case, mine, stock, fresh=i == 0) for i, case in enumerate(cases)}
        confirm: dict[str, list[tuple[Reading, Reading]]] = {case.case: [] for case in cases}
        bursts: dict[str, tuple[float, float]] = {}
        worth = goes_on(list(search.values())) and self._may_win(all_paired(cases, search, confirm, {}, self._roofs))
        if self._effort.processes and (self._effort.losers or worth):
            self._judge.ask(timing.StartRequest("start", self._effort.processes), timing.Started)
            for process in range(self._effort.processes):
                if last := process == self._effort.processes - 1:
                    quiet()  # from here on a clock of the host is read as well
                for place, case in enumerate(cases):
                    confirm[case.case].append(self._confirm(case.case, mine, stock, fresh=place == 0))
                    if last:
                        burst = self._judge.ask(timing.BurstRequest("burst"), timing.Burst)
                        bursts[case.case] = (round(burst.wall_ratio, 6), round(burst.event_ratio, 6))
        self._judge.ask(timing.CloseRequest("close"), timing.Closed)
        return all_paired(cases, search, confirm, bursts, self._roofs)

    def _search(self, case: str, mine: dict[str, Take], stock: dict[str, Take], *, fresh: bool) -> Reading:
        self._open(case, (mine[case],), stock[case], fresh=fresh)
        told = self._read(case, self._effort.search, 0)
        return Reading(blocks=told.blocks, voided=told.voided)

    def _confirm(
        self, case: str, mine: dict[str, Take], stock: dict[str, Take], *, fresh: bool
    ) -> tuple[Reading, Reading]:
        opened = self._open(case, (mine[case],), stock[case], fresh=fresh)
        told = self._read(case, *self._effort.amounts(opened.pilot_us))
        return Reading(blocks=told.blocks, voided=told.voided), Reading(blocks=told.control)
