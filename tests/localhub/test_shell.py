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


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same order of signals in a fiftieth of the time."""
    monkeypatch.setattr(shell, "STEPS", tuple((number, seconds / 50) for number, seconds in shell.STEPS))


def test_a_deadline_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "DEADLINE_S", 0.3)
    quick(monkeypatch)
    code, _, err = run_script(script(tmp_path, "sleep 60\n"), tmp_path, dict(os.environ))
    assert code == 124 and "was ended" in err


LISTENS = "import signal, sys, time; signal.signal(signal.{name}, lambda *_: sys.exit('heard {name}')); time.sleep(60)"


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        (f'exec {sys.executable} -c "{LISTENS.format(name="SIGINT")}"', "heard SIGINT"),
        (f"trap '' INT; exec {sys.executable} -c \"{LISTENS.format(name='SIGTERM')}\"", "heard SIGTERM"),
        ("trap '' INT TERM; sleep 60 & echo $! > child; wait", ""),
    ],
    ids=["polite", "slow", "deaf"],
)
def test_who_is_stopped_is_asked_twice_and_then_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, heard: str
) -> None:
    monkeypatch.setattr(shell, "STEPS", tuple((number, 1.0 if heard else 0.1) for number, _ in shell.STEPS))
    begun = time.monotonic()
    ready = lambda: time.monotonic() > begun + 0.5  # noqa: E731
    code, _, err = run_script(script(tmp_path, text), tmp_path, dict(os.environ), ready)
    assert code == shell.STOPPED and err.endswith("it was stopped\n") and heard in err
    child = tmp_path / "child"
    assert heard or not is_there(int(child.read_text()))


def test_the_order_of_signals_is_that_of_github_s_runner() -> None:
    """Its ProcessInvoker: SIGINT, 7.5 s, SIGTERM, 2.5 s, and the end."""
    assert shell.STEPS == ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5))
