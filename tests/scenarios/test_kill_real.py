"""Killed while a real worker interprets a variant: the round is measured again, and nothing is told twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.story import Job, Story, Theatre

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def theatre(pictures: Path) -> Iterator[Theatre]:
    house = Theatre(pictures)
    yield house
    house.close()


def kinds(segment: Path) -> list[str]:
    lines = segment.read_text().split("\n")[:-1] if segment.exists() else []
    return [json.loads(line)["fact"]["kind"] for line in lines]


def start(asked: dict[str, Any], story: Story, scratch: Path) -> subprocess.Popen[bytes]:
    clone = scratch / "clone.git"
    scratch.mkdir()
    assert story.hub is not None
    subprocess.run(["git", "clone", "--quiet", "--mirror", str(story.hub.bare), str(clone)], check=True)
    words = [
        "--order",
        asked["order"],
        "--repository",
        str(clone),
        "--trusted",
        str(story.world / "trusted"),
        "--out",
        asked["out"],
        "--scratch",
        str(scratch / "s"),
    ]
    return subprocess.Popen([sys.executable, "-m", "bot", "measure", *words], stdout=subprocess.DEVNULL)


def test_a_gpu_job_killed_in_the_middle_of_a_round_goes_on_where_it_was(tmp_path: Path, theatre: Theatre) -> None:
    story = Story(tmp_path / "world", theatre, "autonomous", kernel="softmax")
    try:
        story.found()
        job, asked = None, story.next_job(None, 0)
        for count in range(1, 4):  # decide, profile for real, publish
            assert asked is not None
            done = story.perform({**asked, "real": True})
            assert done["code"] == 0, done["report"]
            job = Job(asked=asked, crossings=(), report=done["report"], seen={})
            asked = story.after_measure(job) if job.zone == "measure" else story.next_job(job, count)
        assert asked is not None and asked["zone"] == "measure"
        segment = Path(asked["out"]) / "segment.jsonl"
        first = start(asked, story, tmp_path / "first")
        while kinds(segment)[-1:] != ["round_opened"]:
            assert first.poll() is None, "it ended before it opened a round"
            time.sleep(0.05)
        time.sleep(1.5)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert kinds(segment) == ["order_taken", "round_opened"], "killed in the middle of the round"
        assert start(asked, story, tmp_path / "second").wait() == 0
        told = kinds(segment)
        assert told[:4] == ["order_taken", "round_opened", "variant_measured", "variant_judged"]
        assert told.count("search_ended") == 1
        closed = story.perform({"zone": "publish", "campaign": story.campaign()[0].id, "segment": asked["out"]})
        assert closed["report"]["next"] == "none", closed["report"]
    finally:
        story.close()
