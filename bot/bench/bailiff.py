"""Talks to the judge: one process for as long as a bench is open, one JSON line each way."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, TypeVar

from bot.bench.census import end_all
from bot.bench.gpu import Gpu
from bot.bench.interpreter import TargetPython
from bot.bench.suitcase import command, environment
from bot.errors import OperatorError
from bot.worker.contract import Complaint, ContractError, parse, render
from bot.worker.contract.timing import TIED, Started

ANSWER_SECONDS = 300
"""To open a case it may wait for who rests, for who comes up, and for a rival that torch compiles."""
PAUSED_SECONDS = 3600
"""Who stands still gives no answer."""
MEMORY_BYTES = 8 * 2**30
MAX_LINE = 16 * 2**20
T = TypeVar("T")


class Objection(OperatorError):
    """The judge cannot do what it was asked: no recipe, or an answer that is not one. It is still there."""


class Judge:
    """The trusted process that owns inputs, oracle and tolerance. It is told no path of the target."""

    def __init__(
        self,
        python: TargetPython,
        suitcase: Path,
        home: Path,
        gpu: Gpu | None = None,
        log: str = "judge.log",
        *,
        pauses: bool = False,
    ) -> None:
        """`pauses`: whether it may be made to stand still. It goes then with the thread that started it, as who stands
        still does not hear that nobody is left to ask, and says when it is tied."""
        home.mkdir(parents=True, exist_ok=True)
        self._log = (home / log).open("wb")
        words = (TIED, str(os.getpid())) if pauses else ()
        self._process = subprocess.Popen(
            command(python, "judge", str(suitcase), words, MEMORY_BYTES, on_gpu=gpu is not None),
            cwd=home,
            env=environment(str(home), gpu.environment if gpu is not None else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._unread = b""
        self._patience_s = PAUSED_SECONDS if pauses else ANSWER_SECONDS
        self._turn = threading.Lock()

    def send(self, request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(render(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._broken("is gone") from error

    def receive(self, kind: type[T]) -> T:
        line = self._line()
        try:
            return parse(kind, line)
        except ContractError as error:
            with contextlib.suppress(ContractError):
                raise Objection(parse(Complaint, line).complaint) from error
            raise self._broken(f"answered nonsense: {error}") from error

    def ask(self, request: Any, kind: type[T]) -> T:
        """One after another: two variants may be checked side by side."""
        with self._turn:
            self.send(request)
            return self.receive(kind)

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        until = time.monotonic() + self._patience_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise self._broken(f"did not answer within {self._patience_s} s")
                piece = os.read(self._process.stdout.fileno(), 65536)
                if not piece or len(self._unread) > MAX_LINE:
                    raise self._broken("ended in the middle of an answer")
                self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _broken(self, what: str) -> OperatorError:
        log = Path(self._log.name)
        last = log.read_text(encoding="utf-8", errors="replace")[-600:] if log.exists() else ""
        return OperatorError(f"the judge {what}. {last}".strip(), hint="run `kernelwright doctor` on this machine")

    def pause(self) -> None:
        """It stands still, whatever it was at, and keeps all that it has."""
        self._tell(signal.SIGSTOP)

    def go_on(self) -> None:
        self._tell(signal.SIGCONT)

    def _tell(self, number: signal.Signals) -> None:
        """The judge alone: a compiler that it started touches no GPU, ends by itself, and is tied to nobody."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def wait_until_tied(self) -> None:
        """One that may pause says so itself: before that it would not go with whoever started it."""
        self.receive(Started)

    def stop(self) -> None:
        """Whoever waits for its answer hears that it is gone, and closes it."""
        if self._process.returncode is None:
            end_all(self._process.pid, "")

    def close(self) -> None:
        """May be asked twice: by then the number of the process can be somebody else's."""
        if self._process.returncode is not None:
            return
        end_all(self._process.pid, "")
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
