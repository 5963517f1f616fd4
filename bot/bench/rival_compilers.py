"""Has torch compile rivals before they are played: a pass of a shape takes it two seconds, and one that it tunes a
minute. Processes of the judge do it side by side while nothing is timed, from a campaign's first minute to its last;
where a clock runs they stand still, whatever they were at."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.analysis.rivals import slowest
from bot.bench import compile_pool
from bot.bench.bailiff import Judge, Objection
from bot.bench.cell import Cells
from bot.bench.gpu import free_mib
from bot.bench.launcher import give_way
from bot.errors import OperatorError
from bot.model.rivals import EVERYWHERE, OF_WINNER, RivalName
from bot.worker.contract import Call
from bot.worker.contract.timing import CompileRivalRequest, RivalCompiled

COMPILED: tuple[RivalName, ...] = tuple(name for name in (*EVERYWHERE, *OF_WINNER) if name != "eager")
MOST = 6
"""Each holds torch, a GPU context and one pass."""
PROCESSORS_EACH = 2
AFTERWARDS_S = 10.0
"""Where the GPU's memory is needed, what is under way may end; longer no clock waits for it."""
TOO_LONG_S = 45.0
"""One that was stopped after so long would take the player as long again, with the GPU for itself: on an H200
fused_moe's longest pass was a minute under max-autotune, then 104 s more, and was not played after all."""
SETTLES_S = 0.2
"""Who was made to stand still launches nothing any more; what it had launched by then ends meanwhile."""
FREE = 0.5
"""The share of the GPU's memory that a clock needs at most. Those who stand still keep theirs."""


@dataclass(frozen=True)
class Job:
    name: RivalName
    call: Call


def expected(calls: Sequence[Call]) -> tuple[Job, ...]:
    """What is played of every case, the largest first. Nothing where the compilers would slow the checks down."""
    if not compile_pool.leaves_room():
        return ()
    largest = sorted(calls, key=lambda call: -call.nbytes)
    return tuple(Job(name, call) for name in EVERYWHERE for call in largest if name in COMPILED)


def of_winner(took_us: Mapping[str, float], calls: Mapping[str, Call], *, tunes: bool) -> tuple[Job, ...]:
    """What will be played once there is a winner, as soon as it can be told: in the cases in which v0 took longest."""
    if tunes or not compile_pool.leaves_room():
        return ()
    return tuple(Job(name, calls[case]) for name in OF_WINNER for case in slowest(took_us))


def hands(processors: int | None = None) -> int:
    return max(1, min(MOST, (processors or os.cpu_count() or 1) // PROCESSORS_EACH - 1))


class _Watch:
    """The time, but for that in which everybody stood still."""

    def __init__(self) -> None:
        self._lost = 0.0
        self._since: float | None = None

    def now(self) -> float:
        return (time.monotonic() if self._since is None else self._since) - self._lost

    def stop(self) -> None:
        self._since = time.monotonic()

    def go_on(self) -> None:
        if self._since is not None:
            self._lost += time.monotonic() - self._since
        self._since = None


class Compilers:
    """`start` brings up one process of the judge, which has to keep what torch compiled where the judge's own look;
    `roomy` says whether a clock has memory enough beside those who stand still."""

    def __init__(
        self,
        kernel: str,
        start: Callable[[int], Judge],
        most: int | None = None,
        roomy: Callable[[], bool] = lambda: True,
    ) -> None:
        self._kernel, self._start, self._most, self._roomy = kernel, start, most or hands(), roomy
        self._begun: set[tuple[str, str]] = set()
        self._left: deque[Job] = deque()
        self._threads: list[threading.Thread] = []
        self._at_work: dict[int, Judge] = {}
        self._tied: set[int] = set()
        """Of these, those who may be made to stand still: one that is still coming up has no job yet."""
        self._under_way: dict[int, tuple[Job, float]] = {}
        self._too_long: set[tuple[RivalName, str]] = set()
        self._stopped: set[int] = set()
        self._count = 0
        self._working: set[int] = set()
        self._holders, self._watch = 0, _Watch()
        self._turn = threading.Condition()

    def begin(self, jobs: Sequence[Job]) -> None:
        """Those that were never begun: what failed once or was stopped is compiled by whoever plays it."""
        with self._turn:
            new = [job for job in jobs if (job.name, job.call.case) not in self._begun and job.name in COMPILED]
            self._begun |= {(job.name, job.call.case) for job in new}
            self._left.extend(new)
        self._hire()

    def _hire(self) -> None:
        """As many as there is work for, or fewer where the machine has no more."""
        with self._turn:
            more = min(self._most - len(self._working), len(self._left))
            for number in range(self._count + 1, self._count + 1 + more):
                thread = threading.Thread(target=self._work, args=(number,), daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._count = number
                self._working.add(number)
                self._threads.append(thread)

    def _work(self, number: int) -> None:
        """A campaign waits for its checks first, and for a rival last."""
        begun = False
        give_way()
        try:
            judge = self._start(number)
            begun = True
            self._compile_all(number, judge)
        except (OSError, OperatorError):  # it is gone, or never came; others go on
            pass
        finally:
            with self._turn:
                self._working.discard(number)
                self._turn.notify_all()
        if begun:  # what it took along is lost, and what is left has one hand less
            self._hire()

    def _compile_all(self, number: int, judge: Judge) -> None:
        with self._turn:
            self._at_work[number] = judge
        try:
            judge.wait_until_tied()
            with self._turn:
                self._tied.add(number)
            while (job := self._next(number)) is not None:
                with contextlib.suppress(Objection):
                    judge.ask(CompileRivalRequest("compile", self._kernel, job.call, job.name), RivalCompiled)
        finally:
            with self._turn:
                self._under_way.pop(number, None)
            judge.close()
            with self._turn:
                self._at_work.pop(number)
                self._tied.discard(number)

    def _next(self, number: int) -> Job | None:
        """Nobody begins while all stand still, and who has nothing to begin need not wait for that."""
        with self._turn:
            self._under_way.pop(number, None)
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._holders or not self._left)
            if not self._left or number in self._stopped:
                self._working.discard(number)
                return None
            job = self._left.popleft()
            self._under_way[number] = job, self._watch.now()
            return job

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody is at work on the GPU while this lasts. Afterwards they go on, if its memory was enough for both."""
        if (self._working or self._at_work) and not self._roomy():
            self.end(AFTERWARDS_S)
        with self._turn:
            self._holders += 1
        try:
            self._stand_still()
            yield
        finally:
            self._go_on()

    @property
    def standing_still(self) -> int:
        """How many keep a place on the GPU beside a clock."""
        with self._turn:
            return len(self._tied) if self._holders else 0

    def _stand_still(self) -> None:
        with self._turn:
            if self._holders == 1:
                self._watch.stop()
            for number in self._tied:
                self._at_work[number].pause()
            busy = bool(self._at_work)
        if busy:
            time.sleep(SETTLES_S)

    def _go_on(self) -> None:
        with self._turn:
            self._holders -= 1
            if self._holders:
                return
            for number in self._tied:
                self._at_work[number].go_on()
            self._watch.go_on()
            self._turn.notify_all()

    def _is_done(self, names: Collection[RivalName]) -> bool:
        under_way = [job for job, _ in self._under_way.values()]
        return not self._working or not any(job.name in names for job in (*self._left, *under_way))

    def finish(self, names: Collection[RivalName], seconds: float) -> frozenset[tuple[RivalName, str]]:
        """Those of these names are compiled, or given up when the time is over; others go on. Says which took too long
        so far."""
        with self._turn:
            if self._turn.wait_for(lambda: self._is_done(names), seconds):
                return frozenset(self._too_long)
            self._left = deque(job for job in self._left if job.name not in names)
            self._give_up([number for number, (job, _) in self._under_way.items() if job.name in names])
            self._turn.wait_for(lambda: self._is_done(names))
        self._hire()
        return frozenset(self._too_long)

    def end(self, seconds: float) -> frozenset[tuple[RivalName, str]]:
        """Nobody is at work any more: neither on the GPU nor on its way there. What is under way may end in that time,
        and what was not begun can be begun again. Says which took too long so far."""
        until = time.monotonic() + seconds
        with self._turn:
            self._begun -= {(job.name, job.call.case) for job in self._left}
            self._left.clear()
            self._turn.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        with self._turn:
            self._give_up(tuple(self._at_work))
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        return frozenset(self._too_long)

    def _give_up(self, numbers: Collection[int]) -> None:
        """They are stopped, when it was written down how long they were at it."""
        now = self._watch.now()
        slow = [job for n, (job, began) in self._under_way.items() if n in numbers and now - began >= TOO_LONG_S]
        self._too_long |= {(job.name, job.call.case) for job in slow}
        for number in numbers:
            if number in self._at_work:
                self._stopped.add(number)  # it may be done this moment, and takes nothing along any more
                self._at_work[number].stop()


def compilers(kernel: str, cells: Cells) -> Compilers:
    """More processes of the bench's judge, with its home: torch keeps there what it compiled."""

    def start(number: int) -> Judge:
        room = cells.scratch
        log = f"compiler-{number}.log"
        return Judge(cells.python, room / "judge", room / "judge-home", cells.gpu, log, pauses=True)

    def roomy() -> bool:
        return cells.gpu is not None and free_mib(cells.gpu) >= FREE * cells.gpu.memory_mib

    return Compilers(kernel, start, roomy=roomy)
