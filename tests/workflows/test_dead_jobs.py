"""Jobs that die and are resumed, a runner that does not come, five deliveries at once, and GitHub in trouble.

Two campaigns are played from the workflow files, every job a process of its own; the tests look at what came of them.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.forge.marks import key_of
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.localhub.desk import Fault
from bot.localhub.steps import Ran
from bot.localhub.weather import Moment, hang_up, in_trouble, secondary_limit, too_many
from bot.localhub.wire import Request, Response
from bot.model.campaign import Outcome
from bot.model.facts import JournalLine
from bot.zones.reconcile import DEAD_MINUTES, LATE_MINUTES
from tests.patience import PATIENCE_S, wait_for
from tests.workflows.mortal import Death, Hand
from tests.workflows.stage import KERNEL, MIRA, PULL, Stage, WarmPython, told

pytestmark = pytest.mark.timeout(300)
ASKED = f"/optimize {KERNEL} mode=autonomous max_variants=1"
EVERY_TEN_MINUTES = "3-59/10 * * * *"
GPU = ("self-hosted", "gpu")
"""The labels of stage.py's machine."""
ORDER = [("take", "success"), ("measure", "success"), ("publish", "success")]
BEGUN = [("decide", "success"), ("start", "success")]
RECONCILED = ("reconcile", "success")
LEDGER = "push refs/heads/kernelwright/ledger"
DEATHS = (
    Death("decide", "POST /sample/kernels/issues/N/comments", "after"),
    Death("publish", LEDGER, "before"),
    Death("measure", "append variant_judged", "after"),
    Death("publish", "POST /sample/kernels/issues/N/comments", "after"),
    Death("push", "push refs/heads/topic", "after"),
)


def lines_of(stage: Stage) -> tuple[JournalLine, ...]:
    ledger = Ledger(Repo(stage.hub.bare), remote=".")
    (name,) = ledger.campaigns()
    return ledger.lines(name)


def keys_of(stage: Stage) -> list[str]:
    """What our comments are, without the campaign's name."""
    return [(key_of(body) or "").partition("/")[2] for body in stage.answers()]


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Hand:
    return Hand(tmp_path_factory.mktemp("mortal"))


@pytest.fixture(scope="module")
def mortals(hand: Hand, pictures: Path) -> Iterator[Path]:
    python = WarmPython(hand.folder, pictures, "tests.workflows.mortal")
    yield python.path
    python.close()


# Jobs that die


@dataclass
class Deadly:
    """A campaign in which every zone dies once, and publish twice."""

    stage: Stage
    hand: Hand
    pinned: str
    played: list[list[Ran]] = field(default_factory=list)
    """What each word of a person and each passing by of reconcile set going."""
    stood: list[tuple[JournalLine, ...]] = field(default_factory=list)
    """The ledger after each death."""
    met: list[str] = field(default_factory=list)
    """The last write of each that died."""

    def dies(self, death: Death, play: Callable[[], list[Ran]]) -> None:
        self.hand.dooms(death)
        self.played.append(play())
        assert self.hand.is_met, f"{death.zone} lives"
        self.stood.append(lines_of(self.stage))
        self.met.append([line for line in self.hand.crossed if line.startswith(f"{death.zone} ")][-1])

    def passes_by(self, minutes: float = DEAD_MINUTES + 1) -> list[Ran]:
        self.hand.passes(minutes)
        return self.stage.wakes(EVERY_TEN_MINUTES)

    def is_played(self) -> None:
        decide, publish, measure, question, push = DEATHS
        stage = self.stage
        self.dies(decide, lambda: stage.says(MIRA, ASKED))
        self.played.append(self.passes_by(DEAD_MINUTES - 5))
        self.dies(publish, self.passes_by)
        self.dies(measure, self.passes_by)
        self.dies(question, lambda: stage.says(MIRA, "/optimize retry"))
        self.played.append(self.passes_by())
        self.dies(push, lambda: stage.approves(MIRA))
        self.played.append(self.passes_by())


@pytest.fixture(scope="module")
def deadly(tmp_path_factory: pytest.TempPathFactory, mortals: Path, hand: Hand) -> Iterator[Deadly]:
    stage = Stage(tmp_path_factory.mktemp("deadly"), mortals, clock=hand.now)
    story = Deadly(stage, hand, stage.head)
    story.is_played()
    yield story
    stage.close()


def test_each_died_at_its_write_and_its_job_failed(deadly: Deadly) -> None:
    assert deadly.met == [f"{death.zone} {death.write}" for death in DEATHS]
    failed = [ran.job for jobs in deadly.played for ran in jobs if ran.result == "failure"]
    assert failed == [death.zone for death in DEATHS]


def test_a_dead_job_s_campaign_is_taken_up_after_ten_minutes(deadly: Deadly) -> None:
    asked, early, late, again, retried, after, approved, last = map(told, deadly.played)
    assert asked == [("decide", "failure")], "and starts nothing"
    assert early == [RECONCILED], "five minutes are too few"
    assert late == [RECONCILED, *ORDER[:2], ("publish", "failure")]
    assert again == [RECONCILED, *ORDER, ("take", "success"), ("measure", "failure"), ("publish", "success")]
    assert retried == [*BEGUN, *ORDER, *ORDER[:2], ("publish", "failure")]
    assert after == [RECONCILED, ("take", "success")], "the question was asked: it is found, and written down"
    assert approved == [*BEGUN, ("take", "success"), ("push", "failure")]
    assert last == [RECONCILED, ("take", "success"), ("push", "success")]


def test_a_campaign_of_dead_jobs_ends_in_one_commit(deadly: Deadly) -> None:
    stage = deadly.stage
    assert stage.campaign.outcome is Outcome.PUSHED
    assert stage.campaign.pushed == stage.head
    assert Repo(stage.hub.bare).parents("refs/heads/topic") == (deadly.pinned,)
    assert stage.hub.unknown == []


def test_no_fact_of_before_a_death_is_lost(deadly: Deadly) -> None:
    last = lines_of(deadly.stage)
    for death, stood in zip(DEATHS, deadly.stood, strict=True):
        assert last[: len(stood)] == stood, death
    assert [len(stood) for stood in deadly.stood] == sorted({len(stood) for stood in deadly.stood})
    assert [line.seq for line in last] == list(range(len(last)))


def test_nothing_is_said_twice_over_a_dead_job(deadly: Deadly) -> None:
    keys = keys_of(deadly.stage)
    assert [key.partition("/")[0] for key in keys] == ["status", "result", "checkpoint", "result"]
    assert len(set(keys)) == len(keys), "a result of the failed try, and one of the retried"
    done = Counter(line.fact.key for line in lines_of(deadly.stage) if line.fact.kind == "effect_done")
    assert [key for key, times in done.items() if times > 1] == ["result", "reaction"], (
        "the try that failed had its own"
    )


def test_what_a_dead_publish_did_not_join_is_measured_again_and_paid_for_once(deadly: Deadly) -> None:
    kinds = Counter(line.fact.kind for line in lines_of(deadly.stage))
    measured = [ran.result for jobs in deadly.played for ran in jobs if ran.job == "measure"]
    assert Counter(measured) == {"success": 4, "failure": 1}
    assert (kinds["profiled"], kinds["search_ended"], kinds["finalized"]) == (1, 1, 1)
    campaign = deadly.stage.campaign
    assert [order for order, _ in campaign.spent] == list(campaign.orders)


def test_a_gpu_job_that_died_is_told_and_a_word_goes_on(deadly: Deadly) -> None:
    failed = deadly.stage.answers()[1]
    assert "`artifact_missing`" in failed
    assert "\n/optimize retry\n" in failed


def test_actions_shows_the_dead_as_ended(deadly: Deadly) -> None:
    """Or reconcile would wait for them."""
    jobs = [job for run in deadly.stage.hub.actions.runs for job in run.jobs]
    assert {job.status for job in jobs} == {"completed"}
    names = [job.name for job in jobs if job.conclusion == "failure"]
    resumed = f"resume {deadly.stage.campaign.id} / "
    assert names == [
        "decide",
        f"{resumed}first order / publish",
        f"{resumed}second order / measure",
        "second order / publish",
        "push",
    ]


# Five deliveries, a runner that does not come, and a storm


@dataclass
class Bolt:
    """One answer of GitHub's in place of the true one, to the first request that fits."""

    moment: Moment
    method: str
    path: str
    way: Callable[[], Response]
    body: bytes = b""
    """What stands in the request."""
    struck: float | None = None
    came_again: float | None = None

    def fits(self, request: Request) -> bool:
        where = self.method == request.method and re.search(self.path, request.path) is not None
        return where and self.body in request.body


PUSHED = r"/sample/kernels\.git/git-receive-pack$"


def bolts() -> dict[str, Bolt]:
    return {
        "a read": Bolt("before", "GET", r"/pulls/1$", in_trouble),
        "who may": Bolt("before", "GET", r"/collaborators/mira/permission$", lambda: in_trouble(503)),
        "the question": Bolt("after", "POST", r"/issues/1/comments$", hang_up),
        "too many": Bolt("before", "PATCH", r"/issues/comments/\d+$", lambda: too_many(1)),
        "too much at once": Bolt("before", "POST", r"/statuses/", lambda: secondary_limit(1)),
        "the ledger": Bolt("after", "POST", PUSHED, in_trouble, body=b"refs/heads/kernelwright/ledger"),
        "the start": Bolt("before", "POST", r"/dispatches$", in_trouble),
        "the commit": Bolt("after", "POST", PUSHED, in_trouble, body=b"refs/heads/topic"),
        "the folding": Bolt("after", "POST", r"/api/graphql$", lambda: in_trouble(500)),
    }


def storm(bolts: dict[str, Bolt]) -> Fault:
    def fault(moment: Moment, request: Request) -> Response | None:
        for bolt in bolts.values():
            if not bolt.fits(request):
                continue
            if bolt.struck is None and bolt.moment == moment:
                bolt.struck = time.monotonic()
                return bolt.way()
            if bolt.struck is not None and bolt.came_again is None and moment == "before":
                bolt.came_again = time.monotonic()
        return None

    return fault


@dataclass
class Busy:
    """A campaign that is asked for five times at once, waits for a machine, and goes on through a storm."""

    stage: Stage
    hand: Hand
    pinned: str
    bolts: dict[str, Bolt] = field(default_factory=bolts)
    deliveries: list[Ran] = field(default_factory=list)
    asked_for: int = 0
    """Campaigns, after all of them."""
    looks: list[tuple[Ran, int, str]] = field(default_factory=list)
    """What reconcile found while the machine was away: its job, how many facts there were, our first comment."""
    played: list[list[Ran]] = field(default_factory=list)
    """In the storm."""

    def is_delivered(self, times: int = 5) -> None:
        stage, at_once = self.stage, threading.Barrier(times)
        stage.hub.comment(MIRA, PULL, ASKED)
        ((name, payload),) = stage.hub.events()
        event = json.loads(payload.read_text(encoding="utf-8"))

        def deliver() -> None:
            at_once.wait(PATIENCE_S)
            stage.runner.hear(name, event, payload)

        with ThreadPoolExecutor(times) as pool:
            for delivered in [pool.submit(deliver) for _ in range(times)]:
                delivered.result(PATIENCE_S)
        self.deliveries = list(stage.runner.jobs)
        self.asked_for = len(Ledger(Repo(stage.hub.bare), remote=".").campaigns())

    def looks_again(self, minutes: float) -> None:
        self.hand.passes(minutes)
        (looked,) = self.stage.wakes(EVERY_TEN_MINUTES)
        self.looks.append((looked, len(lines_of(self.stage)), self.stage.answers()[0]))

    def waits(self) -> bool:
        jobs = [job for run in self.stage.hub.actions.runs for job in run.jobs]
        return any(job.name == "first order / measure" and job.status == "queued" for job in jobs)

    def is_played(self) -> None:
        stage = self.stage
        self.is_delivered()
        with ThreadPoolExecutor(1) as beside:
            with stage.runner.occupied(*GPU):
                rest = beside.submit(stage.plays)
                wait_for(self.waits)
                for minutes in (LATE_MINUTES - 5, 6, DEAD_MINUTES):
                    self.looks_again(minutes)
                stage.hub.inject(storm(self.bolts))
            self.played.append([ran for ran in rest.result(PATIENCE_S) if ran.job != "reconcile"])
        self.played.append(stage.approves(MIRA))
        for _ in ("the start", "the commit"):
            self.hand.passes(DEAD_MINUTES + 1)
            self.played.append(stage.wakes(EVERY_TEN_MINUTES))
        stage.hub.inject(None)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, mortals: Path, hand: Hand) -> Iterator[Busy]:
    stage = Stage(tmp_path_factory.mktemp("busy"), mortals, clock=hand.now)
    story = Busy(stage, hand, stage.head)
    story.is_played()
    yield story
    stage.close()


def test_five_deliveries_of_a_comment_are_one_campaign(busy: Busy) -> None:
    """The group of the comment lets one of them wait and ends the others; who is heard second finds the first."""
    assert busy.asked_for == 1
    heard = [run.conclusion for run in busy.stage.hub.actions.runs[:5]]
    codes = Counter(ran.outputs["reason_code"] for ran in busy.deliveries if ran.job == "decide")
    assert codes["accepted"] == 1
    assert codes == Counter(accepted=1, duplicate_event=heard.count("success") - 1)
    assert sorted(set(heard)) in (["cancelled", "success"], ["success"])


def test_a_run_too_many_measures_nothing(busy: Busy) -> None:
    started = [ran for ran in busy.deliveries if ran.job == "start"]
    assert told(busy.played[0]) == [*ORDER * 3, *[("take", "success")] * (len(started) - 1)]


def test_a_queued_job_is_not_dead(busy: Busy) -> None:
    assert [looked.outputs["count"] for looked, _, _ in busy.looks] == ["0", "0", "0"]


def test_a_runner_that_does_not_come_is_spoken_of_once_and_then_no_more(busy: Busy) -> None:
    (_, before, early), (_, after, late), (_, still, same) = busy.looks
    assert "no runner had taken it up" not in early
    assert "no runner had taken it up for more than 20 minutes" in late
    assert (after, late) == (still, same)
    assert [line.fact.kind for line in lines_of(busy.stage)[before:after]] == [
        *("order_waits", "effect_requested", "effect_done"),
    ]


def test_every_bolt_struck_and_what_github_asked_for_was_waited(busy: Busy) -> None:
    assert [name for name, bolt in busy.bolts.items() if bolt.struck is None] == []
    for name in ("too many", "too much at once"):
        bolt = busy.bolts[name]
        assert bolt.came_again is not None and bolt.struck is not None
        assert bolt.came_again - bolt.struck >= 1.0


def test_what_could_not_be_sent_again_is_taken_up_by_reconcile(busy: Busy) -> None:
    """A start that GitHub refused, and a push whose answer was lost: nobody knows whether it arrived."""
    _, approved, started, pushed = map(told, busy.played)
    assert approved == [("decide", "success"), ("start", "failure")]
    assert started == [RECONCILED, ("take", "success"), ("push", "failure")]
    assert pushed == [RECONCILED, ("take", "success"), ("push", "success")]


def test_a_campaign_goes_through_a_storm_to_one_commit_and_three_comments(busy: Busy) -> None:
    stage = busy.stage
    assert stage.campaign.outcome is Outcome.PUSHED
    assert stage.campaign.pushed == stage.head
    assert Repo(stage.hub.bare).parents("refs/heads/topic") == (busy.pinned,)
    assert [key.partition("/")[0] for key in keys_of(stage)] == ["status", "checkpoint", "result"]
    assert stage.campaign.ignored == ()
    assert stage.hub.unknown == []
