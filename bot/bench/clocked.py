"""The half of a bench with a GPU that has the clock: which recordings are played, by whom, how often, and what is read.
No variant code is alive meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bot.bench.bailiff import Objection
from bot.bench.cell import Cells
from bot.bench.checks import Checker
from bot.bench.effort import Effort
from bot.bench.lanes import lanes_for
from bot.bench.launcher import Limits
from bot.bench.measure import Deadlines, StaticBench
from bot.bench.readings import Wrong, all_paired, goes_on, timing_of, unseen_of
from bot.bench.rival_compilers import compilers
from bot.bench.take import Take
from bot.bench.takes import GpuChecker, tunes_itself
from bot.model.measurement import CaseResult, Reading, Suite, Unseen
from bot.model.site import KernelSite
from bot.model.variant import sources_digest
from bot.worker.contract import timing

Told = TypeVar("Told", timing.Blocks, timing.Common)


MEMORY = re.compile("out.of.memory", re.IGNORECASE)
"""As torch and the driver say that there is none left."""


class TooLarge(Objection):
    """The judge has no room for v0 and its truths in this case."""

    def __init__(self, case: str, why: str) -> None:
        super().__init__(why)
        self.case = case


class ClockedBench(StaticBench):
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
        self._effort = effort
        self._lanes: dict[str, int] = {}
        self._roofs: dict[str, float | None] = {}
        self._took_us: dict[str, float] = {}
        self._drawn: tuple[str, ...] | None = None
        """The sizes that nobody named and v0 could be played on, once it was."""
        self._unread = ""
        """Why there is none, where one was to be."""
        self.gpu_ms = 0.0  # spent on timing so far
        self._may_win: Callable[[tuple[CaseResult, ...]], bool] = lambda cases: True
        super().__init__(tree, site, suite, cells.gpu.arch, cells, deadlines, seed)
        self._rivals_ahead = compilers(site.kernel, cells)
        self._calls = {case.call.case: case.call for case in self._plan.cases}

    def _make_checker(self, inputs: Path, limits: Limits) -> Checker:
        """A kernel that tunes itself would do so for each size that nobody named, and that takes minutes, unless it is
        known by which of them it does."""
        if not self._plan.tuned and any(tunes_itself(file.text) for file in self._base):
            self._unread = "it tunes itself, and would for each of them"
        if self._unread or not (self._effort.unseen and self._effort.processes):
            self._plan = replace(self._plan, unseen=())
        gpu_limits = Limits(self._deadlines.gpu_s, self._deadlines.gpu_memory_bytes)
        self._takes = GpuChecker(
            self._cells, self._site, self._arch, self._judge, self._plan, inputs, gpu_limits, self._lay_stock
        )
        return self._takes

    def weigh(self, may_win: Callable[[tuple[CaseResult, ...]], bool]) -> None:
        self._may_win = may_win

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
        self._lanes[case] = lanes_for(opened.pilot_us, self._nbytes(case), opened.slot_us)
        return True

    def _nbytes(self, case: str) -> int:
        drawn = {one.call.case: one.call for one in self._plan.unseen}
        return (self._calls.get(case) or drawn[case]).nbytes

    def _open(self, case: str, some: Sequence[Take], stock: Take, *, fresh: bool) -> timing.Opened:
        """v0 and these, each an arm of its own."""
        for take in (stock, *some):
            self._may_be_opened(case, take, stock)
        return self._put_on(case, stock, tuple(str(take.folder) for take in some), fresh)

    @staticmethod
    def _may_be_opened(case: str, take: Take, stock: Take) -> None:
        if take.folder is None:
            raise Objection(f"{case} cannot be replayed: {take.why_not}")
        if stock.kernels and not take.kernels:
            raise Objection(f"{case} launches no Triton kernel any more")

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

    def _of_v0_if_it_fits(self, case: CaseResult, stock: Take) -> CaseResult:
        try:
            return self._of_v0(case, stock)
        except Objection as error:
            if MEMORY.search(str(error)):
                raise TooLarge(case.case, str(error)) from error
            raise

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
    ) -> tuple[tuple[CaseResult, ...], tuple[Unseen, ...]]:
        for name in self._drawn or ():
            self._may_be_opened(name, mine[name], stock[name])
        search = {case.case: self._search(case.case, mine, stock, fresh=i == 0) for i, case in enumerate(cases)}
        confirm: dict[str, list[tuple[Reading, Reading]]] = {case.case: [] for case in cases}
        bursts: dict[str, tuple[float, float]] = {}
        drawn: dict[str, list[Reading]] = {name: [] for name in self._drawn or ()}
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
                for name, readings in drawn.items():
                    read, _ = self._confirm(name, mine, stock, fresh=False, control=False)
                    readings.append(read)
        self._judge.ask(timing.CloseRequest("close"), timing.Closed)
        return all_paired(cases, search, confirm, bursts, self._roofs), unseen_of(self._plan.unseen, drawn)

    def _clock_unseen(self, stock: dict[str, Take]) -> None:
        """v0 alone first, once a job: a size on which it cannot be played is held against nobody."""
        if self._drawn is None:
            names = [one.call.case for one in self._plan.unseen]
            self._drawn = tuple(name for name in names if name in stock and self._plays_v0(name, stock))
            if names and not self._drawn:
                self._unread = "v0 takes none of those that were drawn"

    def _plays_v0(self, case: str, stock: dict[str, Take]) -> bool:
        try:
            self._learn_lanes(case, stock, fresh=False)
        except Objection:
            return False
        return True

    def _search(self, case: str, mine: dict[str, Take], stock: dict[str, Take], *, fresh: bool) -> Reading:
        self._open(case, (mine[case],), stock[case], fresh=fresh)
        told = self._read(case, self._effort.search, 0)
        return Reading(blocks=told.blocks, voided=told.voided)

    def _confirm(
        self, case: str, mine: dict[str, Take], stock: dict[str, Take], *, fresh: bool, control: bool = True
    ) -> tuple[Reading, Reading]:
        """Without a control where v0 beside itself was read by the same process just now."""
        opened = self._open(case, (mine[case],), stock[case], fresh=fresh)
        blocks, beside = self._effort.amounts(opened.pilot_us, opened.slot_us)
        told = self._read(case, blocks, beside if control else 0)
        return Reading(blocks=told.blocks, voided=told.voided), Reading(blocks=told.control)
