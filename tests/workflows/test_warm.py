"""The Python of the jobs outlives those who ask it: a job that one test ends is nothing to the next test."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflows import warm

HEARS = "import signal, sys, time\nsignal.signal(signal.SIGINT, {})\nprint('ready')\ntime.sleep(60)"
POLITE, DEAF = HEARS.format("lambda *_: sys.exit(9)"), HEARS.format("signal.SIG_IGN")
"""A job that stops when it is asked to, and one that does not."""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Who asks, and who answers."""
    asks, answers = socket.socketpair()
    with asks, answers:
        yield asks, answers


def job(text: str) -> subprocess.Popen[str]:
    """At work, with an ear of its own."""
    child = subprocess.Popen([sys.executable, "-ISuc", text], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.stdout.close()
    return child


def ask(line: socket.socket, files: list[int], text: bytes = b"{}", size: int = 2) -> None:
    held = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
    line.sendmsg([size.to_bytes(4, "big")], [held])
    line.sendall(text)


def open_files(folder: Path) -> list[int]:
    return [os.open(folder / name, os.O_CREAT | os.O_WRONLY) for name in "abc"]


def how_many_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_is_asked_comes_with_its_files(ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    asks, answers = ends
    words = json.dumps({"words": ["x" * 5000]}).encode()
    ask(asks, open_files(tmp_path), words, len(words))
    told = warm.asked_on(answers)
    assert told is not None
    assert told[0] == {"words": ["x" * 5000]}
    os.write(told[1][2], b"said")
    assert (tmp_path / "c").read_text() == "said"


def test_who_is_ended_before_a_word_asked_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    asks, answers = ends
    asks.close()
    assert warm.asked_on(answers) is None


def test_who_is_ended_halfway_asked_nothing(ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    asks, answers = ends
    before = how_many_open()
    ask(asks, files := open_files(tmp_path), b"{", 2)
    for file in files:
        os.close(file)
    asks.close()
    assert warm.asked_on(answers) is None
    assert how_many_open() == before - 1, "its files are closed; the line's own end went before"


def test_a_job_tells_its_exit_code(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "run", lambda asked, files: 7)
    asks, answers = ends
    ask(asks, open_files(tmp_path))
    warm.answer(answers)
    assert asks.recv(1) == b"\x07"


def test_a_job_whose_asker_is_gone_ends_and_the_next_one_is_answered(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "run", lambda asked, files: time.sleep(60))
    asks, answers = ends
    ask(asks, open_files(tmp_path))
    asks.close()
    began = time.monotonic()
    warm.answer(answers)
    assert time.monotonic() - began < 30


def test_a_job_is_asked_to_stop_first(ends: tuple[socket.socket, socket.socket]) -> None:
    asks, answers = ends
    asks.close()
    assert warm.exit_code(job(POLITE).pid, answers) == 9


def test_a_job_that_does_not_stop_is_killed(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "GRACE_S", 0.2)
    asks, answers = ends
    asks.close()
    assert warm.exit_code(job(DEAF).pid, answers) == -signal.SIGKILL & 0xFF
