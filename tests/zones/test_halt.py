"""A measuring job that its runner stops: SIGINT, SIGTERM after 7.5 s, SIGKILL after 10 s. Ours is gone by then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.bench.halt import EVERY_S, PUT_OUT, Halted, halting
from bot.cli.jobs import Bundle
from bot.ledger.journal import Segment
from bot.model.campaign import Outcome, Stage
from bot.model.facts import OrderFailed
from bot.model.reasons import ReasonCode
from bot.zones.intake import SEGMENT
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
    assert of_the_job(mark) == []
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


def locked(last_words_s: float, held_s: float, code: str = LOCKED) -> tuple[int, list[str], float]:
    started = time.monotonic()
    words = [sys.executable, "-c", code, str(last_words_s), str(held_s)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    return ended.returncode, ended.stdout.split("\n"), time.monotonic() - started


def runs(pid: int) -> bool:
    """Not who is dead and waits to be buried: such a one has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_who_cannot_get_out_is_put_out_with_what_he_started() -> None:
    code, (child, *said), took = locked(0.5, 60)
    assert code == PUT_OUT and took < SECONDS
    assert said == [""]
    assert not runs(int(child))


DEAF = """
import ctypes, os, signal, subprocess, sys, threading
from bot.bench import halt
halt.LAST_WORDS_S = float(sys.argv[1])
mutex, lock = ctypes.create_string_buffer(128), ctypes.CDLL(None).pthread_mutex_lock
with halt.halting():
    print(subprocess.Popen(["sleep", "68"]).pid, flush=True)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    lock(mutex)
    lock(mutex)
"""


def test_a_main_thread_that_does_not_hear_of_it_keeps_nobody() -> None:
    """As one that was just going to sleep when the signal came: no Python of it runs any more."""
    code, (child, *said), took = locked(0.5, 60, DEAF)
    assert code == PUT_OUT and took < SECONDS
    assert said == [""] and not runs(int(child))


def test_who_gets_out_in_time_is_left_to_his_own_words() -> None:
    code, (_, *said), _ = locked(20, 0.5)
    assert code == 1 and said == [""]  # Halted goes on up, and python says so


def test_afterwards_the_signals_mean_what_they_meant() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with halting() as halt, pytest.raises(Halted, match="SIGTERM"):
        os.kill(os.getpid(), signal.SIGTERM)
    assert halt.signal == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before
    time.sleep(3 * EVERY_S)
    assert (
        subprocess.run([sys.executable, "-c", f"import time; time.sleep({3 * EVERY_S})"], check=False).returncode == 0
    )
