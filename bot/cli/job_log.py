"""The jobs of a session, as the page lists them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from bot.localhub.board import JobLine, JobState
from bot.localhub.steps import Ran, Result

MOST_SHOWN = 30
SEGMENT_FOLDER = "kernelwright-segment"
"""Where the workflow file lets the measuring job leave its facts, in the job's RUNNER_TEMP."""
STATES: dict[Result, JobState] = {"success": "done", "cancelled": "stopped", "failure": "failed", "running": "running"}


def campaign_of(ran: Ran) -> str:
    """The campaign that a job was started for, or that came of what it read."""
    return str(ran.inputs.get("campaign") or ran.report.get("campaign") or "")


def _state(ran: Ran) -> JobState:
    """A job that said no came to its end as it should; it looks like no success all the same."""
    is_no = ran.result == "success" and ran.report.get("decision") == "refused"
    return "refused" if is_no else STATES[ran.result]


def _words(ran: Ran) -> str:
    if ran.result == "success":
        code = str(ran.report.get("reason_code", "")).replace("_", " ")
        return f"refused: {code}" if _state(ran) == "refused" else code
    return "" if ran.result == "running" else f"see {ran.folder.name}"


class JobLog:
    """Jobs that run a zone. What only starts or stops another job is seen by what becomes of that one."""

    def __init__(self) -> None:
        self.pulls: dict[str, int] = {}
        """Campaign -> its pull request, as far as the ledger has said."""
        self._lines: dict[Path, tuple[str, JobLine]] = {}
        """Folder -> campaign and line, in the order the jobs began."""
        self._lock = threading.Lock()

    def began(self, ran: Ran) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._lock:
            if ran.zone:
                self._lines[ran.folder] = (campaign_of(ran), JobLine(1 + len(self._lines), ran.zone, 0, "running", at))

    def ended(self, ran: Ran) -> None:
        with self._lock:
            if ran.folder in self._lines:
                line = self._lines[ran.folder][1]
                state = _state(ran)
                took = ran.seconds if ran.result == "success" else None  # of any other the page says the state
                self._lines[ran.folder] = (
                    campaign_of(ran),
                    replace(line, state=state, seconds=took, words=_words(ran)),
                )

    def _measuring(self, *states: JobState) -> dict[str, Path]:
        with self._lock:
            return {
                campaign: folder / "temp" / SEGMENT_FOLDER
                for folder, (campaign, line) in self._lines.items()
                if line.zone == "measure" and line.state in states
            }

    def is_measuring(self) -> bool:
        return bool(self._measuring("running"))

    def segments(self) -> dict[str, Path]:
        """Campaign -> what its last GPU job wrote, or writes now."""
        return self._measuring("running", "done")

    def running_for(self, campaign: str) -> JobLine | None:
        with self._lock:
            running = [line for name, line in self._lines.values() if name == campaign and line.state == "running"]
        return running[-1] if running else None

    def lines(self) -> tuple[JobLine, ...]:
        """The newest first."""
        with self._lock:
            last = list(self._lines.values())[-MOST_SHOWN:][::-1]
        return tuple(replace(line, number=self.pulls.get(campaign, 0)) for campaign, line in last)
