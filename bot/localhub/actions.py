"""Plays GitHub Actions for the embedded GitHub: each zone is a process of its own, with its own token and files.

The environment of a job is built from nothing, so that no variable of the caller reaches a zone by accident.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.errors import OperatorError

DECIDE_DEADLINE = 120.0
MEASURE_DEADLINE = 1800.0
GRACE = 10.0
"""For a job that was told to end, to take its workers with it."""
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Job:
    """One finished job: what it printed last, as JSON, and how long it took."""

    zone: str
    report: Mapping[str, Any]
    seconds: float
    folder: Path


@dataclass(slots=True)
class Actions:
    """Runs `kernelwright <zone>` as the workflow would."""

    repository: str
    api_url: str
    server_url: str
    work: Path
    tokens: Mapping[str, str]
    """Zone -> token. `measure` has none."""
    bot: tuple[str, int]
    checkout: Callable[[str, Path], None]
    """Makes the trusted checkout of the default branch in a folder."""
    clock: Callable[[], float]
    python: str = sys.executable
    jobs: list[Job] = field(default_factory=list)
    started: Callable[[str, Path], None] = lambda zone, folder: None
    """Told of each job that begins."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _running: dict[Path, subprocess.Popen[bytes]] = field(default_factory=dict)

    def _folder(self, zone: str) -> Path:
        folder = self.work / f"{next(self._numbers):02d}-{zone}"
        (folder / "scratch").mkdir(parents=True)
        return folder

    def _environment(self, zone: str, folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        job = {
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_API_URL": self.api_url,
            "GITHUB_SERVER_URL": self.server_url,
            "RUNNER_TEMP": str(folder / "scratch"),
            "KERNELWRIGHT_BOT_LOGIN": self.bot[0],
            "KERNELWRIGHT_BOT_ID": str(self.bot[1]),
        }
        token = self.tokens.get(zone)
        return kept | ({**job, "KERNELWRIGHT_TOKEN": token} if token else {}) | dict(extra)

    def _run(self, zone: str, folder: Path, words: tuple[str, ...], extra: Mapping[str, str], deadline: float) -> Job:
        began = self.clock()
        self.started(zone, folder)
        code = self._process(folder, (zone, *words), self._environment(zone, folder, extra), deadline)
        said = (folder / "stdout").read_text(encoding="utf-8").strip().splitlines()
        if code != 0 or not said:
            tail = (folder / "stderr").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise OperatorError(f"the {zone} job ended with {code}:\n{tail}", hint=f"its output is in {folder}")
        job = Job(zone, json.loads(said[-1]), self.clock() - began, folder)
        self.jobs.append(job)
        return job

    def _process(self, folder: Path, words: tuple[str, ...], environment: dict[str, str], deadline: float) -> int:
        """Run it to its end, in a session of its own: who stops us stops it through us, in order."""
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [self.python, "-m", "bot", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._running[folder] = process
        try:
            return process.wait(timeout=deadline)
        except subprocess.TimeoutExpired as late:
            raise OperatorError(
                f"the {words[0]} job ran past {deadline:.0f} s and was ended", hint=f"its output is in {folder}"
            ) from late
        finally:
            self.end(folder)
            del self._running[folder]

    def end(self, folder: Path) -> None:
        """End the job of this folder, if it still runs: asked first, so that it can end its workers."""
        process = self._running.get(folder)
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def end_all(self) -> None:
        for folder in tuple(self._running):
            self.end(folder)

    def decide(self, name: str, payload: Path) -> Job:
        folder = self._folder("decide")
        self.checkout("main", folder / "trusted")
        extra = {
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(payload.resolve()),
            "GITHUB_WORKSPACE": str(folder / "trusted"),
        }
        return self._run("decide", folder, ("--order-out", "order.json"), extra, DECIDE_DEADLINE)

    def measure(self, order: Path, git_url: str) -> Job:
        """The GPU job: a plain clone, an order, and nothing else."""
        folder = self._folder("measure")
        clone = folder / "repository.git"
        subprocess.run(
            ["git", "clone", "--quiet", "--mirror", git_url, str(clone)], check=True, timeout=DECIDE_DEADLINE
        )
        words = (
            "--order",
            str(order.resolve()),
            "--repository",
            str(clone),
            "--out",
            "segment",
            "--scratch",
            "scratch",
            # The embedded GitHub shows the same story on every machine.
            "--evidence",
            "static",
        )
        return self._run("measure", folder, words, {}, MEASURE_DEADLINE)

    def publish(self, campaign: str, segment: Path | None) -> Job:
        folder = self._folder("publish")
        words = ("--campaign", campaign, "--order-out", "order.json")
        given = ("--segment", str(segment.resolve())) if segment else ()
        return self._run("publish", folder, (*words, *given), {}, DECIDE_DEADLINE)

    def push(self, campaign: str) -> Job:
        return self._run("push", self._folder("push"), ("--campaign", campaign), {}, DECIDE_DEADLINE)

    def go_on(self, job: Job, git_url: str) -> Job:
        """Run job after job until a human is waited for or nothing is left to do."""
        while job.report["next"] in ("measure", "publish", "push"):
            campaign = str(job.report["campaign"])
            match job.report["next"]:
                case "measure":
                    done = self.measure(job.folder / "order.json", git_url)
                    job = self.publish(campaign, done.folder / "segment")
                case "publish":
                    job = self.publish(campaign, None)
                case _:
                    job = self.push(campaign)
        return job
