"""What a wrapper costs the caller on the CPU: v0's and the variant's, in two processes that take turns.

The replayed passes hold no Python, so work that moved there would be nobody's time. The clock is ours and stands
outside: from a frame asked to the same frame told, less what the same way takes for nothing. A variant can tell early,
so this time may refuse and never praise.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import select
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bot.bench import overlay
from bot.bench.bailiff import Objection
from bot.bench.cell import BESIDE, Cells, Places, answered, places, start
from bot.bench.checks import Laid
from bot.bench.clearing import clear
from bot.bench.kept_kernels import KeptKernels
from bot.bench.launcher import Limits
from bot.bench.sandbox import Mount
from bot.errors import OperatorError
from bot.guardrails.host_time import longer
from bot.model.measurement import Block, CaseResult, Fault
from bot.model.site import KernelSite
from bot.model.variant import sources_digest
from bot.worker.contract import REQUEST, Call, Plan, render
from bot.worker.contract.door import KERNELS
from bot.worker.contract.gpu import Choice
from bot.worker.contract.hosting import (
    ARMS,
    BEGIN,
    END,
    FRAME,
    GO,
    NOTHING,
    READY,
    V0,
    VARIANT,
    HostAnswer,
    HostRequest,
    asked,
    told,
)

BLOCKS, BATCHES, PASSES = 16, 5, 8
"""Blocks a case, batches a place in a block, passes a batch: many more would fill the queue of launches."""
FEWEST, CASE_S = 8, 2.0
"""Blocks of a case that takes so long: fused_linear_cross_entropy was read for 24 s, and beside such passes a wrapper
is no matter."""
PAIRS = 3
"""Pairs of processes at most. One pair may be some percent apart for as long as both live: longer is what is longer in
all of them."""
FEWEST_BATCHES, PLACE_S = 2, 0.05
"""Batches that take so long together, with what the GPU has to do for them, are enough: beside passes of milliseconds
a wrapper is no matter. Counted by the quickest, so that no hiccup ends a place."""
BATCH_S, START_S, CELL_S = 10.0, 90.0, 150.0
"""For one frame; for those in which something is imported or compiled; for all of it."""
Ask = Callable[[str, int, int], float]
"""(arm, what, number of the case) -> seconds from asked to told."""


@dataclass(frozen=True)
class Stage:
    """v0 and the variant laid out on disk, and what both are asked to run."""

    cells: Cells
    site: KernelSite
    stock: Laid
    mine: Laid
    plan: Plan
    memory_bytes: int
    pins: tuple[Choice, ...] = ()
    kernels: KeptKernels | None = None

    def lay_kernels(self, folder: Path) -> None:
        """What was compiled of each before, for that arm alone."""
        for arm, laid in ((V0, self.stock), (VARIANT, self.mine)):
            if self.kernels is not None:
                self.kernels.lay(sources_digest(laid.files), folder / f"{KERNELS}-{arm}")


class Silence(Exception):
    """An arm did not tell that it has done what it was asked."""


class Lines:
    """The pipes of both arms. Each end is held open here, so that no arm that hangs or dies can hang us."""

    def __init__(self, folder: Path, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._asked = {arm: self._made(folder / asked(arm)) for arm in ARMS}
        self._told = {arm: self._made(folder / told(arm)) for arm in ARMS}

    @staticmethod
    def _made(place: Path) -> int:
        os.mkfifo(place, 0o600)
        return os.open(place, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def say(self, arm: str, what: int, number: int = 0) -> bytes:
        frame = bytes((what, number)) + secrets.token_bytes(FRAME - 2)
        os.write(self._asked[arm], frame)
        return frame

    def _has_told(self, arm: str, seconds: float) -> bool:
        return bool(select.select([self._told[arm]], [], [], seconds)[0])

    def ask(self, arm: str, what: int, number: int = 0) -> float:
        """Seconds from asked to told."""
        if self._has_told(arm, 0):
            raise Silence(f"{arm} told before it was asked")
        until = time.monotonic() + (START_S if what in (BEGIN, READY) else BATCH_S)
        began = time.perf_counter()
        frame = self.say(arm, what, number)
        while not self._has_told(arm, 0.1):
            if not self._alive() or time.monotonic() > until:
                raise Silence(f"{arm} did not answer")
        took = time.perf_counter() - began
        if os.read(self._told[arm], 2 * FRAME) != frame:
            raise Silence(f"{arm} told something else than it was asked")
        return took

    def close(self) -> None:
        for descriptor in (*self._asked.values(), *self._told.values()):
            os.close(descriptor)


def quickest(plan: Plan) -> tuple[Call, ...]:
    """The case with fewest bytes of each direction: where the GPU is done before the host is. What need not move any
    may launch nothing at all, and speaks for no other case."""
    best = {}
    for case in sorted(plan.cases, key=lambda case: (case.minimum_bytes > 0, -case.minimum_bytes)):
        best[case.call.direction] = case.call
    return tuple(case.call for case in plan.cases if case.call in best.values())


def _place(ask: Ask, arm: str, number: int) -> float:
    took, lasted = list[float](), list[float]()
    while len(took) < BATCHES and (len(took) < FEWEST_BATCHES or len(lasted) * min(lasted) < PLACE_S):
        ready = ask(arm, READY, number)
        took.append(ask(arm, GO, number))
        lasted.append(ready + took[-1])
    return median(took)


def block(ask: Ask, number: int, flip: bool) -> Block:
    """Both arms less v0's way there and back: a variant that took its time over nothing would be paid for it."""
    order = (VARIANT, V0, V0, VARIANT) if flip else (V0, VARIANT, VARIANT, V0)
    took: dict[str, list[float]] = {arm: [] for arm in ARMS}
    ways = []
    for arm in order:
        took[arm].append(_place(ask, arm, number))
        if arm == V0:
            ways += [ask(V0, NOTHING, number) for _ in range(BATCHES)]
    way = median(ways)
    first, second, third, fourth = (
        round(max(0.0, place - way) * 1e6 / PASSES, 3) for arm in (V0, VARIANT) for place in took[arm]
    )
    return first, second, third, fourth


def blocks(ask: Ask, number: int, now: Callable[[], float] = time.monotonic) -> tuple[Block, ...]:
    """Of one case."""
    found, until = list[Block](), now() + CASE_S
    while len(found) < FEWEST or (len(found) < BLOCKS and now() < until):
        found.append(block(ask, number, random.random() < 0.5))
    return tuple(found)


def _request(stage: Stage, where: Places, beside: Mount, cases: tuple[Call, ...]) -> HostRequest:
    path_of = stage.cells.sandbox.path_of
    mine = overlay.subject(stage.site, stage.mine.files, path_of(where.source))
    stock = overlay.subject(stage.site, stage.stock.files, path_of(beside))
    return HostRequest("host", mine, stock, cases, stage.plan.fills, PASSES, pins=stage.pins)


@contextlib.contextmanager
def _running(stage: Stage, cases: tuple[Call, ...]) -> Iterator[tuple[Lines, Future[HostAnswer | Fault]]]:
    folder = stage.mine.folder / "host-request"
    folder.mkdir(exist_ok=True)
    stage.lay_kernels(folder)
    where = places(stage.cells, f"{stage.mine.name}/host", stage.mine.source, folder)
    beside = Mount(stage.stock.source, BESIDE)
    (folder / REQUEST).write_text(render(_request(stage, where, beside, cases)), encoding="utf-8")
    limits = Limits(CELL_S, stage.memory_bytes)

    def live() -> HostAnswer | Fault:
        ended = start(stage.cells, where, limits, {}, stage.cells.gpu, stage.stock.source)
        return answered(where, ended, HostAnswer, limits)

    with ThreadPoolExecutor(max_workers=1) as thread:
        lines = Lines(where.answer.host, lambda: not life.done())
        life = thread.submit(live)
        try:
            yield lines, life
        finally:
            for arm in ARMS:
                with contextlib.suppress(OSError):
                    lines.say(arm, END)
            life.exception()  # both are gone before their pipes are
            lines.close()


def _why(silence: Silence, life: Future[HostAnswer | Fault]) -> str:
    answer = life.result() if life.done() else None
    return f"{answer.kind}: {answer.detail}" if isinstance(answer, Fault) else str(silence)


def _prepared(ask: Ask, arm: str, cases: tuple[Call, ...]) -> None:
    ask(arm, BEGIN, 0)
    for number in range(len(cases)):
        ask(arm, READY, number)


def read(stage: Stage) -> dict[str, tuple[Block, ...]]:
    """By case. Where v0 already cannot be read the machine is to blame; later it is the variant, which was not even
    imported before."""
    cases = quickest(stage.plan)
    with _running(stage, cases) as (lines, life):
        try:
            _prepared(lines.ask, V0, cases)
        except Silence as error:
            why = _why(error, life)
            raise OperatorError(
                f"host time cannot be read here: {why}", hint="run `kernelwright doctor` on this machine"
            ) from error
        try:
            _prepared(lines.ask, VARIANT, cases)
            found = {call.case: blocks(lines.ask, number) for number, call in enumerate(cases)}
        except Silence as error:
            raise Objection(f"its host time cannot be read: {_why(error, life)}") from error
    ended = life.result()
    if isinstance(ended, Fault):
        raise Objection(f"its host time cannot be read: {ended.kind}: {ended.detail}")
    return found


def _with(case: CaseResult, blocks: tuple[Block, ...]) -> CaseResult:
    if case.paired is None or not blocks:
        return case
    return case.model_copy(update={"paired": case.paired.model_copy(update={"host": blocks})})


def told_of(cases: tuple[CaseResult, ...], stage: Stage) -> tuple[CaseResult, ...]:
    """The cases with the host time of those that were asked. Fresh processes are asked again before one is too long."""
    found: dict[str, tuple[Block, ...]] = {}
    told = cases
    try:
        for _ in range(PAIRS):
            for name, blocks in read(stage).items():
                found[name] = (*found.get(name, ()), *blocks)
            told = tuple(_with(case, found.get(case.case, ())) for case in cases)
            if not any(map(longer, told)):
                break
    finally:
        for laid in (stage.mine, stage.stock):
            clear(laid.folder)
    return told
