"""The bench with a GPU: checked on it, recorded on it, and timed there against v0 with no variant code alive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from bot.bench import compile_pool, host, race, rivals, sanitizer
from bot.bench.ahead import Ahead
from bot.bench.bailiff import Objection
from bot.bench.cell import Cells
from bot.bench.checks import Checked, Laid
from bot.bench.clearing import clear
from bot.bench.clocked import ClockedBench, TooLarge
from bot.bench.effort import Effort
from bot.bench.gpu import Gpu
from bot.bench.imports import libraries
from bot.bench.launcher import Limits
from bot.bench.looking import Found, Scenes, look, profiler_ahead
from bot.bench.measure import Deadlines
from bot.bench.race import Entry, Result
from bot.bench.readings import Clocked, Wrong, recorded, with_clock
from bot.bench.rival_compilers import Job, expected, of_winner
from bot.bench.rivals import Heat
from bot.bench.standby import Ready
from bot.bench.take import Take, plays
from bot.bench.under_compile import Finalists
from bot.model.measurement import (
    Block,
    CaseResult,
    CheckResult,
    Evidence,
    Fault,
    Measurement,
    Runner,
    Sanitized,
    Suite,
    UnderCompile,
)
from bot.model.rivals import EVERYWHERE, Rival, RivalName
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import CompileAnswer, clip, timing


class MeasuredBench(ClockedBench):
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
        self._compiled: dict[str, CompileAnswer | Fault] = {}
        self._turn = threading.Lock()  # one variant at a time has the clock
        guessed = libraries(tree / site.source_root, site.module)
        for standby in cells.standby.values():  # they import while the judge does
            standby.begin(guessed)
        try:
            super().__init__(tree, site, suite, cells, deadlines, seed, effort)
        except BaseException:  # nobody will close a bench that was not opened
            for standby in cells.standby.values():
                standby.close()
            raise
        self._finalists = Finalists(self._judge)
        self._ahead = Ahead(partial(self._run, checked=None, passports=True), self._fit, self._takes.forget)
        self._profiler: Ready | None = None
        self._watcher: Ready | None = None
        whole = cells, site, self._plan, deadlines.gpu_memory_bytes
        self._scenes = Scenes(*whole, self._lay, self._takes.all_pins, self._takes.kernels)

    def close(self) -> None:
        self._rivals_ahead.end(0)
        for ready in (self._profiler, self._watcher):
            if ready is not None:
                ready.dismiss()
        super().close()

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
            clear(laid.folder)

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool, checked: Checked | None = None) -> Measurement:
        started = time.monotonic()
        known = self._compiled.pop(sources_digest(files), None) if not passports else None
        if passports and (ready := self._ahead.take(files)):
            checked, known = ready
        if not self._takes.tunes:
            self._call_replayers(files)
        if passports and checked is None:
            self._expect_finalist(files)
        laid = self._lay(files)
        try:
            with ThreadPoolExecutor(max_workers=1) as beside:
                compiling = beside.submit(lambda: known or self._compile(laid, passports=passports))
                checked = checked or self._checks(laid)
                checked_seconds = round(time.monotonic() - started, 3)
                if not compile_pool.leaves_room():
                    compiling.result()
                clocked = self._clocked(files, checked, compiling.result)
                compiled = compiling.result()
        finally:
            clear(laid.folder)
        cases, stamps, fault = self._facts(compiled, self._books(files), checked.shares)
        return Measurement(
            runner=self.runner,
            source=sources_digest(files),
            checks=clocked.rows,
            cases=with_clock(cases, clocked.cases),
            unseen=clocked.unseen,
            unread=clocked.unread,
            passports=stamps,
            fault=checked.fault or fault or clocked.fault,
            checked_seconds=checked_seconds,
            seconds=round(time.monotonic() - started, 3),
        )

    def _clocked(self, files: tuple[SourceFile, ...], checked: Checked, quiet: Callable[[], object]) -> Clocked:
        """What is right is timed, with nothing said yet of what compiling shows, which may go on beside: it has
        processors of its own. The host's time is read when all is `quiet`."""
        if not self._fit(checked):
            return Clocked((), checked.rows)
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
    ) -> Clocked:
        digest, base = sources_digest(files), sources_digest(self._base)
        mine, stock = self._takes.takes(digest), self._takes.takes(base)
        cases = tuple(recorded(case, mine.get(case.case)) for case in cases)
        try:
            if digest == base:  # and rivals after it, who wait for theirs no more
                count, still = 1 + len(EVERYWHERE), self._rivals_ahead.standing_still
                self._judge.ask(timing.StartRequest("start", count, alone=True, still=still), timing.Started)
                told = Clocked(tuple(self._of_v0_if_it_fits(case, stock[case.case]) for case in cases), rows)
                self._clock_unseen(stock)
                return told
            self._clock_v0(cases, stock)
            self._clock_unseen(stock)
            cases, unseen = self._of_variant(cases, mine, stock, quiet)
            unread = self._unread if any(case.paired is not None and case.paired.confirm for case in cases) else ""
            return Clocked(self._with_host(files, cases), rows, unseen=unseen, unread=unread)
        except Wrong as error:
            self._judge.ask(timing.CloseRequest("close"), timing.Closed)
            row = CheckResult(case=error.case, passed=False, detail=f"a timed slot went wrong: {error}")
            return Clocked(cases, (*(r for r in rows if r.case != error.case), row))
        except TooLarge as error:
            detail = clip(f"{error.case}: {error}")
            return Clocked(cases, rows, Fault(kind="memory", detail=detail, unfit=(error.case,)))
        except Objection as error:
            return Clocked(cases, rows, Fault(kind="crashed", detail=str(error)))
        finally:
            if digest != base:
                self._takes.forget(digest)

    def _with_host(self, files: tuple[SourceFile, ...], cases: tuple[CaseResult, ...]) -> tuple[CaseResult, ...]:
        """And what its wrapper costs, where fresh processes read the rest."""
        if not any(case.paired is not None and case.paired.confirm for case in cases):
            return cases
        stock, mine, memory = self._lay(self._base), self._lay(files), self._deadlines.gpu_memory_bytes
        pins = self._takes.pins([case.case for case in cases])
        known = self._cells, self._site, stock, mine, self._plan, memory, pins, self._takes.kernels
        return host.told_of(cases, host.Stage(*known))

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

    def _expect_finalist(self, files: tuple[SourceFile, ...]) -> None:
        """What will be asked of it comes up while the first variant is checked, and later ones while the one before is
        asked: never beside a clock."""
        if self._watcher is None and compile_pool.leaves_room() and sources_digest(files) != sources_digest(self._base):
            self._watcher = sanitizer.ahead(self._cells, self._deadlines.gpu_memory_bytes)

    def sanitized(self, files: tuple[SourceFile, ...]) -> Sanitized:
        """What these files do to memory that is not theirs, and v0 does not."""
        ready, self._watcher = self._watcher, None
        self._expect_finalist(files)
        with self._scenes.of(files) as mine, self._scenes.of(self._base) as stock:
            return sanitizer.sanitized(mine, stock, ready)

    def under_compile(self, files: tuple[SourceFile, ...]) -> UnderCompile:
        """What torch.compile makes of these files where it takes v0."""
        with self._scenes.of(files) as mine, self._scenes.of(self._base) as stock:
            return self._finalists.under_compile(mine, stock, self._checker.unheld)

    def race(self, entries: tuple[Entry, ...]) -> Result:
        """Many versions of one source beside v0, for what is worth a round; nothing of it is published."""
        started, stock = time.monotonic(), self._stock()
        limits = Limits(race.RECORD_S, self._deadlines.gpu_memory_bytes)
        most = max(1, min(race.RECORDERS, self._takes.most_at_once()))
        at_once = max(1, min(most, len(entries)))
        alone = self._takes.compiles_long
        workers = most if alone else min(race.WORKERS, max(1, most // 2))
        lead = sources_digest(entries[0].files) if entries and self._takes.tunes else ""

        def lay(some: Sequence[tuple[SourceFile, ...]]) -> Sequence[Laid]:
            return [self._lay(some[0])] if len(some) == 1 else self._lay_together(some)

        def record(laid: Sequence[Laid], cases: Sequence[tuple[str, ...]]) -> Sequence[Mapping[str, Take] | Fault]:
            if len(laid) > 1:
                return self._takes.several(laid, cases, limits, at_once=max(1, most // workers))
            if (digest := sources_digest(laid[0].files)) == sources_digest(self._base):
                return [stock]
            return [self._takes.brief(laid[0], cases[0], limits, at_once=at_once, alone=digest == lead)]

        def begin(case: str, takes: Sequence[Take], fresh: bool) -> None:
            learnt = self._learn_lanes(case, stock, fresh=fresh)
            self._open(case, takes, stock[case], fresh=fresh and not learnt)

        def read(case: str, place: int, blocks: int) -> tuple[Block, ...]:
            return self._read(case, blocks, 0, place=place).blocks

        def together(case: str, places: Sequence[int], blocks: int) -> tuple[tuple[Block, ...], ...]:
            return self._told(case, timing.CommonRequest("common", tuple(places), blocks), timing.Common).blocks

        held, spent = self._rivals_ahead.held, lambda: self.gpu_ms
        doors = lay, record, begin, read, together, Wrong, plays
        course = race.Course(*doors, workers, alone, bool(lead), held, spent_ms=spent)
        with self._turn:
            self._judge.ask(timing.StartRequest("start", 1), timing.Started)
            result = race.run(course, entries)
            self._judge.ask(timing.CloseRequest("close"), timing.Closed)
        return replace(result, seconds=round(time.monotonic() - started, 3))

    def expect_rivals(self) -> None:
        """While v0 is checked: one that tunes itself has done so by then."""
        jobs = expected(list(self._calls.values()))
        self._checker.when_inputs_lie_there(lambda: self._rivals_ahead.begin(jobs))

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
