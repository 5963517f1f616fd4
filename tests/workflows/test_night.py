"""Nights as the workflow files play them: every job a process of its own, with its own token and files alone.

Two kernels and one pool. The first night finds a winner for one of them. On the second it wins again, and noor asks
for the other kernel while the night is at it. Before the third, dana works on the branch of the winner.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from bot.campaign.machine import fold
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.localhub.steps import Ran
from bot.localhub.world import SCOPES
from bot.model import campaign as stages
from bot.model.campaign import Campaign, Outcome
from bot.model.reasons import ReasonCode
from tests.workflows import nightly
from tests.workflows.stage import BOT, DANA, KERNEL, MIRA, Stage, WarmPython, told
from tests.workflows.test_campaign import ORDER, TALK
from tests.zones.conversation import NOOR, PATH

EVENING, LATER = "2026-01-02T20:00:00Z", "2026-01-06T02:17:00Z"
NIGHTS = "2026-01-03T02:17:00Z", "2026-01-04T02:17:00Z", "2026-01-05T02:17:00Z"
CLOCK = "17 2 * * *"
TUNED = "softmax"
"""The library's other kernel: somebody chose its launch numbers by hand, and no idea of ours is left."""
TUNED_PATH = f"src/sample_kernels/ops/{TUNED}.py"
BY_HAND = b"# launch numbers estimated for sm_90 by hand\n"
BRANCH = f"kernelwright/sweep/{KERNEL}"
HOPPER = ("self-hosted", "gpu", "hopper")
POLICY = '[policy]\nevidence = "static"\n'
SWEEP = f"[sweep]\nenabled = true\nmax_variants = 1\n[sweep.pools]\nhopper = {json.dumps(HOPPER)}\n"
TARGET = """[target.kernels.{0}]
source = "src/sample_kernels/ops/{0}.py"
module = "sample_kernels.ops.{0}"
source_root = "src"
test = "test/transformers/test_{0}.py"
benchmark = "benchmark/scripts/benchmark_{0}.py"
"""
TARGETS = "".join(TARGET.format(name) for name in (KERNEL, TUNED))
ALONE = [("plan", "success"), ("dashboard", "success")]
"""A night that sweeps nothing."""


def named(night: str, kernel: str) -> str:
    return f"sweep-{night[:10].replace('-', '')}-hopper-{kernel}"


@dataclass(frozen=True)
class Page:
    """An issue or a pull request, as it was read on some morning."""

    number: int
    author: str
    title: str
    body: str
    branch: str
    """Empty for an issue."""


@dataclass(frozen=True)
class Morning:
    """What there is after a night."""

    jobs: list[Ran]
    branches: dict[str, str]
    pages: list[Page]

    @property
    def pulls(self) -> list[Page]:
        """Those of the bot."""
        return [page for page in self.pages if page.branch and page.author == BOT]

    @property
    def issues(self) -> list[Page]:
        return [page for page in self.pages if not page.branch]


@dataclass
class Nights:
    folder: Path
    stage: Sleepless
    off: Morning
    first: Morning
    second: Morning
    served: list[Ran]
    """What ran for noor once the second night was over."""
    theirs: str
    """The commit that dana pushed to the branch of the winner."""
    third: Morning

    @property
    def jobs(self) -> list[Ran]:
        return [*self.off.jobs, *self.first.jobs, *self.second.jobs, *self.served, *self.third.jobs]

    def campaign(self, name: str) -> Campaign:
        ledger = Ledger(self.stage.repo, remote=".")
        return fold(Campaign(id=name), (line.fact for line in ledger.lines(name)))


class Sleepless(Stage):
    """A stage with a clock, in a repository that has no App: every job writes with its own token."""

    def __init__(self, folder: Path, python: Path, clock: Path) -> None:
        super().__init__(folder, python, clock=partial(nightly.now, clock))
        self._clock = clock
        self.runner = self.runner_with(KERNELWRIGHT_APP_CLIENT_ID="")

    @property
    def repo(self) -> Repo:
        return Repo(self.hub.bare)

    def allows(self, rules: str) -> None:
        self.hub.push(MIRA, "main", {"kernelwright.toml": rules.encode()}, "Rules\n")

    def hears_one(self) -> None:
        """One event alone. What it dispatched waits, as it would for a runner that is busy."""
        events = self.hub.events()
        name, payload = next(events)
        self.runner.hear(name, json.loads(payload.read_text(encoding="utf-8")), payload)
        next(events, None)  # now it counts as delivered

    def asks_after(self, job: str, campaign: str, leg: str, who: str, text: str) -> None:
        """Somebody comments at the moment when this job of the night ends, and is heard."""

        def ended(ran: Ran) -> None:
            if (ran.job, ran.inputs) == (job, {"campaign": campaign, "leg": leg}):
                self.hub.comment(who, 1, text)
                self.hears_one()

        self.runner.ended = ended

    def sleeps_until(self, at: str) -> Morning:
        nightly.put(self._clock, at)
        jobs = self.wakes(CLOCK)
        heads = self.hub.history.heads().items()
        threads = self.hub.world.threads.values()
        return Morning(
            jobs=jobs,
            branches={ref.removeprefix("refs/heads/"): sha for ref, sha in heads if ref.startswith("refs/heads/")},
            pages=[Page(t.number, t.author, t.title, t.body, t.pull.head_ref if t.pull else "") for t in threads],
        )


def play(folder: Path, stage: Sleepless) -> Nights:
    text = stage.repo.read("refs/heads/main", TUNED_PATH) or b""
    stage.hub.push(DANA, "main", {TUNED_PATH: BY_HAND + text}, "Tune it\n")
    stage.allows(POLICY + TARGETS)
    off = stage.sleeps_until(EVENING)
    stage.allows(POLICY + SWEEP + TARGETS)
    first = stage.sleeps_until(NIGHTS[0])
    stage.asks_after("publish", named(NIGHTS[1], TUNED), "1", NOOR, f"/optimize {TUNED} gpu=hopper")
    second = stage.sleeps_until(NIGHTS[1])
    served = stage.plays()
    theirs = stage.hub.push(DANA, BRANCH, {PATH: b"# my own words\n"}, "Say it in my own words\n")
    third = stage.sleeps_until(NIGHTS[2])
    return Nights(folder, stage, off, first, second, served, theirs, third)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Iterator[Nights]:
    folder = tmp_path_factory.mktemp("nights")
    nightly.put(folder / nightly.CLOCK, EVENING)
    warm = WarmPython(folder, pictures, "tests.workflows.nightly")
    stage = Sleepless(folder / "stage", warm.path, folder / nightly.CLOCK)
    yield play(folder, stage)
    stage.close()
    warm.close()


def row(page: Page, kernel: str) -> list[str]:
    """The cells of a kernel on the dashboard."""
    (line,) = (line for line in page.body.splitlines() if line.startswith(f"| `{kernel}`"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def seen(page: Page) -> list[str]:
    """The lines of a pull request that a reader sees before the first picture."""
    return [line for line in page.body.partition("<picture>")[0].splitlines() if line]


# Whether there is a night at all


def test_until_the_repository_allows_it_a_night_touches_nothing(nights: Nights) -> None:
    assert told(nights.off.jobs) == ALONE
    assert [ran.report["reason_code"] for ran in nights.off.jobs] == [ReasonCode.DISABLED] * 2
    assert set(nights.off.branches) == {"main", "topic"}
    assert [page.author for page in nights.off.pages] == [DANA]


def test_the_kill_switch_ends_the_nights(nights: Nights) -> None:
    stage = nights.stage
    before, on = stage.hub.history.heads(), stage.runner
    for value in ("", "yes"):
        stage.runner = stage.runner_with(KERNELWRIGHT_ENABLED=value)
        assert stage.sleeps_until(LATER).jobs == []
    stage.runner = on
    assert stage.hub.history.heads() == before


# The first night


def test_a_night_goes_from_kernel_to_kernel_and_ends_with_its_dashboard(nights: Nights) -> None:
    jobs = nights.first.jobs
    swept = [*ORDER * 3, ("push", "success"), *ORDER * 2]
    assert told(jobs) == [("plan", "success"), *swept, ("dashboard", "success")]
    assert [ran.inputs.get("campaign", "") for ran in jobs if ran.job == "measure"] == [
        *[named(NIGHTS[0], KERNEL)] * 3,
        *[named(NIGHTS[0], TUNED)] * 2,
    ]
    found = [nights.campaign(named(NIGHTS[0], kernel)).outcome for kernel in (KERNEL, TUNED)]
    assert found == [Outcome.PUSHED, Outcome.NOTHING_TO_DO]


def test_a_winner_is_one_commit_on_a_branch_of_the_bot_s_own(nights: Nights) -> None:
    branches, repo = nights.first.branches, nights.stage.repo
    assert set(branches) == {"main", "topic", "kernelwright/ledger", BRANCH}
    assert repo.parents(branches[BRANCH]) == (branches["main"],)
    assert repo.changed(branches["main"], branches[BRANCH]) == (PATH,)
    assert nights.campaign(named(NIGHTS[0], KERNEL)).pushed == branches[BRANCH]


def test_no_night_moves_the_default_branch_or_anybody_s(nights: Nights) -> None:
    before = nights.off.branches
    allowed = nights.first.branches["main"]
    assert nights.stage.repo.parents(allowed) == (before["main"],), "mira's own commit"
    for morning in (nights.first, nights.second, nights.third):
        assert (morning.branches["main"], morning.branches["topic"]) == (allowed, before["topic"])


def test_each_improved_kernel_has_one_pull_request_that_a_person_can_read(nights: Nights) -> None:
    (page,) = nights.first.pulls
    assert page.branch == BRANCH
    assert page.title == f"[Perf] Optimize {KERNEL} kernel: 1.34x (estimated)"
    base = nights.first.branches["main"][:7]
    headline, _, idea, checked, estimated, rule, checks = seen(page)
    assert headline.startswith(f"**`{KERNEL}`: v1 is 1.34x (estimated) over `{base}`.**")
    assert headline.endswith("Found by the sweep of 2026-01-03 on hopper.")
    assert idea == "Launch numbers that follow the shape."
    assert checked == "Tests passed (1 passed), style check passed."
    assert "no GPU timed it" in estimated
    assert rule.startswith("**Merging this is the approval: nobody was asked before.**")
    assert 'a writer presses "Approve and run"' in checks, "the job's own token opened it"


def test_the_dashboard_says_what_became_of_both(nights: Nights) -> None:
    (page,) = nights.first.issues
    assert (page.author, page.title) == (BOT, "Kernelwright: nightly sweep")
    assert "**1 pull request waits for a review.**" in page.body
    number = nights.first.pulls[0].number
    improved, tuned = row(page, KERNEL), row(page, TUNED)
    assert improved[3].startswith("v1 is 1.34x (estimated) ([record](")
    assert improved[5].startswith(f"[#{number}](")
    assert tuned[3].startswith("nothing to do ([record](")
    assert tuned[5] == "-"


# What the jobs hold


def test_a_token_can_do_what_its_job_declares(nights: Nights) -> None:
    talks = {"plan", "dashboard", "decide", "take", "publish", "push"}
    declared = {(job, TALK) for job in talks} | {("measure", ("read",)), ("start", ("dispatch",))}
    assert {(ran.job, ran.scopes) for ran in nights.jobs} == declared
    assert {ran.machine for ran in nights.jobs if ran.job == "measure"} == {HOPPER}
    assert {ran.machine for ran in nights.jobs if ran.job != "measure"} == {()}


def test_no_token_reaches_the_gpu_job(nights: Nights) -> None:
    """Threat: token theft. Looked for in the environment of each process, and in what lies in each job's folder."""
    world = nights.stage.hub.world.tokens.items()
    tokens = {text: tuple(sorted(t.scopes)) for text, t in world if t.login == BOT and t.scopes != SCOPES}
    assert sorted(tokens.values()) == [TALK, ("dispatch",), ("read",)]
    held = {
        (zone, tuple(scopes for text, scopes in tokens.items() if text in environment.values()))
        for zone, environment in nightly.given(nights.folder)
    }
    talks = {"sweep-plan", "sweep-dashboard", "decide", "take", "publish", "push"}
    assert held == {(zone, (TALK,)) for zone in talks} | {("measure", ())}
    for ran in nights.jobs:
        found = b"".join(path.read_bytes() for path in ran.folder.rglob("*") if path.is_file())
        assert [scopes for text, scopes in tokens.items() if text.encode() in found] == [], ran.job


# The next night


def test_the_same_winner_again_moves_nothing_and_keeps_its_pull_request(nights: Nights) -> None:
    (before,), (after,) = nights.first.pulls, nights.second.pulls
    assert nights.second.branches[BRANCH] == nights.first.branches[BRANCH]
    assert nights.campaign(named(NIGHTS[1], KERNEL)).outcome is Outcome.PUSHED
    assert after.number == before.number
    assert "Found by the sweep of 2026-01-04" in seen(after)[0], "its figures are of this night"


def test_a_winner_that_was_tried_again_is_still_told_by_what_it_changes(nights: Nights) -> None:
    """And not as `Try b52b4a7d1c9f`, which tells a reader, or whoever merges it, nothing."""
    (before,), (after,) = nights.first.pulls, nights.second.pulls
    assert after.title == before.title
    assert seen(after)[1:] == seen(before)[1:]
    assert "Try " not in after.body


def test_the_dashboard_stays_one_issue(nights: Nights) -> None:
    mornings = nights.first, nights.second, nights.third
    assert [[page.number for page in morning.issues] for morning in mornings] == [[nights.first.issues[0].number]] * 3
    assert len({morning.issues[0].body for morning in mornings}) == 3
    assert "2 nights, 2 kernels" in nights.second.issues[0].body


# People go first


def test_whoever_asks_at_night_waits_for_one_order_at_most(nights: Nights) -> None:
    """noor asks while an order for the same GPU is under way; the night begins none after it."""
    swept = [*ORDER * 3, ("push", "success"), *ORDER]
    asks = [("decide", "success"), ("start", "success")]
    yields = [("take", "success")]
    assert told(nights.second.jobs) == [("plan", "success"), *swept, *asks, *yields, ("dashboard", "success")]
    (hers,) = {ran.inputs["campaign"] for ran in nights.served}
    report = nights.second.jobs[-2].report
    assert (report["decision"], report["reason_code"], report["next"]) == ("ignored", "already_running", "none")
    assert hers in report["detail"]
    assert told(nights.served) == ORDER
    assert nights.campaign(hers).stage is stages.Stage.AWAIT_PROFILE
    assert nights.campaign(named(NIGHTS[1], TUNED)).stage is stages.Stage.OPTIMIZING, "left where it was"


def test_a_night_speaks_in_nobody_s_conversation(nights: Nights) -> None:
    (hers,) = {ran.inputs["campaign"] for ran in nights.served}
    assert all(hers in body for body in nights.stage.answers())
    assert {status.sha for status in nights.stage.hub.world.statuses} == {nights.stage.head}


# The branch of a winner is the bot's until somebody works on it


def test_a_branch_that_somebody_works_on_is_theirs_and_that_is_said(nights: Nights) -> None:
    assert told(nights.third.jobs) == ALONE
    assert nights.third.branches[BRANCH] == nights.theirs
    assert nights.third.pulls == nights.second.pulls
    why = f"somebody else pushed to it: {nights.theirs[:7]} is no commit of a sweep"
    assert f"{KERNEL} on hopper: left out, {why}" in nights.third.jobs[0].log[-1][1]
    assert why in row(nights.third.issues[0], KERNEL)[3]


def test_a_kernel_that_somebody_is_at_is_left_out_and_that_is_said(nights: Nights) -> None:
    (hers,) = {ran.inputs["campaign"] for ran in nights.served}
    why = f"somebody is at it: campaign {hers} on pull request 1"
    assert f"{TUNED} on hopper: left out, {why}" in nights.third.jobs[0].log[-1][1]
    assert why in row(nights.third.issues[0], TUNED)[3]


def test_every_request_had_an_endpoint(nights: Nights) -> None:
    assert nights.stage.hub.unknown == []
