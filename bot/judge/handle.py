"""The judge's end of a replayer: a process of its own code that plays tapes and reads a clock."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from bot.judge.frames import END, FAILED, Ask, BrokenFrame, Tell, read_tell, send_message
from bot.judge.replayer import Setup
from bot.worker.contract import render

OPEN_SECONDS, ANSWER_SECONDS, END_SECONDS = 60.0, 20.0, 2.0

# The judge's own path, spelled out: the replayer runs no .pth file either.
_START = "import json,runpy,sys; sys.path[:]=json.loads(sys.argv[1]); sys.argv=['bot.judge.replayer',*sys.argv[2:]]; \
runpy.run_module('bot.judge.replayer', run_name='__main__', alter_sys=True)"


class Unplayable(Exception):
    """The replayer could not play these tapes; the text is what it said."""


class Replayer:
    """One process. It plays a case at a time, and no more once it was retired."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._channel, theirs = socket.socketpair()
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        theirs.close()
        self._is_up = False
        self._is_well = True

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return lines[-1][-300:] if lines else ""
        return ""

    def _tell(self, seconds: float) -> Tell:
        self._channel.settimeout(seconds)
        try:
            tell = read_tell(self._channel)
        except (OSError, BrokenFrame) as error:
            self._is_well = False
            raise Unplayable(f"the replayer ended or did not answer: {self._said() or error}") from error
        if tell.status == FAILED:
            self._is_well = False
            raise Unplayable(self._said() or "the replayer failed")
        return tell

    def come_up(self, seconds: float = OPEN_SECONDS) -> None:
        """Waits for its first word, by which it has a context and nothing more to do."""
        if not self._is_up:
            self._tell(seconds)
            self._is_up = True

    def set_up(self, setup: Setup, descriptor: int, seconds: float = OPEN_SECONDS) -> None:
        self.come_up()
        try:
            send_message(self._channel, render(setup), (descriptor,))
        except OSError as error:
            raise Unplayable(f"the replayer is gone: {self._said()}") from error
        self._tell(seconds)

    def ask(self, ask: Ask) -> tuple[tuple[float, ...], float]:
        """(what its events say in us, what our clock says in us)"""
        started = time.monotonic_ns()
        try:
            self._channel.sendall(ask.pack())
        except OSError as error:
            raise Unplayable(f"the replayer is gone: {self._said()}") from error
        tell = self._tell(ANSWER_SECONDS)
        if tell.nonce != ask.nonce:
            raise Unplayable("the replayer answered another question")
        return tell.microseconds, (time.monotonic_ns() - started) / 1e3

    def end_case(self) -> None:
        """It forgets the tapes, gives their memory back, and says so. Then it waits for others. Who was not heard the
        last time is not asked again."""
        if not self._is_well:
            return
        with contextlib.suppress(OSError, Unplayable):
            self._channel.sendall(Ask(END, 0, (), (), 0, 0).pack())
            self._tell(ANSWER_SECONDS)

    def hang_up(self) -> None:
        """It ends when it finds nobody there."""
        self._channel.close()

    def close(self) -> None:
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
