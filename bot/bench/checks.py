"""Correctness: a worker computes every check under the interpreter, the judge compares. The untouched kernel goes
first."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bot.bench import overlay
from bot.bench.bailiff import Judge, Objection
from bot.bench.cell import Cells, Places, places, run_cell
from bot.bench.clearing import clear
from bot.bench.launcher import Limits
from bot.bench.traffic import Shares, shares_of
from bot.errors import OperatorError
from bot.model.measurement import CheckResult, Fault
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.worker.contract import Call, CheckAnswer, CheckRequest, CompareRequest, Plan, Prepared, Rows


@dataclass(frozen=True)
class Laid:
    """A variant laid out on disk, ready for workers."""

    name: str
    files: tuple[SourceFile, ...]
    folder: Path
    """All that belongs to it; taken away when it was measured."""
    source: Path


@dataclass(frozen=True)
class Checked:
    """What the check worker's answer came to."""

    rows: tuple[CheckResult, ...] = ()
    shares: Shares = field(default_factory=lambda: Shares({}))
    strays: tuple[tuple[str, str], ...] = ()
    """(call, what it did) for each call in which a kernel left its tensors."""
    unheld: frozenset[str] = frozenset()
    """Of the untouched kernel: calls in which it is no yardstick by itself."""
    crashed: frozenset[str] = frozenset()
    """Cases in which a call raised: there it is not known whether the results would have been right."""
    fault: Fault | None = None


class Checker:
    """Holds the judge, the inputs and what the untouched kernel made of them."""

    def __init__(
        self,
        cells: Cells,
        site: KernelSite,
        arch: str,
        judge: Judge,
        plan: Plan,
        inputs: Path,
        limits: Limits,
        stock: Callable[[], Laid],
    ) -> None:
        """`stock` lays the untouched kernel out once more."""
        self._cells, self._site, self._arch = cells, site, arch
        self._judge, self._plan, self._inputs, self._limits = judge, plan, inputs, limits
        self._stock = stock
        self._drawing = threading.Lock()
        self._drawn: set[str] = set()
        """Draws that the untouched kernel was asked for, whatever came of it."""
        self._prepared = False
        self._waiting: list[Callable[[], None]] = []
        """What begins when the judge's inputs lie there."""
        self._coming = threading.Lock()
        self.work: dict[str, tuple[int, int]] = {}
        """Operations of each scored case, and those in matrix products, once the judge has counted them."""
        self.baseline: Checked | None = None

    def when_inputs_lie_there(self, begin: Callable[[], None]) -> None:
        """The judge needs every processor to make them, and everybody waits for it."""
        with self._coming:
            if not self._prepared:
                self._waiting.append(begin)
                return
        begin()

    def _wait_for_inputs(self) -> None:
        if self._prepared:
            return
        prepared = self._judge.receive(Prepared)
        self.work = {case: (every, products) for case, every, products in prepared.work}
        with self._coming:
            self._prepared, waiting, self._waiting = True, self._waiting, []
        for begin in waiting:
            begin()

    def _compute(self, laid: Laid, where: Places, calls: tuple[Call, ...], *, scored: bool) -> CheckAnswer | Fault:
        """`scored`: and whatever is made of the scored cases beside."""
        subject = overlay.subject(self._site, laid.files, self._cells.sandbox.path_of(where.source))
        request = CheckRequest("check", subject, self._arch, calls)
        return run_cell(self._cells, where, request, CheckAnswer, self._limits, {"TRITON_INTERPRET": "1"})

    def _places(self, laid: Laid, name: str, calls: tuple[Call, ...]) -> Places:
        """The inputs under a second name: a request lies beside them, and variants may be checked side by side."""
        folder = laid.folder / f"{name}-request"
        folder.mkdir()
        for call in calls:
            os.link(self._inputs / call.blob, folder / call.blob)
        return places(self._cells, f"{laid.name}/{name}", laid.source, folder)

    def _check(self, laid: Laid, *, baseline: bool) -> Checked:
        self._wait_for_inputs()
        where = self._places(laid, "check", self._plan.checks)
        answer = self._compute(laid, where, self._plan.checks, scored=True)
        if isinstance(answer, Fault):
            return Checked(fault=answer)
        try:
            compared = self._compared(where, baseline=baseline)
        except Objection as error:
            return Checked(fault=Fault(kind="protocol", detail=str(error)))
        return Checked(
            rows=self._results(compared),
            shares=shares_of(self._plan.checks, answer),
            strays=tuple((c.id, c.refusal.detail) for c in answer.calls if c.refusal and c.refusal.kind == "memory"),
            unheld=frozenset(compared.unheld),
            crashed=self._crashed(answer),
        )

    def _compared(self, where: Places, *, baseline: bool) -> Rows:
        """Who fails for want of further draws of the untouched kernel is held against them before it is wrong."""
        request = CompareRequest("compare", str(where.answer.host), baseline)
        compared, asked = self._judge.ask(request, Rows), frozenset[str]()
        while wanted := frozenset(compared.again) - asked:
            asked |= wanted
            self._draw(wanted)
            compared = self._judge.ask(request, Rows)
        return compared

    def _draw(self, wanted: frozenset[str]) -> None:
        """One at a time, so that who comes second finds them heard. What fails here is nobody's fault, and not tried
        again."""
        with self._drawing:
            calls = tuple(call for call in self._plan.draws if call.id in wanted - self._drawn)
            if not calls:
                return
            self._drawn.update(call.id for call in calls)
            laid = self._stock()
            try:
                where = self._places(laid, "draws", calls)
                if not isinstance(self._compute(laid, where, calls, scored=False), Fault):
                    with contextlib.suppress(Objection):
                        self._judge.ask(CompareRequest("compare", str(where.answer.host), False, draws=True), Rows)
            finally:
                clear(laid.folder)

    def _crashed(self, answer: CheckAnswer) -> frozenset[str]:
        raised = {call.id for call in answer.calls if call.refusal is not None and call.refusal.kind != "memory"}
        return frozenset(call.case for call in self._plan.checks if call.id in raised)

    def _results(self, compared: Rows) -> tuple[CheckResult, ...]:
        wrong = self.excused
        ran = tuple(
            CheckResult(
                case=r.case, passed=r.passed, worst=r.worst, margin=r.margin, detail=r.detail, excused=r.case in wrong
            )
            for r in compared.rows
        )
        skipped = (CheckResult(case=case, passed=True, detail=why, excused=True) for case, why in self._plan.skipped)
        return (*ran, *skipped)

    @property
    def excused(self) -> frozenset[str]:
        """Cases in which the untouched kernel is wrong itself."""
        base = self.baseline
        return frozenset(row.case for row in base.rows if not row.passed) if base is not None else frozenset()

    @property
    def unheld(self) -> frozenset[str]:
        """Calls that cannot be asked alone: the untouched kernel is far off there."""
        base = self.baseline
        wrong = {call.id for call in self._plan.checks if call.case in self.excused}
        return frozenset(wrong) | (base.unheld if base is not None else frozenset())

    def check_baseline(self, laid: Laid) -> Checked:
        """Computed once; every variant is held against it."""
        if self.baseline is None:
            self.baseline = self._check(laid, baseline=True)
        return self.baseline

    def check(self, laid: Laid) -> Checked:
        """A variant, after the baseline. A kernel that leaves its tensors where the untouched one does not is a
        fault."""
        base = self.baseline
        if base is None or base.fault is not None:
            kernel = self._site.kernel
            unchecked = f"the untouched {kernel} does not run here: it was not checked"
            raise OperatorError(
                base.fault.of_untouched(kernel) if base and base.fault else unchecked,
                hint="its own error is the yardstick for every variant; mend it first",
            )
        mine = self._check(laid, baseline=False)
        excused = {call for call, _ in base.strays}
        stray = next((what for call, what in mine.strays if call not in excused), None)
        if stray is None:
            return mine
        return dataclasses.replace(mine, fault=Fault(kind="memory", detail=stray))
