"""What GitHub lists of Actions: the runs and jobs that wait, work or came to their end. Reconcile looks at it.

The runner tells of them. A hub that is opened again knows of none, as nobody plays them any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from bot.localhub.api import NUMBER, REPO, Call, Route
from bot.localhub.shapes import node_id
from bot.localhub.wire import Response, as_json, refuse

Status: TypeAlias = Literal["queued", "in_progress", "completed"]
OF_RUN = ("jobs", "logs", "check_suite", "artifacts", "cancel", "rerun")
MOST_LISTED = 100


@dataclass(slots=True)
class Job:
    id: int
    name: str
    """With the jobs that called it before it: `first order / measure`."""
    labels: tuple[str, ...]
    created_at: str
    changed_at: str
    status: Status = "queued"
    conclusion: str | None = None


@dataclass(slots=True)
class Run:
    id: int
    path: str
    """Of its workflow."""
    workflow: str
    event: str
    sha: str
    created_at: str
    title: str = ""
    jobs: list[Job] = field(default_factory=list)
    conclusion: str | None = None

    @property
    def status(self) -> Status:
        if self.conclusion is not None:
            return "completed"
        return "in_progress" if any(job.status != "queued" for job in tuple(self.jobs)) else "queued"


class Actions:
    """The runner writes here while requests are answered: each change is one assignment, each list is copied."""

    def __init__(self, clock: Callable[[], str]) -> None:
        self._clock = clock
        self._runs, self._jobs = itertools.count(1), itertools.count(1)
        self.runs: list[Run] = []

    def begin(self, *, path: str, workflow: str, event: str, sha: str) -> Run:
        run = Run(next(self._runs), path, workflow, event, sha, self._clock())
        self.runs.append(run)
        return run

    def queue(self, run: Run, name: str, labels: tuple[str, ...]) -> Job:
        job = Job(next(self._jobs), name, labels, created_at=self._clock(), changed_at=self._clock())
        run.jobs.append(job)
        return job

    def take_up(self, job: Job) -> None:
        job.status, job.changed_at = "in_progress", self._clock()

    def end(self, job: Job, conclusion: str) -> None:
        job.conclusion, job.changed_at = conclusion, self._clock()
        job.status = "completed"


def list_runs(call: Call) -> Response:
    """The newest first."""
    wanted = call.request.query.get("status")
    runs = [run for run in tuple(call.actions.runs)[::-1] if wanted in (None, run.status)]
    shown = [_shown(run, call) for run in runs[:MOST_LISTED]]
    return as_json(200, {"total_count": len(runs), "workflow_runs": shown})


def list_jobs(call: Call, number: str) -> Response:
    run = next((run for run in tuple(call.actions.runs) if run.id == int(number)), None)
    if run is None:
        raise refuse(404, "Not Found")
    jobs = tuple(run.jobs)
    shown = [_shown_job(job, run, call) for job in jobs[:MOST_LISTED]]
    return as_json(200, {"total_count": len(jobs), "jobs": shown})


def _shown(run: Run, call: Call) -> dict[str, Any]:
    home = call.show.repository(call.world.repo)
    url, workflows = f"{home['url']}/actions/runs/{run.id}", f"{home['url']}/actions/workflows"
    return {
        "id": run.id,
        "node_id": node_id("WFR", run.id),
        "name": run.workflow,
        "display_title": run.title,
        "path": run.path,
        "event": run.event,
        "status": run.status,
        "conclusion": run.conclusion,
        "head_branch": call.show.main,
        "head_sha": run.sha,
        "head_commit": None,
        "run_number": run.id,
        "run_attempt": 1,
        "workflow_id": 1,
        "pull_requests": [],
        "created_at": run.created_at,
        "updated_at": max([run.created_at, *(job.changed_at for job in tuple(run.jobs))]),
        "repository": home,
        "head_repository": home,
        "url": url,
        "html_url": f"{home['html_url']}/actions/runs/{run.id}",
        "workflow_url": f"{workflows}/1",
        **{f"{name}_url": f"{url}/{name}" for name in OF_RUN},
    }


def _shown_job(job: Job, run: Run, call: Call) -> dict[str, Any]:
    home = call.show.repository(call.world.repo)
    return {
        "id": job.id,
        "node_id": node_id("CR", job.id),
        "run_id": run.id,
        "run_url": f"{home['url']}/actions/runs/{run.id}",
        "run_attempt": 1,
        "head_sha": run.sha,
        "head_branch": call.show.main,
        "workflow_name": run.workflow,
        "name": job.name,
        "status": job.status,
        "conclusion": job.conclusion,
        "labels": list(job.labels),
        "created_at": job.created_at,
        "started_at": job.changed_at,
        "completed_at": job.changed_at if job.status == "completed" else None,
        "url": f"{home['url']}/actions/jobs/{job.id}",
        "html_url": f"{home['html_url']}/actions/runs/{run.id}/job/{job.id}",
        "check_run_url": f"{home['url']}/check-runs/{job.id}",
        **dict.fromkeys(("runner_id", "runner_name", "runner_group_id", "runner_group_name")),
    }


ROUTES: tuple[Route, ...] = (
    ("GET", rf"{REPO}/actions/runs", "read", list_runs),
    ("GET", rf"{REPO}/actions/runs{NUMBER}/jobs", "read", list_jobs),
)
