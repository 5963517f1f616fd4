"""Runs workers as forks of a process that has torch imported, under the same limits as workers that start afresh.

Only where no sandbox works: inside one, each variant gets a world of its own, which a fork cannot have.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from bot.bench.census import end_all, household
from bot.bench.clearing import clear
from bot.bench.interpreter import TargetPython
from bot.bench.launcher import LOOK_EVERY_S, Ended, Limits, Stopped, Tail
from bot.bench.suitcase import command, environment, pack
from bot.errors import OperatorError
from bot.worker.contract.door import INTERPRETING, OPEN, PLAIN, ROOMS

START_SECONDS = 60.0
GONE = -9
"""What is said of a worker whose keeper was killed: by whom else."""


class Nursery:
    """One of them a process of ours; it is started when it is first needed, and again when it was harmed."""

    def __init__(self, python: TargetPython, memory_bytes: int) -> None:
        self._python, self._memory = python, memory_bytes
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._busy = 0
        self._harmed = False
        """A keeper was killed: what it kept may hang anywhere below the nursery."""

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kernelwright-nursery-"))
        pack("worker", self._folder / "suitcase")
        door = str(self._folder / "door")
        self._process = subprocess.Popen(
            command(self._python, "worker", str(self._folder / "suitcase"), ("--nursery", door), self._memory),
            cwd=self._folder,
            env=environment(str(self._folder), {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + START_SECONDS
        while not all(Path(door + room + OPEN).exists() for room in ROOMS):
            if self._process.poll() is not None or time.monotonic() > until:
                self.close()
                raise OperatorError("no worker can be started here", hint="run `kernelwright doctor` on this machine")
            time.sleep(0.02)

    def _connect(self, room: str) -> socket.socket:
        with self._turn:
            self._busy += 1
            if self._process is None or self._process.poll() is not None:
                self.close()
                self._start()
            try:
                return self._knock(room)
            except OSError:  # ended since we looked
                self.close()
                self._start()
                return self._knock(room)

    def _knock(self, room: str) -> socket.socket:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(str(self._folder / f"door{room}"))
        except OSError:
            channel.close()
            raise
        return channel

    def close(self) -> None:
        if self._process is not None:
            end_all(self._process.pid, "")
            self._process.wait()
            self._process = None
            clear(self._folder)
        self._harmed = False

    def _done(self, ended: Ended) -> None:
        """A harmed nursery goes as soon as nobody innocent is in it."""
        with self._turn:
            self._busy -= 1
            self._harmed = self._harmed or ended.code == GONE
            if self._harmed and not self._busy:
                self.close()

    def run(
        self, request: Path, answer: Path, *, environment: Mapping[str, str], directory: Path, limits: Limits
    ) -> Ended:
        order = {
            "request": str(request),
            "answer": str(answer),
            "environment": dict(environment),
            "directory": str(directory),
        }
        room = INTERPRETING if environment.get("TRITON_INTERPRET") == "1" else PLAIN
        watch = self._try(order, room, limits)
        if not watch.began:  # the door was that of a room that was ending: killed by the worker before this one
            watch = self._try(order, room, limits)
        return watch.ended

    def _try(self, order: Mapping[str, object], room: str, limits: Limits) -> _Watch:
        reading, writing = os.pipe()
        with self._connect(room) as channel, os.fdopen(reading, "rb", buffering=0) as output:
            watch = _Watch(channel, output.fileno(), limits)
            try:
                try:
                    socket.send_fds(channel, [json.dumps(order).encode()], [writing])
                finally:
                    os.close(writing)
                watch.end()
            except ConnectionError:
                pass
            finally:
                self._done(watch.ended)
            return watch


class _Watch:
    """One worker, from its start until nothing of it is left. Starting the nursery before is not of its time."""

    def __init__(self, channel: socket.socket, output: int, limits: Limits) -> None:
        self._channel, self._output, self._limits, self._started = channel, output, limits, time.monotonic()
        self._tail, self._said = Tail(), b""
        self._keeper = 0
        self.ended = Ended(GONE, "", 0.0, "")

    @property
    def began(self) -> bool:
        return bool(self._keeper)

    @property
    def _code(self) -> int | None:
        """None while it runs."""
        lines = self._said.split(b"\n")
        return int(lines[1]) if len(lines) > 2 else None

    def _hear(self) -> bool:
        """What the keeper says; false when it is gone."""
        try:
            piece = self._channel.recv(256)
        except ConnectionResetError:
            return False
        self._said += piece
        if not self._keeper and b"\n" in self._said:
            self._keeper = int(self._said.split()[0])
        return bool(piece)

    def _over(self) -> Stopped:
        if time.monotonic() - self._started > self._limits.seconds:
            return "deadline"
        if self._tail.total > self._limits.output_bytes:
            return "output"
        family = household(self._keeper)
        # The keeper is ours, and is no part of the count.
        if len(family.pids) - 1 > self._limits.processes:
            return "processes"
        return "memory" if family.resident_bytes > self._limits.memory_bytes else ""

    def _watch(self) -> Stopped:
        looked = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(self._output, selectors.EVENT_READ)
            while self._code is None:
                for key, _ in selector.select(0.05):
                    if key.fileobj is self._channel:
                        if not self._hear():
                            return ""
                    elif not self._listen():
                        selector.unregister(self._output)
                if self._keeper and (
                    self._tail.total > self._limits.output_bytes or time.monotonic() - looked > LOOK_EVERY_S
                ):
                    looked = time.monotonic()
                    if stopped := self._over():
                        return stopped
        return ""

    def _listen(self) -> bool:
        piece = os.read(self._output, 65536)
        self._tail.add(piece)
        return bool(piece)

    def _last_words(self) -> None:
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError):
            while self._tail.total < 2**24 and self._listen():
                pass

    def end(self) -> None:
        stopped: Stopped = ""
        try:
            stopped = self._watch()
        finally:
            if self._keeper:
                end_all(self._keeper, "")
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self._keeper, 9)
            self._last_words()
        code = self._code if self._code is not None else GONE
        self.ended = Ended(None if stopped else code, stopped, time.monotonic() - self._started, self._tail.text)


@lru_cache(maxsize=2)
def nursery_of(python: TargetPython, memory_bytes: int) -> Nursery:
    found = Nursery(python, memory_bytes)
    atexit.register(found.close)
    return found
