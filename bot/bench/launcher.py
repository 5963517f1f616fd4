"""Runs one process to its end: a deadline, a cap on what it prints, on the memory and on the processes it takes."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bot.bench.census import end_all, household

GIVES_WAY = 10
"""Of 19: whoever is less nice goes first."""
LOOK_EVERY_S = 0.2
MARK = "KERNELWRIGHT_CELL"
Stopped = Literal["", "deadline", "output", "memory", "processes"]


def give_way() -> None:
    """What this thread starts from now on leaves processors to whoever is waited for. Linux counts that by the
    thread."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), GIVES_WAY)


@dataclass(frozen=True)
class Limits:
    seconds: float
    memory_bytes: int = 6 * 2**30
    processes: int = 48
    output_bytes: int = 2**20
    """More than this and it is ended: nobody reads it."""


@dataclass(frozen=True)
class Ended:
    code: int | None
    """None when we ended it."""
    stopped: Stopped
    seconds: float
    output: str
    """The end of what it printed, both streams as they came."""


class Tail:
    """Keeps the last of a stream and counts the rest."""

    KEEP = 16384

    def __init__(self) -> None:
        self.total = 0
        self._kept = b""

    def add(self, piece: bytes) -> None:
        self.total += len(piece)
        self._kept = (self._kept + piece)[-self.KEEP :]

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", errors="replace")


def _over(process: subprocess.Popen[bytes], limits: Limits, tail: Tail, started: float) -> Stopped:
    if time.monotonic() - started > limits.seconds:
        return "deadline"
    if tail.total > limits.output_bytes:
        return "output"
    family = household(process.pid)
    # Forks that share memory are counted with each of them, so their number is looked at first.
    if len(family.pids) > limits.processes:
        return "processes"
    return "memory" if family.resident_bytes > limits.memory_bytes else ""


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without collecting it: its number must not be given to another process before its group was ended."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _watch(process: subprocess.Popen[bytes], limits: Limits, tail: Tail, started: float) -> Stopped:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        looked = 0.0
        while not _has_ended(process):
            for key, _ in selector.select(0.05):
                piece = os.read(process.stdout.fileno(), 65536)
                tail.add(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            if tail.total > limits.output_bytes or time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                if stopped := _over(process, limits, tail, started):
                    return stopped
    return ""


def _last_words(process: subprocess.Popen[bytes], tail: Tail) -> None:
    """What is still in the pipe; a grandchild may hold it open, so nobody waits for its end."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        while tail.total < 2**24 and (piece := os.read(process.stdout.fileno(), 65536)):
            tail.add(piece)


class Running:
    """A process in a session of its own, from its start until nothing of it is left."""

    def __init__(self, argv: list[str], *, environment: Mapping[str, str], directory: Path) -> None:
        self._mark = secrets.token_hex(8)
        self._process = subprocess.Popen(
            argv,
            cwd=directory,
            env={**environment, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not _has_ended(self._process)

    def to_its_end(self, limits: Limits) -> Ended:
        """Watched from now on."""
        started, tail = time.monotonic(), Tail()
        stopped: Stopped = ""
        try:
            stopped = _watch(self._process, limits, tail, started)
        finally:
            self.kill(tail)
        code = None if stopped else self._process.returncode
        return Ended(code, stopped, time.monotonic() - started, tail.text)

    def kill(self, tail: Tail | None = None) -> None:
        """May be asked twice: by then the number of the process can be somebody else's."""
        if self._process.returncode is not None:
            return
        end_all(self._process.pid, f"{MARK}={self._mark}")
        self._process.wait()
        _last_words(self._process, tail or Tail())
        assert self._process.stdout is not None
        self._process.stdout.close()


def run_process(argv: list[str], *, environment: Mapping[str, str], directory: Path, limits: Limits) -> Ended:
    """Start in a session of its own, watch, and leave nothing of it behind."""
    return Running(argv, environment=environment, directory=directory).to_its_end(limits)


def signal_of(code: int) -> str:
    """Name of the signal that ended a process, "" when it ended by itself. A sandbox passes signals on as 128 +
    number."""
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number).name if number > 0 else ""
    except ValueError:
        return ""
