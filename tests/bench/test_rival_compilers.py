"""Rivals are compiled before they are played, side by side, and nobody is left at it when a clock runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import compile_pool, rival_compilers
from bot.bench.bailiff import Objection
from bot.bench.rival_compilers import MOST, Compilers, Job, expected, hands
from bot.errors import OperatorError
from bot.model.variant import SourceFile
from bot.worker.contract.timing import RivalCompiled

PLAIN = (SourceFile(path="src/op.py", text="x = 1\n"),)


def call(case: str, nbytes: int = 1) -> Any:
    return SimpleNamespace(case=case, nbytes=nbytes)


def jobs(*cases: str) -> tuple[Job, ...]:
    return tuple(Job("compiled", call(case)) for case in cases)


class Judges:
    """Processes of the judge that compile at once, or as told."""

    def __init__(self, at_work: Callable[[str], None] = lambda case: None) -> None:
        self.asked: list[tuple[int, str, str]] = []
        self.closed: list[int] = []
        self.stopped: list[int] = []
        self._at_work = at_work

    def start(self, number: int) -> Any:
        def ask(request: Any, kind: Any) -> RivalCompiled:
            self.asked.append((number, request.name, request.call.case))
            self._at_work(request.call.case)
            return RivalCompiled(0.1)

        def stop() -> None:
            self.stopped.append(number)

        return SimpleNamespace(ask=ask, stop=stop, close=lambda: self.closed.append(number))

    @property
    def cases(self) -> list[str]:
        return sorted(case for _, _, case in self.asked)


def test_each_is_compiled_once_and_everybody_goes_home() -> None:
    judges = Judges()
    work = Compilers("softmax", judges.start, most=2)
    work.begin(jobs("a", "b", "c"))
    work.end(10)
    work.begin(jobs("b", "d"))
    work.end(10)
    assert judges.cases == ["a", "b", "c", "d"], "b had been compiled"
    assert sorted(judges.closed) == [1, 2, 3]
    assert not judges.stopped


def test_what_runs_as_it_is_needs_nobody() -> None:
    judges = Judges()
    work = Compilers("softmax", judges.start, most=2)
    work.begin([Job("eager", call("a"))])
    work.end(10)
    assert not judges.asked and not judges.closed


def test_they_work_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=10)
    judges = Judges(lambda case: meeting.wait() and None)
    work = Compilers("softmax", judges.start, most=2)
    work.begin(jobs("a", "b"))
    work.end(10)
    assert {number for number, _, _ in judges.asked} == {1, 2}


def test_who_is_not_done_when_a_clock_runs_is_stopped_and_what_is_left_is_left() -> None:
    gone = threading.Event()

    def long(case: str) -> None:
        if not gone.wait(20):
            raise AssertionError("nobody stopped it")
        raise OperatorError("the judge ended in the middle of an answer", hint="")

    judges = Judges(long)
    start = judges.start

    def stoppable(number: int) -> Any:
        judge = start(number)
        judge.stop = lambda: (judges.stopped.append(number), gone.set())
        return judge

    work = Compilers("softmax", stoppable, most=1)
    work.begin(jobs("a", "b"))
    began = time.monotonic()
    work.end(0.2)
    assert time.monotonic() - began < 10
    assert judges.cases == ["a"] and judges.stopped == [1] and judges.closed == [1]


@pytest.mark.parametrize(("worked", "told"), [(44.9, frozenset()), (45.0, frozenset({("compiled", "b")}))])
def test_who_was_stopped_after_so_long_is_told(
    worked: float, told: frozenset[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: now[0])
    now, begun, gone = [100.0], threading.Event(), threading.Event()

    def at_work(case: str) -> None:
        now[0] += 100.0 if case == "a" else 0.0
        if case == "b":
            begun.set()
            gone.wait(20)

    judges = Judges(at_work)
    start = judges.start

    def stoppable(number: int) -> Any:
        judge = start(number)
        judge.stop = gone.set
        return judge

    monkeypatch.setattr(rival_compilers, "time", clock)
    work = Compilers("softmax", stoppable, most=1)
    work.begin(jobs("a", "b"))
    assert begun.wait(20), "a took longer, and was done"
    now[0] += worked
    assert work.end(0) == told
    assert work.end(0) == told, "and is remembered"


def test_one_that_cannot_be_compiled_keeps_nobody_from_it() -> None:
    def at_work(case: str) -> None:
        if case == "a":
            raise Objection("torch has no such thing")

    judges = Judges(at_work)
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b"))
    work.end(10)
    assert judges.cases == ["a", "b"]


def test_a_process_that_does_not_start_is_no_news() -> None:
    def start(number: int) -> Any:
        raise OSError("no memory")

    work = Compilers("softmax", start, most=1)
    work.begin(jobs("a"))
    work.end(10)


@pytest.mark.parametrize(("processors", "found"), [(1, 1), (4, 1), (6, 2), (14, 6), (16, MOST), (64, MOST)])
def test_they_leave_processors_to_the_checks(processors: int, found: int) -> None:
    assert hands(processors) == found


def test_the_slowest_of_the_largest_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_pool, "leaves_room", lambda: True)
    asked = expected([call("small", 1), call("large", 9), call("middle", 5), call("least", 0)], PLAIN)
    named = [(job.name, job.call.case) for job in asked]
    assert named == [
        ("max-autotune", "large"),
        ("max-autotune", "middle"),
        ("max-autotune", "small"),
        ("compiled", "large"),
        ("compiled", "middle"),
        ("compiled", "small"),
        ("compiled", "least"),
    ]


def test_nothing_is_compiled_beside_who_tunes_itself_nor_without_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuned = (SourceFile(path="src/op.py", text="@triton.autotune(configs=[])\n"),)
    monkeypatch.setattr(rival_compilers.compile_pool, "leaves_room", lambda: True)
    assert expected([call("a")], PLAIN) and not expected([call("a")], tuned)
    monkeypatch.setattr(rival_compilers.compile_pool, "leaves_room", lambda: False)
    assert not expected([call("a")], PLAIN)
