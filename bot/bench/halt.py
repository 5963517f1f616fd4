"""What a measuring job does when its runner tells it to stop.

GitHub's runner sends SIGINT, after 7.5 s SIGTERM, after 2.5 s more it kills what is left. So nothing may be waited for:
every process below this one is ended at once, and again as often as a thread of ours starts another. An exception can
fall where a lock was just taken, and then nobody gets out: who has not left by himself is put out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from bot.bench.census import household

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EVERY_S = 0.1
LAST_WORDS_S = 5.0
"""For a fact or two in the segment. A job that ends without them is closed by reconcile."""
PUT_OUT = 1
"""The exit code, which is that of a stopped job that left by itself."""
OVER = b"\0"
"""No signal has this number: whoever stood by may go."""


class Halted(BaseException):
    """Somebody stopped the job. No `except Exception` holds it up."""


@dataclass
class Halt:
    """Whether the job was told to stop, and by which signal."""

    signal: str = ""


def end_children() -> None:
    for pid in household(os.getpid()).pids:
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _end_them_again(over: threading.Event) -> None:
    """Until what was stopped has written its last words, or will write none."""
    until = time.monotonic() + LAST_WORDS_S
    while not over.is_set():
        end_children()
        if not over.wait(EVERY_S) and time.monotonic() > until:
            end_children()
            os._exit(PUT_OUT)


def _stand_by(reading: int, over: threading.Event) -> None:
    """Hears of a signal when it arrives. The main thread may be on its way into a wait, and would sleep over it."""
    while (told := os.read(reading, 1)) != OVER:
        if told[0] in SIGNALS:
            _end_them_again(over)


def _put_back(before: Mapping[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)


@contextlib.contextmanager
def halting() -> Iterator[Halt]:
    """Inside, a stop signal raises Halted in the main thread, once. What was there before is put back at the end."""
    halt, over = Halt(), threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if halt.signal:
            return
        halt.signal = signal.Signals(number).name
        raise Halted(halt.signal)

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    standing_by = threading.Thread(target=_stand_by, args=(reading, over), daemon=True)
    standing_by.start()
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield halt
    finally:
        try:
            _put_back(before)
        finally:
            _put_back(before)  # Halted can fall even here, but no second time
            over.set()
            if halt.signal:  # who stands by may not have come to it yet
                end_children()
            signal.set_wakeup_fd(woken)
            os.write(writing, OVER)
            standing_by.join()  # or it would end what is started afterwards
            os.close(reading)
            os.close(writing)
