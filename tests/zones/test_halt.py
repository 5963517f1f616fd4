"""A measuring job that its runner stops: SIGINT, SIGTERM after 7.5 s, SIGKILL after 10 s. Ours is gone by then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bot.bench.halt import PUT_OUT
from bot.cli.jobs import Bundle
from bot.ledger.journal import Segment
from bot.model.campaign import Outcome, Stage
from bot.model.facts import OrderFailed
from bot.model.reasons import ReasonCode
from bot.zones.intake import SEGMENT
from tests.patience import wait_for, wait_until_gone
from tests.zones.conversation import Conversation
from tests.zones.places import At

SECONDS = 7.5
"""What a job has between SIGINT and SIGTERM."""


def of_the_job(mark: str) -> list[int]:
    """Processes that carry the mark, wherever they hang."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def begin(talk: Conversation, mark: str) -> subprocess.Popen[bytes]:
    """A job whose worker never ends and has a child that left its group; it says so when both are there."""
    campaign = talk.campaign
    assert campaign.order is not None and campaign.pull is not None
    bundle = Bundle(
        order=campaign.order, ledger_commit=talk.branches["kernelwright/ledger"], pinned_sha=campaign.pull.head_sha
    )
    order = talk.folder / "order.json"
    order.write_text(bundle.model_dump_json())
    words = [str(order), str(talk.hub.bare), str(talk.folder / "left"), str(talk.folder / "scratch")]
    job = subprocess.Popen(
        [sys.executable, "-m", "tests.zones.endless", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KERNELWRIGHT_TEST": mark},
        cwd=Path(__file__).parents[2],
    )
    assert job.stdout is not None and job.stdout.readline() == b"working\n"
    return job


def test_nothing_of_a_stopped_job_is_left_and_its_segment_says_so(at: At) -> None:
    talk = at("profiling")
    mark = f"halt-{os.getpid()}-{time.monotonic_ns()}"
    job = begin(talk, mark)
    assert len(of_the_job(mark)) >= 3, "the job, its worker, and the worker's child"
    started = time.monotonic()
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):  # a second word changes nothing
        job.send_signal(number)
    assert job.wait(timeout=30) == 1
    took = time.monotonic() - started
    wait_for(lambda: of_the_job(mark) == [])
    assert took < SECONDS
    facts = Segment(talk.folder / "left" / SEGMENT).facts()
    assert [fact.kind for fact in facts] == ["order_taken", "order_failed"]
    assert isinstance(facts[-1], OrderFailed) and facts[-1].reason is ReasonCode.COMPUTE_STOPPED
    assert "SIGINT" in facts[-1].detail


def test_what_a_stopped_job_left_closes_the_campaign_with_the_reason(at: At) -> None:
    talk = at("profiling")
    assert talk.campaign.order is not None
    detail = "the runner told the job to stop (SIGTERM)"
    fact = OrderFailed(order=talk.campaign.order.id, reason=ReasonCode.COMPUTE_STOPPED, detail=detail)
    assert talk.publishes(talk.leaves([fact])).reason_code == "compute_stopped"
    assert talk.ended == (Stage.ENDED, Outcome.FAILED, ReasonCode.COMPUTE_STOPPED)
    assert detail in talk.answers()[-1]


LOCKED = """
import os, signal, subprocess, sys, threading
from bot.bench import halt
halt.LAST_WORDS_S = float(sys.argv[1])
with halt.halting():
    print(subprocess.Popen(["sleep", "67"]).pid, flush=True)
    lock = threading.Lock()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        lock.acquire()
        lock.acquire(timeout=float(sys.argv[2]))
print("left by itself")
"""


def played(code: str, *words: float) -> tuple[int, list[str], float]:
    """In a process of its own: what is halted ends every child, and a test process has some that others need."""
    started = time.monotonic()
    argv = [sys.executable, "-c", code, *map(str, words)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    return ended.returncode, ended.stdout.split("\n"), time.monotonic() - started


def test_who_cannot_get_out_is_put_out_with_what_he_started() -> None:
    code, (child, *said), took = played(LOCKED, 0.5, 60)
    assert code == PUT_OUT and took < SECONDS
    assert said == [""]
    wait_until_gone(int(child))


DEAF = """
import ctypes, os, signal, subprocess, sys, threading, time
from bot.bench import halt
halt.LAST_WORDS_S = float(sys.argv[1])
mutex, lock = ctypes.create_string_buffer(128), ctypes.CDLL(None).pthread_mutex_lock

def main_thread():
    lines = open(f"/proc/self/task/{os.getpid()}/status").read().splitlines()
    return [line for line in lines if line.startswith(("State", "voluntary"))]

def stop():
    before = []
    while (now := main_thread()) != before or "sleeping" not in now[0]:  # it sleeps, and was not awake in between
        before = now
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)

with halt.halting():
    print(subprocess.Popen(["sleep", "68"]).pid, flush=True)
    lock(mutex)
    threading.Thread(target=stop, daemon=True).start()
    lock(mutex)
print("left by itself")
"""


def test_a_main_thread_that_does_not_hear_of_it_keeps_nobody() -> None:
    """As one that was just going to sleep when the signal came: no Python of it runs any more."""
    code, (child, *said), took = played(DEAF, 0.5)
    assert code == PUT_OUT and took < SECONDS
    assert said == [""]
    wait_until_gone(int(child))


def test_who_gets_out_in_time_is_left_to_his_own_words() -> None:
    code, (_, *said), _ = played(LOCKED, 60, 0.5)
    assert code == 1 and said == [""]  # Halted goes on up, and python says so


PLAYED = """
import os, signal, subprocess, sys, threading, time
from bot.bench import halt

def left_by(play):
    {around}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with halt.halting() as told:
            child = subprocess.Popen(["sleep", "69"])
            play()
    except halt.Halted as error:
        assert str(error) == told.signal == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() == 1
    print(child.wait(30))  # else it is there for a minute
    time.sleep(3 * halt.EVERY_S)
    print(subprocess.run(["sleep", str(3 * halt.EVERY_S)], check=False).returncode)

def stop():
    os.kill(os.getpid(), signal.SIGTERM)

{play}
"""
GONE_AND_NEW = ["-9", "0", ""]
"""How the child that was there ended, and the one that was started afterwards."""


def test_afterwards_the_signals_mean_what_they_meant() -> None:
    code, said, _ = played(PLAYED.format(around="", play="left_by(stop)"))
    assert (code, said) == (0, GONE_AND_NEW)


def test_who_leaves_at_once_leaves_nobody_behind() -> None:
    """Sooner than who stands by has come to it."""
    code, said, _ = played(PLAYED.format(around="halt._stand_by = lambda *_: None", play="left_by(stop)"))
    assert (code, said) == (0, GONE_AND_NEW)


LATE = """real = halt.end_children
    def late():
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.5)
        real()
    halt.end_children = late"""


def test_who_stands_by_ends_nothing_that_was_started_afterwards() -> None:
    """However late it comes to it."""
    code, said, _ = played(PLAYED.format(around=LATE, play="left_by(stop)"))
    assert (code, said) == (0, GONE_AND_NEW)


AT_THE_END = """real, stop_once = signal.signal, [stop]
    def stopped_here(number, handler):
        if handler is signal.SIG_DFL and stop_once:
            stop_once.pop()()
        return real(number, handler)
    signal.signal = stopped_here"""


def test_a_signal_that_comes_on_the_way_out_leaves_all_as_it_was() -> None:
    code, said, _ = played(PLAYED.format(around=AT_THE_END, play="left_by(lambda: None)"))
    assert (code, said) == (0, GONE_AND_NEW)
