"""Rivals are compiled before they are played, side by side, and nobody is left at it when a clock runs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import compile_pool, rival_compilers
from bot.bench.bailiff import Objection
from bot.bench.launcher import GIVES_WAY
from bot.bench.rival_compilers import MOST, Compilers, Job, expected, hands, of_winner
from bot.errors import OperatorError
from bot.worker.contract.timing import RivalCompiled


def call(case: str, nbytes: int = 1) -> Any:
    return SimpleNamespace(case=case, nbytes=nbytes)


def jobs(*cases: str) -> tuple[Job, ...]:
    return tuple(Job("compiled", call(case)) for case in cases)


class Judges:
    """Processes of the judge that compile at once, or as told. One that was stopped answers no more."""

    def __init__(self, at_work: Callable[[str], object] = lambda case: None) -> None:
        self.asked: list[tuple[int, str, str]] = []
        self.closed: list[int] = []
        self.stopped: list[int] = []
        self.told: list[str] = []
        """Who was made to stand still, and who was let go on."""
        self.gone: dict[int, threading.Event] = {}
        self._at_work = at_work

    def start(self, number: int) -> Any:
        gone = self.gone[number] = threading.Event()

        def ask(request: Any, kind: Any) -> RivalCompiled:
            self.asked.append((number, request.name, request.call.case))
            self._at_work(request.call.case)
            if gone.is_set():
                raise OperatorError("the judge ended in the middle of an answer", hint="")
            return RivalCompiled(0.1)

        def stop() -> None:
            self.stopped.append(number)
            gone.set()

        return SimpleNamespace(
            ask=ask,
            stop=stop,
            close=lambda: self.closed.append(number),
            wait_until_tied=lambda: None,
            pause=lambda: self.told.append(f"{number} stands still"),
            go_on=lambda: self.told.append(f"{number} goes on"),
        )

    @property
    def cases(self) -> list[str]:
        return sorted(case for _, _, case in self.asked)


class Slow:
    """What takes until it is told to end, case by case; others take no time."""

    def __init__(self, *cases: str) -> None:
        self.begun = {case: threading.Event() for case in cases}
        self.over = {case: threading.Event() for case in cases}

    def __call__(self, case: str) -> None:
        if case in self.begun:
            self.begun[case].set()
            assert self.over[case].wait(20), "nobody stopped it"


def slow_judges(*cases: str) -> tuple[Judges, Slow]:
    """Whoever is stopped leaves what it is at."""
    at_work = Slow(*cases)
    judges = Judges(at_work)
    start = judges.start

    def stoppable(number: int) -> Any:
        judge = start(number)
        stop = judge.stop
        judge.stop = lambda: (stop(), [over.set() for over in at_work.over.values()])
        return judge

    judges.start = stoppable  # type: ignore[method-assign]
    return judges, at_work


def test_each_is_compiled_once_and_everybody_goes_home() -> None:
    judges = Judges()
    work = Compilers("softmax", judges.start, most=2)
    work.begin(jobs("a", "b", "c"))
    work.finish(("compiled",), 20)
    work.begin(jobs("b", "d"))
    work.finish(("compiled",), 20)
    work.end(10)
    assert judges.cases == ["a", "b", "c", "d"], "b had been compiled"
    assert sorted(judges.closed) == sorted(judges.gone), "how many there were is for who was done when to say"
    assert 2 <= len(judges.closed) <= 4
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
    work.finish(("compiled",), 20)
    assert {number for number, _, _ in judges.asked} == {1, 2}


def test_where_a_clock_runs_they_stand_still_and_go_on_afterwards() -> None:
    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b"))
    assert slow.begun["a"].wait(20)
    assert work.standing_still == 0
    with work.held():
        assert judges.told == ["1 stands still"]
        assert work.standing_still == 1
        slow.over["a"].set()  # what had been launched ends by itself
        time.sleep(0.1)
        assert judges.cases == ["a"], "nobody begins another one"
    assert judges.told == ["1 stands still", "1 goes on"]
    work.finish(("compiled",), 20)
    assert judges.cases == ["a", "b"] and not judges.stopped


def test_where_a_clock_needs_the_memory_nobody_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not done soon is stopped then, and what is left is left to whoever plays it."""
    monkeypatch.setattr(rival_compilers, "AFTERWARDS_S", 0.2)
    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1, roomy=lambda: False)
    work.begin(jobs("a", "b"))
    assert slow.begun["a"].wait(20)
    began = time.monotonic()
    with work.held():
        assert time.monotonic() - began < 10
        assert judges.stopped == [1] and judges.closed == [1]
    work.finish(("compiled",), 20)
    assert judges.cases == ["a"] and not judges.told


def test_nobody_asks_for_memory_where_nobody_is_at_work() -> None:
    def roomy() -> bool:
        raise AssertionError("it costs a question to the driver")

    work = Compilers("softmax", Judges().start, most=1, roomy=roomy)
    with work.held():
        pass
    work.begin(jobs("a"))
    work.end(10)
    with work.held():
        pass


def test_a_heat_waits_for_its_own_rivals_alone() -> None:
    judges, slow = slow_judges("long")
    work = Compilers("softmax", judges.start, most=2)
    work.begin([Job("max-autotune", call("long")), *jobs("a", "b")])
    assert not work.finish(("compiled",), 20)
    assert judges.cases == ["a", "b", "long"] and not judges.stopped
    slow.over["long"].set()
    assert not work.finish(("max-autotune",), 20)
    assert not judges.stopped


def test_when_its_time_is_over_its_own_are_given_up_and_others_are_begun() -> None:
    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1)
    work.begin([*jobs("a", "b"), Job("max-autotune", call("long"))])
    assert slow.begun["a"].wait(20)
    began = time.monotonic()
    work.finish(("compiled",), 0.2)
    assert time.monotonic() - began < 10
    assert judges.stopped == [1]
    work.finish(("max-autotune",), 20)
    assert [case for _, _, case in judges.asked] == ["a", "long"]


@pytest.mark.parametrize(("worked", "told"), [(44.9, frozenset()), (45.0, frozenset({("compiled", "b")}))])
@pytest.mark.parametrize("way", ["end", "finish"])
def test_who_was_stopped_after_so_long_is_told(
    way: str, worked: float, told: frozenset[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what it was at. How long it had to stand still does not count."""
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: None)
    judges, slow = slow_judges("a", "b")
    monkeypatch.setattr(rival_compilers, "time", clock)
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b"))
    assert slow.begun["a"].wait(20)
    now[0] += 100.0
    slow.over["a"].set()
    assert slow.begun["b"].wait(20), "a took longer, and was done"
    now[0] += worked
    with work.held():
        now[0] += 1000.0
    assert (work.end(0) if way == "end" else work.finish(("compiled",), 0)) == told
    assert work.end(0) == told, "and is remembered"


def test_who_was_interrupted_on_the_way_leaves_nobody_standing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b"))
    assert slow.begun["a"].wait(20)
    monkeypatch.setattr(rival_compilers, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupted))
    with pytest.raises(KeyboardInterrupt), work.held():
        raise AssertionError("it comes before any clock")
    assert judges.told == ["1 stands still", "1 goes on"]
    slow.over["a"].set()
    work.finish(("compiled",), 20)
    assert judges.cases == ["a", "b"]


def test_a_bench_that_closes_while_they_stand_still_waits_for_nobody() -> None:
    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b"))
    assert slow.begun["a"].wait(20)
    with work.held():
        slow.over["a"].set()
        closing = threading.Thread(target=work.end, args=(0,), daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
    assert judges.cases == ["a"] and judges.closed == [1]


def test_two_clocks_at_once_are_over_when_both_are() -> None:
    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a"))
    assert slow.begun["a"].wait(20)
    with work.held():
        with work.held():
            pass
        assert "1 goes on" not in judges.told and work.standing_still == 1
    assert judges.told[-1] == "1 goes on"
    work.end(0)


def test_one_that_is_still_coming_up_is_not_stopped_on_its_way() -> None:
    """It would not go with its bench yet; and it has nothing to do on the GPU."""
    judges, up = Judges(), threading.Event()

    def coming_up(number: int) -> Any:
        judge = judges.start(number)
        judge.wait_until_tied = lambda: up.wait(20)
        return judge

    work = Compilers("softmax", coming_up, most=1)
    work.begin(jobs("a"))
    with work.held():
        assert work.standing_still == 0
        up.set()
        time.sleep(0.1)
        assert not judges.asked and not judges.told
    work.finish(("compiled",), 20)
    assert judges.cases == ["a"]


def test_what_one_that_fell_left_is_taken_over() -> None:
    def at_work(case: str) -> None:
        if case == "a":
            raise OperatorError("it ran out of memory", hint="")

    judges = Judges(at_work)
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b", "c"))
    work.finish(("compiled",), 20)
    assert judges.cases == ["a", "b", "c"]
    assert sorted(judges.closed) == [1, 2]


def test_what_was_not_begun_when_the_memory_was_needed_can_be_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    judges, slow = slow_judges("a")
    work = Compilers("softmax", judges.start, most=1, roomy=lambda: False)
    work.begin(jobs("a", "b"))
    assert slow.begun["a"].wait(20)
    monkeypatch.setattr(rival_compilers, "AFTERWARDS_S", 20.0)
    threading.Timer(0.1, slow.over["a"].set).start()
    with work.held():
        assert judges.cases == ["a"] and not judges.stopped, "who was at it could end, and nobody began another"
    work.begin(jobs("a", "b"))
    work.finish(("compiled",), 20)
    assert judges.cases == ["a", "b"]


def test_who_is_done_the_moment_he_is_stopped_takes_nothing_along() -> None:
    judges, slow = slow_judges("a")
    start = judges.start

    def done_first(number: int) -> Any:
        judge = start(number)
        stop = judge.stop
        judge.stop = lambda: (slow.over["a"].set(), time.sleep(0.2), stop())
        return judge

    work = Compilers("softmax", done_first, most=1)
    work.begin([*jobs("a"), Job("max-autotune", call("long"))])
    assert slow.begun["a"].wait(20)
    work.finish(("compiled",), 0.1)
    work.finish(("max-autotune",), 20)
    assert judges.asked == [(1, "compiled", "a"), (2, "max-autotune", "long")] and judges.stopped == [1]


def test_a_machine_that_gives_no_more_threads_has_fewer_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scarce(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    judges = Judges()
    work = Compilers("softmax", judges.start, most=2)
    with monkeypatch.context() as scarce:
        scarce.setattr(rival_compilers.threading, "Thread", Scarce)
        work.begin(jobs("a"))
    began = time.monotonic()
    work.finish(("compiled",), 20)
    work.end(0)
    assert time.monotonic() - began < 10 and not judges.asked


def test_one_that_cannot_be_compiled_keeps_nobody_from_it() -> None:
    def at_work(case: str) -> None:
        if case == "a":
            raise Objection("torch has no such thing")

    judges = Judges(at_work)
    work = Compilers("softmax", judges.start, most=1)
    work.begin(jobs("a", "b"))
    work.finish(("compiled",), 20)
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


def test_the_largest_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_pool, "leaves_room", lambda: True)
    asked = expected([call("small", 1), call("large", 9), call("middle", 5), call("least", 0)])
    named = [(job.name, job.call.case) for job in asked]
    assert named == [
        ("compiled", "large"),
        ("compiled", "middle"),
        ("compiled", "small"),
        ("compiled", "least"),
    ]


@pytest.mark.parametrize(
    ("tunes", "room", "cases"), [(False, True, "bcd"), (True, True, ""), (False, False, ""), (True, False, "")]
)
def test_of_a_winner_those_are_compiled_in_which_v0_took_longest(
    tunes: bool, room: bool, cases: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rival_compilers.compile_pool, "leaves_room", lambda: room)
    took_us = {"a": 1.0, "b": 9.0, "c": 5.0, "d": 5.0, "e": 5.0}
    asked = of_winner(took_us, {case: call(case, 0) for case in took_us}, tunes=tunes)
    assert [(job.name, job.call.case) for job in asked] == [("max-autotune", case) for case in cases]


def test_nothing_is_compiled_ahead_without_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rival_compilers.compile_pool, "leaves_room", lambda: True)
    assert expected([call("a")])
    monkeypatch.setattr(rival_compilers.compile_pool, "leaves_room", lambda: False)
    assert not expected([call("a")])


def test_who_compiles_ahead_gives_way_to_whoever_is_waited_for() -> None:
    """Beside eight checks of mhc_coeffs six of them compiled, and the checks took 83 s."""
    nice: list[int] = []

    def start(number: int) -> Any:
        told = subprocess.run(["nice"], capture_output=True, text=True, check=True)
        nice.append(int(told.stdout))
        return Judges().start(number)

    ahead = Compilers("softmax", start)
    ahead.begin(jobs("a"))
    ahead.finish(("compiled",), 10)
    ahead.end(10)
    assert nice == [GIVES_WAY]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < GIVES_WAY
