"""The jobs of a session, as the page lists them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from bot.localhub.actions import Job
from bot.localhub.board import JobLine, JobState

MOST_SHOWN = 30


class JobLog:
    """Each lane is a thread that runs one job at a time, so a thread knows which job it is about."""

    def __init__(self) -> None:
        self.pulls: dict[str, int] = {}
        """Campaign -> its pull request, as far as the ledger has said."""
        self._lines: dict[Path, tuple[str, JobLine]] = {}
        """Folder -> campaign and line, in the order the jobs began."""
        self._here = threading.local()
        self._lock = threading.Lock()

    def works_for(self, campaign: str) -> None:
        """What this thread starts from now on is for this campaign."""
        self._here.campaign = campaign

    @property
    def campaign(self) -> str:
        """What this thread works for."""
        return str(getattr(self._here, "campaign", ""))

    def began(self, zone: str, folder: Path) -> None:
        campaign, self._here.folder = self.campaign, folder
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self._lock:
            self._lines[folder] = (campaign, JobLine(1 + len(self._lines), zone, 0, "running", at))

    def done(self, job: Job) -> None:
        words = str(job.report["reason_code"]).replace("_", " ")
        with self._lock:
            line = replace(self._lines[job.folder][1], state="done", seconds=job.seconds, words=words)
            self._lines[job.folder] = (str(job.report.get("campaign") or ""), line)

    def failed(self, *, stopped: bool) -> None:
        """The job that this thread began last."""
        folder: Path | None = getattr(self._here, "folder", None)
        with self._lock:
            if folder is not None and self._lines[folder][1].state == "running":
                state: JobState = "stopped" if stopped else "failed"
                campaign, line = self._lines[folder]
                self._lines[folder] = (campaign, replace(line, state=state, words=f"see {folder.name}"))

    def measuring(self) -> dict[str, Path]:
        """Campaign -> the folder of the GPU job that runs for it."""
        with self._lock:
            return {
                campaign: folder
                for folder, (campaign, line) in self._lines.items()
                if line.zone == "measure" and line.state == "running"
            }

    def segments(self) -> dict[str, Path]:
        """Campaign -> what its last GPU job wrote, or writes now."""
        with self._lock:
            return {
                campaign: folder / "segment"
                for folder, (campaign, line) in self._lines.items()
                if line.zone == "measure" and line.state in ("running", "done")
            }

    def running_for(self, campaign: str) -> JobLine | None:
        with self._lock:
            running = [line for name, line in self._lines.values() if name == campaign and line.state == "running"]
        return running[-1] if running else None

    def lines(self) -> tuple[JobLine, ...]:
        """The newest first."""
        with self._lock:
            last = list(self._lines.values())[-MOST_SHOWN:][::-1]
        return tuple(replace(line, number=self.pulls.get(campaign, 0)) for campaign, line in last)
