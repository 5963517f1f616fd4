"""One script of one job, and the end of everything it started: by itself, at its deadline, or when we are stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
DEADLINE_S = 1800.0
GRACE_S = 10.0
"""Between the first signal and the last one, as GitHub's runner gives it."""


def _end(process: subprocess.Popen[str]) -> None:
    """Asked first; what did not listen, or was left behind by what did, is ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_script(script: Path, folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
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
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        _end(process)
        return 124, "", f"it ran past {DEADLINE_S:.0f} s and was ended\n"
    except BaseException:
        _end(process)
        raise
    return process.returncode, out, err
