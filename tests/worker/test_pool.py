"""Candidates are compiled side by side, and none can hold up the rest."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.worker import pool
from bot.worker.contract import Binary
from bot.worker.pool import compile_all
from tests.patience import wait_until_gone


def binary(registers: int) -> Binary:
    return Binary(registers, 0, 0, 128, 128, 10, 0, False, "0" * 64)


def refuse() -> Binary:
    raise ValueError("no such block")


def exhaust() -> Binary:
    raise MemoryError


def die() -> Binary:
    os.kill(os.getpid(), signal.SIGKILL)
    return binary(0)


def leave() -> Binary:
    os._exit(0)


def test_replies_come_in_the_order_of_the_jobs() -> None:
    def job(number: int, wait: float) -> Binary:
        time.sleep(wait)
        return binary(number)

    waits = (0.3, 0.0, 0.1, 0.0, 0.0)
    replies = compile_all([lambda n=n, w=w: job(n, w) for n, w in enumerate(waits)], budget_s=60, processes=2)
    assert [reply.binary.registers for reply in replies if reply.binary] == [0, 1, 2, 3, 4]
    # Read by another clock than the sleep is: a hundredth less is no reply before its time.
    assert [reply.seconds >= wait - 0.01 for reply, wait in zip(replies, waits, strict=True)] == [True] * 5
    assert replies[0].seconds < 30


def test_nobody_begins_after_the_end_and_who_is_at_work_by_then_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was left used to be lost with all that was done, once the whole worker was ended for it."""
    begin, begun = pool._start, list[Any]()

    def started(*given: Any) -> Any:
        begun.append(begin(*given))
        return begun[-1]

    monkeypatch.setattr(pool, "_start", started)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: 10.0 * (len(begun) > 1)))
    jobs = [lambda n=n: binary(n) for n in range(4)]
    replies = compile_all(jobs, budget_s=60, processes=2, within_s=10.0)
    assert [reply.binary for reply in replies] == [binary(0), binary(1), None, None]
    late = {reply.refusal for reply in replies[2:]}
    assert [(why.kind, why.detail) for why in late if why] == [("compile_timeout", "its turn did not come within 10 s")]
    begun.clear()
    replies = compile_all(jobs, budget_s=60, processes=2, within_s=10.1)
    assert [reply.binary for reply in replies] == [binary(n) for n in range(4)]


def test_no_jobs_no_replies() -> None:
    assert compile_all([], budget_s=1, processes=2) == []


@pytest.mark.parametrize(
    ("job", "kind", "told"),
    [
        (refuse, "compile_failed", "ValueError: no such block"),
        (exhaust, "memory", "ran out of memory"),
        (die, "compile_failed", "the compiler process died"),
        (leave, "compile_failed", "the compiler process died"),
    ],
)
def test_a_candidate_that_fails_is_told_and_the_others_go_on(job: object, kind: str, told: str) -> None:
    bad, good = compile_all([job, lambda: binary(7)], budget_s=60, processes=1)  # type: ignore[list-item]
    assert bad.refusal is not None
    assert bad.refusal.kind == kind
    assert told in bad.refusal.detail
    assert good.binary == binary(7)


def test_a_candidate_beyond_its_budget_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang() -> Binary:
        (tmp_path / "hangs").touch()
        time.sleep(600)
        return binary(0)

    def hang_with_child() -> Binary:
        with subprocess.Popen(["sleep", "600"]) as child:
            (tmp_path / "new").write_text(str(child.pid))
            (tmp_path / "new").rename(tmp_path / "child")
        return binary(0)

    begin, begun = pool._start, list[Any]()

    def started(*given: Any) -> Any:
        begun.append(begin(*given))
        return begun[-1]

    def clock() -> float:
        """It is late once both hang, and later it never gets: the quick one has all the time of the world."""
        return 100.0 * (len(begun) > 1 and all((tmp_path / name).exists() for name in ("hangs", "child")))

    monkeypatch.setattr(pool, "_start", started)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=clock))
    slow, slow_too, quick = compile_all([hang, hang_with_child, lambda: binary(1)], budget_s=0.5, processes=2)
    for reply in (slow, slow_too):
        assert reply.refusal is not None
        assert reply.refusal.kind == "compile_timeout"
        assert reply.refusal.detail == "did not compile within 0.5 s"
    assert quick.binary == binary(1)
    wait_until_gone(int((tmp_path / "child").read_text()))


def test_a_reply_that_is_read_late_was_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine kept us waiting, not the compiler."""
    read = pool._drain

    def late(children: list[Any]) -> list[Any]:
        for child in children:
            select.select([child.pipe], [], [])
            child.deadline = time.monotonic() - 1
        return read(children)

    monkeypatch.setattr(pool, "_drain", late)
    (reply,) = compile_all([lambda: binary(3)], budget_s=60, processes=1)
    assert reply.binary == binary(3)
