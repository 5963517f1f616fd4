"""A script of a job: what it says, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot.localhub import shell
from bot.localhub.shell import run_script
from tests.patience import wait_for, wait_until_gone


def script(folder: Path, text: str) -> Path:
    path = folder / "step.sh"
    path.write_text(text)
    return path


def test_it_says_how_it_ended_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    path = script(tmp_path, "echo $WORD\nfalse | true\necho never\n")
    assert run_script(path, tmp_path, {"WORD": "hello", "PATH": os.environ["PATH"]}) == (1, "hello\n", "")


def told_in(path: Path) -> str:
    """What a script wrote there, once it has."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return path.read_text().strip()


def test_whoever_stops_us_stops_what_it_started(tmp_path: Path) -> None:
    path = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; wait\n")
    code = (
        "import os, signal; from pathlib import Path; from bot.localhub.shell import run_script\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # who runs us in the background may ignore it
        f"watched = lambda: Path({str(tmp_path / 'watched')!r}).touch()\n"  # from then on somebody looks after it
        f"run_script(Path({str(path)!r}), Path('.'), dict(os.environ), watched)"
    )
    us = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True)
    child = int(told_in(tmp_path / "child"))
    wait_for((tmp_path / "watched").exists)
    us.send_signal(signal.SIGINT)
    us.wait(timeout=60)
    wait_until_gone(child)


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same order of signals in a fiftieth of the time."""
    monkeypatch.setattr(shell, "STEPS", tuple((number, seconds / 50) for number, seconds in shell.STEPS))


def test_a_deadline_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "DEADLINE_S", 0.3)
    quick(monkeypatch)
    code, _, err = run_script(script(tmp_path, "sleep 600\n"), tmp_path, dict(os.environ))
    assert code == 124 and "was ended" in err


LISTENS = (
    "import signal, sys, time; signal.signal(signal.{name}, lambda *_: sys.exit('heard {name}')); "
    "print('ready', file=open('ready', 'w')); time.sleep(600)"
)


@pytest.mark.parametrize(
    ("text", "heard", "given"),
    [
        (f'exec {sys.executable} -c "{LISTENS.format(name="SIGINT")}"', "heard SIGINT", (60, 60)),
        (f"trap '' INT; exec {sys.executable} -c \"{LISTENS.format(name='SIGTERM')}\"", "heard SIGTERM", (0.3, 60)),
        ("trap '' INT TERM; sleep 600 & echo $! > child; echo ready > ready; wait", "", (0.1, 0.1)),
    ],
    ids=["polite", "slow", "deaf"],
)
def test_who_is_stopped_is_asked_twice_and_then_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, heard: str, given: tuple[float, float]
) -> None:
    """`given`: seconds after each signal. Whoever listens has as long as it takes, who does not is not waited for."""
    steps = tuple((number, seconds) for (number, _), seconds in zip(shell.STEPS, given, strict=True))
    monkeypatch.setattr(shell, "STEPS", steps)
    monkeypatch.setattr(shell, "LAST_WORDS_S", 60.0)
    code, _, err = run_script(script(tmp_path, text), tmp_path, dict(os.environ), (tmp_path / "ready").exists)
    assert code == shell.STOPPED and err.endswith("it was stopped\n") and heard in err
    if not heard:
        wait_until_gone(int(told_in(tmp_path / "child")))


def test_the_order_of_signals_is_that_of_github_s_runner() -> None:
    """Its ProcessInvoker: SIGINT, 7.5 s, SIGTERM, 2.5 s, and the end."""
    assert shell.STEPS == ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5))
