"""One script of one job, and the end of everything it started: by itself, at its deadline, or when we are stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
DEADLINE_S = 1800.0
STEPS: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5))
"""Signal, and the seconds it is given before the next, as GitHub's runner does it. What is left then is killed."""
LOOK_EVERY_S = 0.1
LAST_WORDS_S = 1.0
STOPPED = 130


def _end(process: subprocess.Popen[str]) -> None:
    """The script itself is asked, twice; what did not listen, or was left behind by what did, is ended."""
    for number, seconds in STEPS:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(process: subprocess.Popen[str]) -> tuple[str, str]:
    _end(process)
    try:
        return process.communicate(timeout=LAST_WORDS_S)
    except subprocess.TimeoutExpired:  # somebody in a session of their own still holds the pipe
        return "", ""


def _never() -> bool:
    return False


def _wait(process: subprocess.Popen[str], stopped: Callable[[], bool]) -> tuple[int, str, str]:
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            out, err = process.communicate(timeout=LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            late = time.monotonic() > until
            if not late and not stopped():
                continue
            out, err = _last_words(process)
            why = f"it ran past {DEADLINE_S:.0f} s and was ended" if late else "it was stopped"
            return 124 if late else STOPPED, out, f"{err}{why}\n"
        return process.returncode, out, err


def run_script(
    script: Path, folder: Path, environment: Mapping[str, str], stopped: Callable[[], bool] = _never
) -> tuple[int, str, str]:
    """Exit code, output and errors. The job is a process group of its own; whatever ends us ends all of it."""
    process = subprocess.Popen(
        [*BASH, str(script)],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        return _wait(process, stopped)
    except BaseException:
        _end(process)
        raise
