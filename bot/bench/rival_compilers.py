"""Has torch compile rivals before they are played: a pass of a shape takes it two seconds, and one that it tunes up to
thirty. Processes of the judge do it side by side, while nothing is timed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.analysis.rivals import LONGEST
from bot.bench import compile_pool
from bot.bench.bailiff import Judge, Objection
from bot.bench.cell import Cells
from bot.errors import OperatorError
from bot.model.rivals import EVERYWHERE, OF_WINNER, RivalName
from bot.model.variant import SourceFile
from bot.worker.contract import Call
from bot.worker.contract.timing import CompileRivalRequest, RivalCompiled

COMPILED: tuple[RivalName, ...] = tuple(name for name in (*EVERYWHERE, *OF_WINNER) if name != "eager")
MOST = 6
"""Each holds torch, a GPU context and one pass."""
PROCESSORS_EACH = 2
AFTERWARDS_S = 10.0
"""What is under way may end; longer no clock waits for it."""
TOO_LONG_S = 45.0
"""One that was stopped after so long would take the player as long again, with the GPU for itself: on an H200
fused_moe's longest pass was a minute under max-autotune, then 104 s more, and was not played after all."""


@dataclass(frozen=True)
class Job:
    name: RivalName
    call: Call


def expected(calls: Sequence[Call], sources: Sequence[SourceFile]) -> tuple[Job, ...]:
    """What will be asked for, as far as it can be told before v0 was timed, the slowest first. Nothing beside one that
    tunes itself, as it is on the clock meanwhile, nor where the compilers would slow the checks down."""
    if not compile_pool.leaves_room() or any("autotune" in file.text for file in sources):
        return ()
    largest = sorted(calls, key=lambda call: -call.nbytes)
    slow = tuple(Job(name, call) for name in OF_WINNER for call in largest[:LONGEST])
    return (*slow, *(Job(name, call) for name in EVERYWHERE for call in largest if name in COMPILED))


def hands(processors: int | None = None) -> int:
    return max(1, min(MOST, (processors or os.cpu_count() or 1) // PROCESSORS_EACH - 1))


class Compilers:
    """`start` brings up one process of the judge, which has to keep what torch compiled where the judge's own look."""

    def __init__(self, kernel: str, start: Callable[[int], Judge], most: int | None = None) -> None:
        self._kernel, self._start, self._most = kernel, start, most or hands()
        self._begun: set[tuple[str, str]] = set()
        self._left: deque[Job] = deque()
        self._threads: list[threading.Thread] = []
        self._at_work: dict[int, Judge] = {}
        self._under_way: dict[int, tuple[Job, float]] = {}
        self._too_long: set[tuple[RivalName, str]] = set()
        self._count = 0
        self._turn = threading.Lock()

    def begin(self, jobs: Sequence[Job]) -> None:
        """Those that were never begun: what failed once or was stopped is compiled by whoever plays it."""
        new = [job for job in jobs if (job.name, job.call.case) not in self._begun and job.name in COMPILED]
        self._begun |= {(job.name, job.call.case) for job in new}
        with self._turn:
            self._left.extend(new)
        for _ in range(min(self._most, len(new))):
            self._count += 1
            thread = threading.Thread(target=self._work, args=(self._count,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self, number: int) -> None:
        try:
            judge = self._start(number)
        except OSError:
            return
        with self._turn:
            self._at_work[number] = judge
        try:
            while (job := self._next(number)) is not None:
                with contextlib.suppress(Objection):
                    judge.ask(CompileRivalRequest("compile", self._kernel, job.call, job.name), RivalCompiled)
        except OperatorError:  # it is gone; others go on
            return
        finally:
            with self._turn:
                self._at_work.pop(number)
                self._under_way.pop(number, None)
            judge.close()

    def _next(self, number: int) -> Job | None:
        with self._turn:
            job = self._left.popleft() if self._left else None
            self._under_way.pop(number, None)
            if job is not None:
                self._under_way[number] = job, time.monotonic()
            return job

    def end(self, seconds: float = AFTERWARDS_S) -> frozenset[tuple[RivalName, str]]:
        """Nobody is at work any more: neither on the GPU nor on its way there. Says which took too long so far."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        with self._turn:
            self._left.clear()
            late = list(self._at_work.values())
            now = time.monotonic()
            slow = [job for job, began in self._under_way.values() if now - began >= TOO_LONG_S]
            self._too_long |= {(job.name, job.call.case) for job in slow}
        for judge in late:
            judge.stop()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        return frozenset(self._too_long)


def compilers(kernel: str, cells: Cells) -> Compilers:
    """More processes of the bench's judge, with its home: torch keeps there what it compiled."""

    def start(number: int) -> Judge:
        room = cells.scratch
        return Judge(cells.python, room / "judge", room / "judge-home", cells.gpu, f"compiler-{number}.log")

    return Compilers(kernel, start)
