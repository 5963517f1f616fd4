"""A job is a process that can be ended, by its deadline or by us, and takes what it started with it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bot.errors import OperatorError
from bot.localhub import actions
from bot.localhub.actions import Actions


def playing(folder: Path, script: str) -> Actions:
    """Actions whose interpreter is a script of ours."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return Actions(
        repository="a/b",
        api_url="",
        server_url="",
        work=folder / "jobs",
        tokens={},
        bot=("bot", 1),
        checkout=lambda branch, at: None,
        clock=time.monotonic,
        python=str(python),
    )


def test_a_job_reports_by_its_last_line(tmp_path: Path) -> None:
    played, begun = playing(tmp_path, """echo noise; echo '{"next": "none"}'"""), list[tuple[str, str]]()
    played.started = lambda zone, folder: begun.append((zone, folder.name))
    assert played.push("c1").report == {"next": "none"}
    played.publish("c1", None)
    assert begun == [("push", "01-push"), ("publish", "02-publish")]


def test_a_job_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="push job ended with 3:\nbad luck"):
        playing(tmp_path, "echo bad luck >&2; exit 3").push("c1")


def test_a_job_past_its_deadline_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "DECIDE_DEADLINE", 0.2)
    with pytest.raises(OperatorError, match="ran past 0 s and was ended"):
        playing(tmp_path, "exec sleep 60").push("c1")


@pytest.mark.parametrize(
    "script", ["exec sleep 60", "trap '' INT; sleep 60 & echo $! > ../child; wait"], ids=["polite", "deaf"]
)
def test_a_running_job_can_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(actions, "GRACE", 0.3)
    played, begun, died = playing(tmp_path, script), threading.Event(), list[OperatorError]()
    played.started = lambda zone, folder: begun.set()

    def job() -> None:
        try:
            played.push("c1")
        except OperatorError as error:
            died.append(error)

    lane = threading.Thread(target=job)
    started = time.monotonic()
    lane.start()
    begun.wait(10)
    time.sleep(0.3)
    played.end_all()
    lane.join(20)
    assert died and time.monotonic() - started < 20
    child = tmp_path / "jobs" / "child"
    if child.exists():
        stat = Path(f"/proc/{child.read_text().strip()}/stat")
        assert not stat.exists() or stat.read_text().split()[2] == "Z", "what it started is gone as well"


def test_ending_what_ended_already_is_nothing(tmp_path: Path) -> None:
    played = playing(tmp_path, "echo '{}'")
    job = played.push("c1")
    played.end(job.folder)
    played.end_all()
