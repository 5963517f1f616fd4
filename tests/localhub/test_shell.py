"""A script of a job: what it says, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.localhub import shell
from bot.localhub.shell import run_script


def script(folder: Path, text: str) -> Path:
    path = folder / "step.sh"
    path.write_text(text)
    return path


def test_it_says_how_it_ended_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    path = script(tmp_path, "echo $WORD\nfalse | true\necho never\n")
    assert run_script(path, tmp_path, {"WORD": "hello", "PATH": os.environ["PATH"]}) == (1, "hello\n", "")


def is_there(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]


def test_whoever_stops_us_stops_what_it_started(tmp_path: Path) -> None:
    path = script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait\n")
    code = (
        "import os, signal; from pathlib import Path; from bot.localhub.shell import run_script\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # who runs us in the background may ignore it
        f"run_script(Path({str(path)!r}), Path('.'), dict(os.environ))"
    )
    us = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True)
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text().strip():
        time.sleep(0.02)
    child = int((tmp_path / "child").read_text())
    us.send_signal(signal.SIGINT)
    us.wait(timeout=30)
    assert not is_there(child)


def test_a_deadline_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "DEADLINE_S", 0.3)
    code, _, err = run_script(script(tmp_path, "sleep 60\n"), tmp_path, dict(os.environ))
    assert code == 124 and "was ended" in err
