"""What the page shows of jobs while they run, and that a word is heard meanwhile. Which job follows which, the workflow
files say: tests/workflows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bot.cli.session import Session
from bot.errors import OperatorError
from bot.localhub.board import JobLine
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.steps import Ran, Result
from tests.localhub.conftest import populate
from tests.patience import PATIENCE_S, wait_for


class Stand:
    """Jobs that are only told of. `/optimize c1 measure publish` says what is dispatched, and for which campaign."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.told = list[str]()
        self.decision = "acted"
        self.began: Callable[[Ran], None] = lambda ran: None
        self.ended: Callable[[Ran], None] = lambda ran: None
        self.hold, self.broken, self.stopped = threading.Event(), dict[str, Result](), threading.Event()
        self.hold.set()
        self._count, self._lock = 0, threading.Lock()

    def stop(self) -> None:
        self.stopped.set()
        self.hold.set()

    def hear(self, name: str, event: Mapping[str, Any], payload: Path) -> None:
        if name == "workflow_dispatch":
            campaign, *zones = event["inputs"]["campaign"].split(" ")
            for zone in zones:
                self._job(zone, zone, campaign)
            return
        campaign, *zones = event["comment"]["body"].removeprefix("/optimize ").split(" ")
        if campaign == "trouble":
            raise OperatorError("the workflow files cannot be read")
        self._job("decide", "decide", campaign, asked=False)
        if zones:
            self._job("start", "", campaign, asked=False)
            self._dispatch(" ".join((campaign, *zones)))

    def _dispatch(self, words: str) -> None:
        with self._lock:
            self._count += 1
        folder = self._folder / "hub" / "outbox" / f"9{self._count:05d}"
        folder.mkdir(parents=True)
        (folder / "event.json").write_text(json.dumps({"inputs": {"campaign": words}}))
        (folder / "name").write_text("workflow_dispatch")

    def _job(self, job: str, zone: str, campaign: str, *, asked: bool = True) -> None:
        if self.stopped.is_set():
            return
        with self._lock:
            self._count += 1
            folder = self._folder / f"{self._count:03d}-{job}"
        ran = Ran("w.yml", job, "running", zone, folder=folder, inputs={"campaign": campaign} if asked else {})
        self.began(ran)
        if zone == "measure":
            self.hold.wait(PATIENCE_S)
        said = {"campaign": campaign, "reason_code": "all_good", "stage": "profiling", "decision": self.decision}
        ran.printed = f"some words\n{json.dumps(said)}\n"
        ran.result, ran.seconds = self.broken.get(job, "success"), 0.1
        self.told.append(f"{job} {campaign}")
        self.ended(ran)


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    hub = Hub(tmp_path / "hub")
    populate(hub)
    return hub


@pytest.fixture
def said() -> list[str]:
    """On the terminal."""
    return []


@pytest.fixture
def stand(hub: Hub, tmp_path: Path, said: list[str]) -> Iterator[Stand]:
    stand = Stand(tmp_path)
    with Session(hub, cast(Runner, stand), {1: "a"}, said.append):
        yield stand


def lines(hub: Hub) -> list[JobLine]:
    """As the page has them, the oldest first."""
    return list(hub._desk.board.jobs[::-1])


def states(hub: Hub) -> list[tuple[str, str]]:
    return [(line.zone, line.state) for line in lines(hub)]


def test_the_page_lists_the_jobs_that_run_a_zone(hub: Hub, stand: Stand, said: list[str]) -> None:
    hub.comment("mira", 1, "/optimize c1 take measure publish")
    zones = ["decide", "take", "measure", "publish"]
    wait_for(lambda: states(hub) == [(zone, "done") for zone in zones])
    assert stand.told == ["decide c1", "start c1", "take c1", "measure c1", "publish c1"]
    assert [(line.count, line.words, line.seconds) for line in lines(hub)] == [
        (number, "all good", 0.1) for number in (1, 2, 3, 4)
    ]
    wait_for(lambda: len(said) == 2 * len(zones))  # the page may know sooner than the terminal
    assert [line.split()[1] for line in said] == [zone for zone in zones for _ in ("begins", "ends")]
    assert said[:2] == [
        "  001 decide      begins  reading what was written",
        "  001 decide       0.1 s  all_good               now profiling",
    ]


def test_a_line_is_printed_when_a_job_begins_and_says_what_it_does(hub: Hub, stand: Stand, said: list[str]) -> None:
    stand.hold.clear()
    hub.comment("mira", 1, "/optimize c1 measure")
    wait_for(lambda: states(hub) == [("decide", "done"), ("measure", "running")])
    wait_for(lambda: said[-1] == "  004 measure     begins  profiling the untouched kernel")
    stand.hold.set()


def test_a_job_that_said_no_is_no_success_and_took_its_time(hub: Hub, stand: Stand) -> None:
    stand.decision = "refused"
    hub.comment("mira", 1, "/optimize c1")
    wait_for(lambda: states(hub) == [("decide", "refused")])
    assert (lines(hub)[0].words, lines(hub)[0].seconds) == ("refused: all good", 0.1)


def test_a_job_that_runs_is_seen_while_it_runs(hub: Hub, stand: Stand) -> None:
    stand.hold.clear()
    hub.comment("mira", 1, "/optimize c1 measure")
    wait_for(lambda: states(hub) == [("decide", "done"), ("measure", "running")])
    assert lines(hub)[-1].seconds is None and lines(hub)[-1].started_at
    stand.hold.set()
    wait_for(lambda: states(hub)[-1] == ("measure", "done"))


@pytest.mark.parametrize(("result", "state"), [("failure", "failed"), ("cancelled", "stopped")])
def test_what_became_of_a_job_is_told(hub: Hub, stand: Stand, said: list[str], result: Result, state: str) -> None:
    stand.broken["measure"] = result
    hub.comment("mira", 1, "/optimize c1 measure publish")
    wait_for(lambda: states(hub) == [("decide", "done"), ("measure", state), ("publish", "done")])
    assert (lines(hub)[1].words, lines(hub)[1].seconds) == ("see 004-measure", None)
    assert [line for line in said if state in line and "measure" in line]


def test_a_job_without_a_zone_is_told_of_only_when_it_fails(hub: Hub, stand: Stand, said: list[str]) -> None:
    stand.broken["start"] = "failure"
    hub.comment("mira", 1, "/optimize c1 measure")
    wait_for(lambda: ("measure", "done") in states(hub))
    assert [line for line in said if "003-start/log.txt" in line or "002-start/log.txt" in line]


def test_a_word_is_heard_while_a_campaign_is_at_work(hub: Hub, stand: Stand) -> None:
    stand.hold.clear()
    hub.comment("mira", 1, "/optimize c1 measure")
    wait_for(lambda: ("measure", "running") in states(hub))
    hub.comment("mira", 1, "/optimize c2")
    wait_for(lambda: "decide c2" in stand.told)
    assert "measure c1" not in stand.told


def test_a_comment_is_answered_though_the_one_before_could_not_be_played(
    hub: Hub, stand: Stand, said: list[str]
) -> None:
    hub.comment("mira", 1, "/optimize trouble")
    hub.comment("mira", 1, "/optimize c2")
    wait_for(lambda: stand.told == ["decide c2"])
    assert [line for line in said if "the workflow files cannot be read" in line]


def test_stopping_ends_what_runs_and_begins_nothing(hub: Hub, tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.hold.clear()
    with Session(hub, cast(Runner, stand), {1: "a"}):
        hub.comment("mira", 1, "/optimize c1 measure publish")
        wait_for(lambda: ("measure", "running") in states(hub))
    assert stand.stopped.is_set()
    hub.comment("mira", 1, "/optimize c2")
    time.sleep(0.3)
    assert "decide c2" not in stand.told and "publish c1" not in stand.told


def test_what_can_be_typed_before_anybody_asked(hub: Hub, stand: Stand) -> None:
    assert hub._desk.board.commands == {1: ("/optimize a", "/optimize help")}
