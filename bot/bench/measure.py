"""The bench: everything that can be known of a variant on this machine. Here: without a GPU.

A worker under Triton's interpreter computes the checks, another one records and compiles the scored cases; they run
side by side, each in a process of its own that is started once a variant. The judge compares. Times are modelled
elsewhere, from these facts.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from bot.bench import compile_pool, overlay
from bot.bench.bailiff import Judge
from bot.bench.cell import Cells, places, run_cell
from bot.bench.checks import Checked, Checker, Laid
from bot.bench.clearing import clear
from bot.bench.gpu import Gpu
from bot.bench.interpreter import look_at
from bot.bench.launcher import Limits
from bot.bench.nursery import nursery_of
from bot.bench.race import Entry, Result
from bot.bench.sandbox import Sandbox, find_sandbox
from bot.bench.suitcase import pack
from bot.bench.traffic import Shares, moved_of, traffic_factor
from bot.errors import OperatorError
from bot.model.hardware import Learned
from bot.model.measurement import (
    Case,
    CaseResult,
    Evidence,
    Fault,
    Measurement,
    Passport,
    Runner,
    Setting,
    Suite,
    Survey,
)
from bot.model.profiling import Moved
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import ARCHES, CompileAnswer, ContractError, Plan, PlanRequest, PrepareRequest, Shape, clip


class Bench(Protocol):
    """Measures variants of one kernel of one tree."""

    @property
    def runner(self) -> Runner: ...

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement: ...

    def stamped(self, files: tuple[SourceFile, ...]) -> tuple[Passport, ...]: ...

    def survey(self, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]) -> tuple[Survey, ...]: ...

    def race(self, entries: tuple[Entry, ...]) -> Result: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Deadlines:
    """How long a worker may take before it is ended. An honest one needs a tenth of it on two cores."""

    check_s: float = 60.0
    compile_s: float = 90.0
    survey_s: float = 240.0
    surveying_s: float = 180.0
    """No other launch numbers begin to compile later. Those of mhc_coeffs keep two cores busy for 41 s; a worker that
    is ended takes all that it knows along."""
    budget_s: float = compile_pool.BUDGET_S
    memory_bytes: int = 6 * 2**30
    gpu_s: float = 240.0
    """For all checks and recordings of one variant, compiling included."""
    gpu_memory_bytes: int = 24 * 2**30
    """Of the host: the driver and torch take a few GiB by themselves."""


def shapes_of(cases: tuple[Case, ...]) -> tuple[Shape, ...]:
    return tuple(Shape(case.id, case.direction, case.shape, case.dtype, case.grad) for case in cases)


class StaticBench:
    """A bench without a GPU: interpreted, compiled, counted, and never timed."""

    def __init__(
        self, tree: Path, site: KernelSite, suite: Suite, arch: str, cells: Cells, deadlines: Deadlines, seed: int
    ) -> None:
        self._tree, self._site, self._arch = tree, site, arch
        self._cells, self._deadlines = cells, deadlines
        self._numbers = itertools.count()
        self.learned: tuple[Learned, ...] = ()
        """What is known of the GPU beside the registry."""
        self.passports: tuple[str, ...] = compile_pool.PASSPORTS
        """The architectures that a measurement is compiled for besides, when passports are asked for."""
        self.moved: tuple[Moved, ...] = ()
        """The traffic count of the untouched files, launch by launch, once they were measured."""
        self._base = overlay.base_files(tree, site)
        self._slowest_s = 0.0
        """What the kernel of these files took to compile that took longest."""
        inputs = cells.scratch / "inputs"
        inputs.mkdir()
        pack("judge", cells.scratch / "judge")
        self._judge = Judge(cells.python, cells.scratch / "judge", cells.scratch / "judge-home", cells.gpu)
        uuid = cells.gpu.uuid if cells.gpu is not None else ""
        try:
            shapes = shapes_of(suite.cases), shapes_of(suite.checks)
            request = PlanRequest("plan", site.kernel, *shapes, seed, str(inputs), uuid)
            self._plan = self._judge.ask(request, Plan)
            # The answer is waited for when the first inputs are needed.
            self._judge.send(PrepareRequest("prepare"))
        except OperatorError:
            self._judge.close()
            raise
        limits = Limits(deadlines.check_s, deadlines.memory_bytes)
        self._checker = self._make_checker(inputs, limits)

    def _make_checker(self, inputs: Path, limits: Limits) -> Checker:
        return Checker(self._cells, self._site, self._arch, self._judge, self._plan, inputs, limits, self._lay_stock)

    @property
    def runner(self) -> Runner:
        return Runner(
            evidence=Evidence.STATIC,
            arch=self._arch,
            python=self._cells.python.version,
            torch=self._cells.python.torch,
            triton=self._cells.python.triton,
            sandbox=self._cells.sandbox.name,
            learned=self.learned,
        )

    def race(self, entries: tuple[Entry, ...]) -> Result:
        """Nobody runs where there is no clock."""
        return Result()

    def close(self) -> None:
        self._judge.close()
        for standby in self._cells.standby.values():
            standby.close()
        clear(self._cells.scratch)

    def _lay(self, files: tuple[SourceFile, ...]) -> Laid:
        name = f"v-{sources_digest(files)[:12]}-{next(self._numbers)}"
        folder = self._cells.scratch / name
        return Laid(name, files, folder, overlay.lay(self._tree, self._site, files, folder / "source"))

    def _lay_together(self, several: Sequence[tuple[SourceFile, ...]]) -> tuple[Laid, ...]:
        """In one folder, each below a root of its own: for one worker."""
        room = self._cells.scratch / f"together-{next(self._numbers)}"
        found: list[Laid] = []
        for number, files in enumerate(several):
            root, beside = room / "source" / str(number), found[0].source if found else None
            found.append(Laid(room.name, files, room, overlay.lay(self._tree, self._site, files, root, beside)))
        return tuple(found)

    def _lay_stock(self) -> Laid:
        return self._lay(self._base)

    def _checks(self, laid: Laid) -> Checked:
        untouched = self._untouched(laid.files)
        if self._checker.baseline is None:
            self._checker.check_baseline(laid if untouched else self._lay(self._base))
        return self._checker.check_baseline(laid) if untouched else self._checker.check(laid)

    def _budget_s(self, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]) -> float:
        """What one kernel may take to compile."""
        if settings:
            return min(self._deadlines.budget_s, compile_pool.SURVEY_BUDGET_S)
        if self._untouched(files):
            return compile_pool.stock_budget_s(self._deadlines.budget_s, self._slowest_s)
        return compile_pool.budget_s(self._deadlines.budget_s, self._slowest_s)

    def _untouched(self, files: tuple[SourceFile, ...]) -> bool:
        return sources_digest(files) == sources_digest(self._base)

    def _compile(
        self, laid: Laid, *, passports: bool = False, settings: tuple[Setting, ...] = ()
    ) -> CompileAnswer | Fault:
        """A kernel that spills takes some compilers minutes: it may still compile for the chip that was asked for."""
        answer = self._compile_once(laid, "compile", passports=passports, settings=settings)
        if not passports or not isinstance(answer, Fault) or answer.kind != "run_timeout":
            return answer
        here = self._compile_once(laid, "compile-here")
        return here if isinstance(here, Fault) else compile_pool.without_passports(here, self.passports, answer.detail)

    def _compile_once(
        self, laid: Laid, name: str, *, passports: bool = False, settings: tuple[Setting, ...] = ()
    ) -> CompileAnswer | Fault:
        folder = laid.folder / f"{name}-request"
        folder.mkdir()
        where = places(self._cells, f"{laid.name}/{name}", laid.source, folder)
        request = compile_pool.request(
            overlay.subject(self._site, laid.files, self._cells.sandbox.path_of(where.source)),
            self._arch,
            tuple(case.call for case in self._plan.cases),
            passports=self.passports if passports else (),
            settings=settings,
            budget_s=self._budget_s(laid.files, settings),
            within_s=self._deadlines.surveying_s if settings else compile_pool.NO_END_S,
        )
        seconds = self._deadlines.survey_s if settings else self._deadlines.compile_s
        limits = Limits(seconds, self._deadlines.memory_bytes)
        answer = run_cell(self._cells, where, request, CompileAnswer, limits, {})
        if self._untouched(laid.files) and not settings and not isinstance(answer, Fault):
            self._slowest_s = max(self._slowest_s, answer.slowest_s)
        return answer

    def _cases(self, answer: CompileAnswer, books: compile_pool.Ledger, shares: Shares) -> tuple[CaseResult, ...]:
        asked = [case.call.case for case in self._plan.cases]
        if [case.case for case in answer.cases] != asked:
            raise ContractError("the answer is about other cases than were asked for")
        return tuple(
            CaseResult(
                case=case.case,
                launches=tuple(books.launch(caught) for caught in case.launches),
                minimum_bytes=planned.minimum_bytes,
                flops=self._checker.work.get(case.case, (0, 0))[0],
                matrix_flops=self._checker.work.get(case.case, (0, 0))[1],
                traffic_factor=traffic_factor(case, planned.minimum_bytes, shares),
                memory_bytes=case.peak_bytes,
            )
            for case, planned in zip(answer.cases, self._plan.cases, strict=True)
        )

    def _facts(
        self, answer: CompileAnswer | Fault, books: compile_pool.Ledger, shares: Shares
    ) -> tuple[tuple[CaseResult, ...], tuple[Passport, ...], Fault | None]:
        """What the compile worker says, once it is in our own words. Numbers that cannot be are its own fault."""
        if isinstance(answer, Fault):
            return (), (), answer
        try:
            cases, passports = self._cases(answer, books, shares), compile_pool.passports_of(answer)
        except (ValidationError, ContractError, ValueError) as error:
            return (), (), Fault(kind="protocol", detail=clip(str(error)))
        return cases, passports, compile_pool.first_fault(answer, books)

    def _run(
        self, files: tuple[SourceFile, ...], checked: Checked | None, *, passports: bool
    ) -> tuple[Checked, CompileAnswer | Fault]:
        """Checked and compiled, side by side."""
        laid = self._lay(files)
        try:
            with ThreadPoolExecutor(max_workers=2) as threads:
                compiling = threads.submit(self._compile, laid, passports=passports)
                checked = checked or threads.submit(self._checks, laid).result()
                return checked, compiling.result()
        finally:
            clear(laid.folder)

    def _books(self, files: tuple[SourceFile, ...]) -> compile_pool.Ledger:
        return compile_pool.ledger(self._site, files, self._arch)

    def check(self, files: tuple[SourceFile, ...]) -> Checked:
        """Correctness alone: nothing is recorded or compiled."""
        laid = self._lay(files)
        try:
            return self._checks(laid)
        finally:
            clear(laid.folder)

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool, checked: Checked | None = None) -> Measurement:
        """Facts alone: `timing` of each case is left for the model to fill in. What was `checked` before is not
        checked again."""
        started = time.monotonic()
        checked, compiled = self._run(files, checked, passports=passports)
        books = self._books(files)
        cases, stamps, fault = self._facts(compiled, books, checked.shares)
        if sources_digest(files) == sources_digest(self._base) and not isinstance(compiled, Fault):
            self.moved = tuple(moved for case in compiled.cases for moved in moved_of(case, checked.shares))
        return Measurement(
            runner=self.runner,
            source=sources_digest(files),
            checks=checked.rows,
            cases=cases,
            passports=stamps,
            fault=checked.fault or fault,
            seconds=round(time.monotonic() - started, 3),
        )

    def stamped(self, files: tuple[SourceFile, ...]) -> tuple[Passport, ...]:
        """The passports of files that were measured without; none where they do not compile here."""
        laid = self._lay(files)
        try:
            compiled = self._compile(laid, passports=True)
        finally:
            clear(laid.folder)
        if isinstance(compiled, Fault):
            return ()
        try:
            return compile_pool.passports_of(compiled)
        except ValueError:  # numbers that cannot be: what a measurement calls a fault
            return ()

    def _surveyed(
        self, answer: CompileAnswer, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]
    ) -> tuple[Survey, ...] | Fault:
        try:
            return compile_pool.surveys_of(answer, settings, compile_pool.ledger(self._site, files, self._arch))
        except (ValidationError, ContractError, ValueError) as error:
            return Fault(kind="protocol", detail=clip(str(error)))

    def survey(self, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]) -> tuple[Survey, ...]:
        """Each setting compiled for each scored case that launches its kernel."""
        if not settings:
            return ()
        laid = self._lay(files)
        try:
            answer = self._compile(laid, settings=settings)
        finally:
            clear(laid.folder)
        surveys = answer if isinstance(answer, Fault) else self._surveyed(answer, files, settings)
        if not isinstance(surveys, Fault):
            return surveys
        error = f"{surveys.kind}: {surveys.detail}"
        everything = ((setting, case.call.case) for setting in settings for case in self._plan.cases)
        return tuple(Survey(setting=setting, case=case, error=error) for setting, case in everything)


def make_cells(
    python: str, scratch: Path, seed: int | None, *, sandbox: Sandbox | None = None, gpu: Gpu | None = None
) -> tuple[Cells, int]:
    """Where a bench's workers live, and the seed of all it draws."""
    # Absolute, as workers run in folders of their own; and never that of an earlier bench, whose answers lie in it.
    room = Path(scratch).absolute() / secrets.token_hex(4)
    room.mkdir(parents=True)
    pack("worker", room / "suitcase")
    target, fence = look_at(python), sandbox or find_sandbox()
    nursery = None if fence.is_strong or gpu is not None else nursery_of(target, Deadlines.memory_bytes)
    cells = Cells(target, fence, room / "suitcase", room, gpu, nursery)
    return cells, secrets.randbits(62) if seed is None else seed


def open_static_bench(
    tree: Path,
    site: KernelSite,
    suite: Suite,
    arch: str,
    python: str,
    scratch: Path,
    *,
    sandbox: Sandbox | None = None,
    deadlines: Deadlines | None = None,
    seed: int | None = None,
) -> StaticBench:
    """A bench for one kernel of a checkout with v0 in place. `scratch` is an empty folder, or not there yet."""
    if arch not in ARCHES:
        raise OperatorError(f"nothing is known of {arch}", hint=f"choose one of {', '.join(sorted(ARCHES))}")
    cells, drawn = make_cells(python, scratch, seed, sandbox=sandbox)
    return StaticBench(Path(tree).absolute(), site, suite, arch, cells, deadlines or Deadlines(), drawn)
