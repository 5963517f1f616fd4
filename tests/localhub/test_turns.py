"""Who may run now: a group, a machine, and what becomes of who waits when somebody is ended."""

from __future__ import annotations

import threading
import time

from bot.localhub.turns import Turn, Turns
from tests.patience import PATIENCE_S, wait_for


class Job(threading.Thread):
    """Takes its turn, and keeps it until it is cancelled or let go."""

    def __init__(self, turns: Turns, name: str, **rules: bool) -> None:
        super().__init__(daemon=True)
        self.turn, self.go, self.had_it, self.over = Turn(), threading.Event(), False, False
        self._turns, self._row, self._rules = turns, name, rules
        self.start()

    def run(self) -> None:
        with self._turns.taken(self._row, self.turn, **self._rules):
            self.had_it = not self.turn.is_cancelled
            while not (self.go.is_set() or self.turn.is_cancelled):
                time.sleep(0.005)
        self.over = True


def waiting(turns: Turns, name: str) -> int:
    return len(turns._rows.get(name, []))


def stands_in(turns: Turns, name: str, job: Job) -> bool:
    """Its own place, not the row's length: who comes may make others leave."""
    return any(turn is job.turn for turn in turns._rows.get(name, []))


def row(turns: Turns, name: str, count: int, **rules: bool) -> list[Job]:
    jobs: list[Job] = []
    for _ in range(count):
        jobs.append(Job(turns, name, **rules))
        wait_for(lambda: stands_in(turns, name, jobs[-1]))
    return jobs


def test_one_after_the_other_in_the_order_they_came() -> None:
    turns = Turns()
    first, second, third = row(turns, "gpu", 3)
    other = Job(turns, "another")
    wait_for(lambda: first.had_it and other.had_it)
    assert not second.had_it and not third.had_it
    first.go.set()
    wait_for(lambda: second.had_it)
    assert not third.had_it
    for job in (second, third, other):
        job.go.set()
    wait_for(lambda: third.over and other.over)
    assert not any(job.turn.is_cancelled for job in (first, second, third, other))


def test_who_ends_the_others_ends_those_that_wait_as_well() -> None:
    turns = Turns()
    running, waits = row(turns, "measure-c1", 2)
    wait_for(lambda: running.had_it)
    stop = Job(turns, "measure-c1", ends_others=True)
    wait_for(lambda: stop.had_it and running.over and waits.over)
    assert running.turn.is_cancelled and not waits.had_it and not stop.turn.is_cancelled
    stop.go.set()


def test_without_a_queue_the_newest_waits_and_who_runs_goes_on() -> None:
    turns = Turns()
    running, waits, newest = row(turns, "review", 3, waits_long=False)
    wait_for(lambda: waits.over)
    assert not waits.had_it and not running.turn.is_cancelled
    running.go.set()
    wait_for(lambda: newest.had_it)
    newest.go.set()


def test_who_waits_for_a_machine_leaves_its_group_when_it_is_ended() -> None:
    turns, left = Turns(), threading.Event()
    busy = Job(turns, "machine")
    wait_for(lambda: busy.had_it)
    turn = Turn()

    def both() -> None:
        with turns.taken("measure-c2", turn), turns.taken("machine", turn):
            assert turn.is_cancelled
        left.set()

    threading.Thread(target=both, daemon=True).start()
    wait_for(lambda: waiting(turns, "machine") == 2)
    stop = Job(turns, "measure-c2", ends_others=True)
    assert left.wait(PATIENCE_S)
    wait_for(lambda: stop.had_it)
    assert not busy.turn.is_cancelled
    for job in (stop, busy):
        job.go.set()


def test_at_the_end_everybody_leaves_and_nobody_begins() -> None:
    turns = Turns()
    running, waits = row(turns, "gpu", 2)
    wait_for(lambda: running.had_it)
    turns.close()
    late = Job(turns, "gpu")
    wait_for(lambda: running.over and waits.over and late.over)
    assert not waits.had_it and not late.had_it


def test_without_a_name_nobody_waits() -> None:
    turns, turn = Turns(), Turn()
    with turns.taken("", turn), turns.taken("", turn):
        assert not turn.is_cancelled
