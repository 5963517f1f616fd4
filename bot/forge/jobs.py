"""The jobs of our workflows that have not ended, as GitHub Actions lists them. Only reconcile looks at them.

Importing this costs nothing; `open_jobs` brings PyGithub.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from bot.model.word import Word

UNFINISHED = ("queued", "in_progress", "waiting", "pending", "requested")
CAMPAIGN = re.compile(r"(?:kernelwright campaign|resume) ([a-z0-9][a-z0-9_-]{0,63})(?![\w-])")
OURS = ".github/workflows/kernelwright"


class JobView(Word):
    campaign: str
    name: str
    """`first order / measure`, as the run shows it."""
    is_queued: bool
    """No runner has taken it up."""
    created_at: str

    @property
    def measures(self) -> bool:
        return self.name.rpartition("/")[2].strip() == "measure"


class Jobs(Protocol):
    def unfinished(self) -> tuple[JobView, ...] | None:
        """Jobs of our campaigns that wait or run; None where this token may not look."""


def campaign_of(run: str, job: str) -> str:
    """The campaign that a job is about, by the names our workflows give; empty when it is about none."""
    found = CAMPAIGN.findall(f"{run} / {job}")
    return found[-1] if found else ""


def open_jobs(api_url: str, repo: str, token: str, sleep: Callable[[float], None] = time.sleep) -> Jobs:
    return RestJobs(api_url, repo, token, sleep)


class RestJobs:
    def __init__(self, api_url: str, repo: str, token: str, sleep: Callable[[float], None]) -> None:
        self._api_url, self._repo, self._token, self._sleep = api_url, repo, token, sleep

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        from bot.forge.calls import read
        from bot.forge.rest import connect

        requester = connect(self._api_url, self._token).requester

        def ask() -> dict[str, Any]:
            _, data = requester.requestJsonAndCheck("GET", f"/repos/{self._repo}/actions/{path}", parameters=query)
            return data if isinstance(data, dict) else {}

        return read("reading the jobs of Actions", ask, self._sleep)

    def unfinished(self) -> tuple[JobView, ...] | None:
        from bot.forge.calls import CallFailed

        try:
            runs = [
                run for status in UNFINISHED for run in self._get("runs", status=status, per_page=100)["workflow_runs"]
            ]
            ours = {run["id"]: run for run in runs if str(run.get("path", "")).startswith(OURS)}
            return tuple(view for run in ours.values() for view in self._views(run))
        except CallFailed as failure:
            if failure.status in (403, 404):
                return None
            raise

    def _views(self, run: dict[str, Any]) -> list[JobView]:
        jobs = self._get(f"runs/{int(run['id'])}/jobs", per_page=100)["jobs"]
        views = [
            JobView(
                campaign=campaign_of(str(run.get("display_title", "")), str(job["name"])),
                name=str(job["name"]),
                is_queued=job["status"] != "in_progress",
                created_at=str(job.get("created_at") or run["created_at"]),
            )
            for job in jobs
            if job["status"] != "completed"
        ]
        return [view for view in views if view.campaign]
