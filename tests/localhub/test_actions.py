"""The list of runs and jobs that reconcile looks at, in GitHub's own shapes."""

from __future__ import annotations

import pytest

from bot.forge.calls import CallFailed
from bot.forge.jobs import RestJobs, open_jobs
from bot.localhub.actions import Run
from bot.localhub.server import Hub
from tests.localhub.conftest import BOT

OURS = ".github/workflows/kernelwright-campaign.yml"
GPU = ("self-hosted", "gpu")


@pytest.fixture
def run(hub: Hub) -> Run:
    """One of ours, which has begun."""
    run = hub.actions.begin(path=OURS, workflow="kernelwright campaign", event="workflow_dispatch", sha="a" * 40)
    run.title = "kernelwright campaign c42"
    return run


def seen(hub: Hub) -> list[tuple[str, str, bool]]:
    """As reconcile sees it."""
    door = open_jobs(hub.url, hub.repo, hub.token(BOT, {"read"}), lambda _: None)
    return [(job.campaign, job.name, job.is_queued) for job in door.unfinished() or ()]


def statuses(hub: Hub) -> list[str]:
    door = RestJobs(hub.url, hub.repo, hub.token(BOT, {"read"}), lambda _: None)
    return [run["status"] for run in door._get("runs")["workflow_runs"]]


def test_a_job_waits_works_and_is_seen_no_more(hub: Hub, run: Run) -> None:
    assert seen(hub) == []
    job = hub.actions.queue(run, "first order / measure", GPU)
    assert (seen(hub), statuses(hub)) == ([("c42", "first order / measure", True)], ["queued"])
    hub.actions.take_up(job)
    assert (seen(hub), statuses(hub)) == ([("c42", "first order / measure", False)], ["in_progress"])
    hub.actions.end(job, "failure")
    assert (seen(hub), statuses(hub)) == ([], ["in_progress"]), "another one may follow"
    run.conclusion = "failure"
    assert statuses(hub) == ["completed"]


def test_the_newest_run_comes_first(hub: Hub, run: Run) -> None:
    hub.actions.begin(path=OURS, workflow="kernelwright campaign", event="schedule", sha="a" * 40)
    run.conclusion = "success"
    assert statuses(hub) == ["queued", "completed"]


def test_a_run_that_is_not_there(hub: Hub) -> None:
    door = RestJobs(hub.url, hub.repo, hub.token(BOT, {"read"}), lambda _: None)
    with pytest.raises(CallFailed) as failure:
        door._get("runs/7/jobs")
    assert failure.value.status == 404
