"""`/optimize cancel` while a job measures: at most 60 s from the start of the decide job to no process of the worker's.

Everything is the workflow files' own: the comment starts decide, its `stop` job enters the group of the measuring job,
and the runner ends that one by its order of signals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.ledger.journal import Segment
from bot.localhub import shell
from bot.localhub.lanes import Lanes
from bot.localhub.steps import Ran
from bot.model.campaign import Outcome
from bot.zones.intake import SEGMENT
from tests.patience import wait_for
from tests.workflows.endless import write_python
from tests.workflows.stage import KERNEL, MIRA, Stage

BOUND_S = 60.0
MARK = "KERNELWRIGHT_TEST"


def of_the_job(mark: str) -> set[int]:
    """Processes that carry the mark, wherever they hang."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@dataclass
class Watched:
    """A stage with a measuring job on it that would go on for ever."""

    stage: Stage
    mark: str
    trouble: list[BaseException] = field(default_factory=list)
    began: list[tuple[str, float]] = field(default_factory=list)
    ended: list[Ran] = field(default_factory=list)

    def cancelled_in(self) -> float:
        """Seconds from the start of the decide job that hears of it until nothing of the measuring job is there."""
        stage = self.stage
        stage.runner.began = lambda ran: self.began.append((ran.job, time.monotonic()))
        stage.runner.ended = self.ended.append
        with Lanes(stage.hub, stage.runner, self.trouble.append):
            stage.hub.comment(MIRA, 1, f"/optimize {KERNEL}")
            wait_for(lambda: list(stage.folder.glob("jobs-*/*-measure/temp/working")))
            here = of_the_job(self.mark)
            assert len(here) >= 3, "the job, its worker, and the worker's child"
            stage.hub.comment(MIRA, 1, "/optimize cancel")
            wait_for(lambda: not here & of_the_job(self.mark))
            gone = time.monotonic()
            wait_for(lambda: {"measure", "stop"} <= {ran.job for ran in self.ended})
        return gone - max(at for job, at in self.began if job == "decide")


@pytest.fixture
def watched(tmp_path: Path, python: Path) -> Iterator[Watched]:
    mark = f"cancel-{os.getpid()}-{time.monotonic_ns()}"
    stage = Stage(tmp_path / "stage", python, environment={MARK: mark})
    stage.runner = stage.runner_with(KERNELWRIGHT_PYTHON=str(write_python(tmp_path / "measuring")))
    yield Watched(stage, mark)
    stage.close()


def test_a_cancelled_campaign_frees_the_gpu_within_a_minute(watched: Watched) -> None:
    took = watched.cancelled_in()
    grace = sum(seconds for _, seconds in shell.STEPS)
    assert took + grace < BOUND_S, "also if it had listened to no signal, as one in tests/localhub/test_shell.py does"
    assert watched.trouble == []
    ran = {one.job: one for one in watched.ended}
    assert (ran["measure"].result, ran["stop"].result) == ("cancelled", "success")
    assert watched.stage.campaign.outcome is Outcome.CANCELLED
    assert "publish" not in ran, "nobody is told a second time"
    left = Segment(ran["measure"].temp / "kernelwright-segment" / SEGMENT).facts()
    assert [fact.kind for fact in left] == ["order_taken", "order_failed"]
    assert (ran["measure"].temp / "artifacts").is_dir(), "what it left is handed over though it was stopped"
