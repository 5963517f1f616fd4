"""Killed at every write, a campaign goes on as if nothing had happened: no fact lost, nothing said or pushed twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import pytest

from bot.model.campaign import Stage
from tests.scenarios.story import Job, Story, Theatre

GOLDEN = Path(__file__).parents[1] / "golden" / "crossings"
MOST_JOBS = 30
Point: TypeAlias = tuple[Job, int, tuple[int, str]]
"""A job, its number, and the write before or after which it is killed."""


@pytest.fixture(scope="module")
def theatre(pictures: Path) -> Iterator[Theatre]:
    house = Theatre(pictures)
    yield house
    house.close()


def play(story: Story, snapshots: Path) -> list[Job]:
    """The campaign without a kill, with a copy of the world before each job."""
    jobs: list[Job] = []
    story.found()
    asked = story.next_job(None, 0)
    while asked is not None:
        story.save(snapshots / str(len(jobs)))
        done = story.perform(asked)
        assert done["code"] == 0, done["report"]
        job = Job(asked=asked, crossings=tuple(done["crossings"]), report=done["report"], seen=story.seen())
        jobs.append(job)
        assert len(jobs) < MOST_JOBS, [job.zone for job in jobs]
        asked = story.after_measure(job) if job.zone == "measure" else story.next_job(job, len(jobs))
    story.save(snapshots / str(len(jobs)))
    return jobs


def crossing_list(jobs: list[Job]) -> str:
    """One block a job."""
    return "\n".join("".join(f"{job.zone}: {label}\n" for label in job.crossings) for job in jobs)


def kill_points(jobs: list[Job]) -> list[Point]:
    """Before each write, and after the last one of a job. Nothing durable happens between two writes, so a kill
    before one is a kill after the one before it."""
    return [
        (job, number, kill)
        for number, job in enumerate(jobs)
        for kill in [*((n, "before") for n in range(len(job.crossings))), (len(job.crossings) - 1, "after")]
    ]


def check_kill(story: Story, snapshots: Path, job: Job, number: int, kill: tuple[int, str]) -> None:
    where = (job.zone, job.crossings[kill[0]], kill)
    story.restore(snapshots / str(number))
    killed = story.perform(job.asked, kill)
    assert killed["killed"], (where, killed)
    again = story.perform(job.asked)
    assert again["code"] == 0, (where, again["report"])
    assert again["report"]["next"] == job.report["next"], where
    assert story.seen() == job.seen, where


def steps(block: str) -> list[tuple[str, str]]:
    """Each write of a job, and what it wrote before that: together they say where it is killed."""
    return list(pairwise(["", *block.splitlines(), ""]))


def known() -> set[tuple[str, str]]:
    """Where an interactive campaign is killed."""
    blocks = (GOLDEN / "interactive.txt").read_text().split("\n\n")
    return {step for block in blocks for step in steps(block)}


def is_new(point: Point) -> bool:
    """An autonomous campaign is killed where it stands between two writes that no interactive one makes in a row."""
    job, _, (number, moment) = point
    return steps(crossing_list([job]))[number + (moment == "after")] not in known()


def survive(mode: str, half: int | None, folder: Path, theatre: Theatre, update: bool) -> None:
    """Play one campaign, then kill it at every write of `half` of them, or where it goes a way of its own."""
    story = Story(folder / "world", theatre, mode)
    try:
        jobs = play(story, folder / "before")
        assert story.campaign()[0].stage is Stage.ENDED
        golden = GOLDEN / f"{mode}.txt"
        if update:
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(crossing_list(jobs))
        assert crossing_list(jobs) == golden.read_text(), "a write was added or dropped: look, then --update-golden"
        points = kill_points(jobs)
        assert mode == "autonomous" or len(points) >= 60
        mine = points[half::2] if half is not None else [point for point in points if is_new(point)]
        assert mine
        for job, number, kill in mine:
            check_kill(story, folder / "before", job, number, kill)
    finally:
        story.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("mode", "half"), [("interactive", 0), ("autonomous", None)])
def test_a_campaign_survives_a_kill_at_every_write(
    mode: str, half: int | None, tmp_path: Path, theatre: Theatre, request: pytest.FixtureRequest
) -> None:
    survive(mode, half, tmp_path, theatre, request.config.getoption("--update-golden"))
