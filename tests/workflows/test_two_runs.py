"""A word that is said while the GPU works starts a second run of its campaign; no order is measured twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.localhub.lanes import Lanes
from bot.localhub.steps import Ran
from bot.model.campaign import Stage as At
from tests.patience import wait_for
from tests.workflows.stage import KERNEL, MIRA, PULL, Stage
from tests.zones.conversation import PATH, sample_files

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def stage(tmp_path: Path, python: Path) -> Iterator[Stage]:
    found = Stage(tmp_path / "stage", python)
    yield found
    found.close()


def test_a_word_during_a_measurement_has_no_order_measured_twice(stage: Stage) -> None:
    idea = stage.hub.push(MIRA, "idea", {PATH: b"# an idea\n" + sample_files()[PATH]}, "An idea\n")
    said: list[int] = []
    trouble: list[BaseException] = []

    def done(job: str) -> int:
        return Counter(ran.job for ran in tuple(stage.runner.jobs))[job]

    def speak(ran: Ran) -> None:
        """While it searches: a commit that is to be tried is noted then, and somebody has to go on with it."""
        if ran.job == "measure" and done("measure") and not said:
            said.append(stage.hub.comment(MIRA, PULL, f"/optimize try {idea}"))
            wait_for(lambda: done("start") == 2)  # it measures for as long as that takes

    def is_over() -> bool:
        ended = [run for run in tuple(stage.hub.actions.runs) if run.conclusion is not None]
        both = sum(run.path.endswith("/kernelwright-campaign.yml") for run in ended) == 2
        return both and stage.campaign.stage is At.AWAIT_FINAL

    stage.runner.began = speak
    with Lanes(stage.hub, stage.runner, trouble.append):
        stage.hub.comment(MIRA, PULL, f"/optimize {KERNEL} mode=autonomous max_variants=2")
        wait_for(is_over)
    jobs = Counter(ran.job for ran in stage.runner.jobs)
    assert (trouble, len(said), jobs["decide"]) == ([], 1, 2)
    assert jobs["start"] == 2, "there were two runs"
    assert jobs["measure"] == len(stage.campaign.orders)
    assert {ran.result for ran in stage.runner.jobs} == {"success"}
    assert stage.campaign.ignored == () and stage.hub.unknown == []
