"""Which job follows which when people write in the page, and what becomes of one that dies or is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bot.cli.session import Session
from bot.errors import OperatorError
from bot.localhub.actions import Actions, Job
from bot.localhub.board import JobLine
from bot.localhub.server import Hub
from tests.localhub.conftest import populate

PATIENCE_S = 20.0


class Stand:
    """Jobs that are only told of. What `decide` reports is what the comment said: a stage and the next zone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, list[str]()
        self.started: Callable[[str, Path], None] = lambda zone, folder: None
        self.hold, self.broken = threading.Event(), set[str]()
        self.hold.set()
        self.ended: list[Path] = []
        self._count, self._lock = 0, threading.Lock()

    def _job(self, zone: str, told: str, **report: Any) -> Job:
        with self._lock:
            self._count += 1
            folder = self.folder / f"{self._count}-{zone}"
        self.started(zone, folder)
        if zone == "measure":
            while not self.hold.wait(0.01):
                if folder in self.ended:
                    raise OperatorError("it was ended")
        self.told.append(told)
        if zone in self.broken:
            raise OperatorError(f"the {zone} job ended with 1")
        return Job(zone, {"reason_code": "accepted", **report}, 0.1, folder)

    def decide(self, name: str, payload: Path) -> Job:
        campaign, stage, following = payload.read_text().partition("/optimize ")[2].partition('"')[0].split(" ")[:3]
        return self._job("decide", f"decide {campaign}", campaign=campaign, stage=stage, next=following)

    def measure(self, order: Path, git_url: str) -> Job:
        return self._job("measure", f"measure {order.parent.name}", next="none")

    def publish(self, campaign: str, segment: Path | None) -> Job:
        told = f"publish {campaign} {segment.parent.name if segment else '-'}"
        return self._job("publish", told, campaign=campaign, next="none", stage="await_profile")

    def push(self, campaign: str) -> Job:
        return self._job("push", f"push {campaign}", campaign=campaign, next="none", stage="ended")

    def end(self, folder: Path) -> None:
        self.ended.append(folder)

    def end_all(self) -> None:
        self.hold.set()


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    hub = Hub(tmp_path / "hub")
    populate(hub)
    return hub


@pytest.fixture
def stand(hub: Hub, tmp_path: Path) -> Iterator[Stand]:
    stand = Stand(tmp_path)
    with Session(hub, cast(Actions, stand), {1: "a"}):
        yield stand


def wait_for(reached: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.01)


def lines(hub: Hub) -> list[JobLine]:
    """As the page has them, the oldest first."""
    return list(hub._desk.board.jobs[::-1])


def states(hub: Hub) -> list[tuple[str, str]]:
    return [(line.zone, line.state) for line in lines(hub)]


def test_a_comment_sets_the_jobs_going_one_after_the_other(hub: Hub, stand: Stand) -> None:
    hub.comment("mira", 1, "/optimize c1 profiling measure")
    wait_for(lambda: states(hub) == [("decide", "done"), ("measure", "done"), ("publish", "done")])
    assert stand.told == ["decide c1", "measure 1-decide", "publish c1 2-measure"]
    assert [line.count for line in lines(hub)] == [1, 2, 3]


@pytest.mark.parametrize(("asked", "told"), [("publish", "publish c1 -"), ("push", "push c1")])
def test_other_jobs_a_report_can_ask_for(hub: Hub, stand: Stand, asked: str, told: str) -> None:
    hub.comment("mira", 1, f"/optimize c1 pushing {asked}")
    wait_for(lambda: len(stand.told) == 2)
    assert stand.told[1] == told


@pytest.mark.parametrize("asked", ["wait", "none"])
def test_nothing_runs_while_a_person_is_waited_for(hub: Hub, stand: Stand, asked: str) -> None:
    hub.comment("mira", 1, f"/optimize c1 await_profile {asked}")
    hub.comment("mira", 1, "/optimize c2 await_profile wait")
    wait_for(lambda: states(hub) == [("decide", "done")] * 2)
    assert stand.told == ["decide c1", "decide c2"]


def test_a_gpu_job_that_dies_is_told_of(hub: Hub, stand: Stand) -> None:
    stand.broken.add("measure")
    hub.comment("mira", 1, "/optimize c1 profiling measure")
    wait_for(lambda: states(hub) == [("decide", "done"), ("measure", "failed"), ("publish", "done")])
    assert stand.told[-1] == "publish c1 2-measure", "publish says what is missing"


def test_a_comment_is_answered_though_the_one_before_broke_its_job(hub: Hub, stand: Stand) -> None:
    stand.broken.add("decide")
    hub.comment("mira", 1, "/optimize c1 profiling measure")
    wait_for(lambda: states(hub) == [("decide", "failed")])
    stand.broken.clear()
    hub.comment("mira", 1, "/optimize c2 await_profile wait")
    wait_for(lambda: states(hub) == [("decide", "failed"), ("decide", "done")])


def test_cancelling_ends_the_job_that_runs(hub: Hub, stand: Stand) -> None:
    stand.hold.clear()
    hub.comment("mira", 1, "/optimize c1 profiling measure")
    wait_for(lambda: ("measure", "running") in states(hub))
    hub.comment("mira", 1, "/optimize c1 ended none")
    wait_for(lambda: states(hub) == [("decide", "done"), ("measure", "stopped"), ("decide", "done")])
    assert [folder.name for folder in stand.ended] == ["2-measure"]
    assert not any(told.startswith("publish") for told in stand.told)


def test_cancelling_one_campaign_leaves_the_other_alone(hub: Hub, stand: Stand) -> None:
    stand.hold.clear()
    hub.comment("mira", 1, "/optimize c1 profiling measure")
    wait_for(lambda: ("measure", "running") in states(hub))
    hub.comment("mira", 1, "/optimize c2 profiling measure")
    hub.comment("mira", 1, "/optimize c2 ended none")
    wait_for(lambda: [zone for zone, _ in states(hub)].count("decide") == 3)
    wait_for(lambda: ("decide", "running") not in states(hub))
    assert stand.ended == []
    stand.hold.set()
    wait_for(lambda: "publish c1 2-measure" in stand.told)
    hub.comment("mira", 1, "/optimize c3 await_profile publish")
    wait_for(lambda: "publish c3 -" in stand.told)
    assert [told for told in stand.told if told.startswith("measure")] == ["measure 1-decide"], "c2's never began"


def test_stopping_takes_the_running_job_along(hub: Hub, tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.hold.clear()
    with Session(hub, cast(Actions, stand), {1: "a"}):
        hub.comment("mira", 1, "/optimize c1 profiling measure")
        wait_for(lambda: ("measure", "running") in states(hub))
    told = list(stand.told)
    time.sleep(0.3)
    assert stand.told == told, "nothing begins after the end"


def test_what_can_be_typed_before_anybody_asked(hub: Hub, stand: Stand) -> None:
    assert hub._desk.board.commands == {1: ("/optimize a", "/optimize help")}
