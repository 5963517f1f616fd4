"""A storm over a small GitHub: people talk and push, jobs run side by side, die anywhere and come back, GitHub fails.

Everything is in this process and in memory: the real zones, the real ledger, the real client over the embedded
GitHub's own endpoints; in place of git, a GPU and a wire there are twins (tests/fakes). Every job is a thread, but only
one moves at a time: at each crossing (a write to GitHub, to git, to a segment) it hands the baton back, and the dice
say who goes on, who dies there, and what happens in between. One seed is one story, told again in the same way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import importlib
import random
import re
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import requests

import bot.forge.rest  # noqa: F401  # PyGithub, once here and in no job
from bot.campaign.machine import fold
from bot.cli.jobs import Bundle
from bot.engine import rewriting
from bot.errors import BotError, ForgeError, GitError
from bot.forge import client
from bot.forge.jobs import JobView
from bot.ledger import branch as ledger_branch
from bot.ledger import journal
from bot.ledger.branch import Ledger
from bot.ledger.journal import Segment
from bot.localhub.server import Hub
from bot.localhub.weather import Gusts
from bot.localhub.wire import Request, Response
from bot.model.campaign import Campaign
from bot.model.facts import Fact
from bot.model.finalization import CommandRun, Finalization
from bot.render import plots
from bot.settings import read_settings
from bot.targets import liger
from bot.targets.tree import DirectoryTree
from bot.zones import doors, drawing, report
from bot.zones import measure as measuring
from bot.zones import push as pushing
from bot.zones.decide import decide
from bot.zones.measure import Workshop, measure
from bot.zones.publish import publish
from bot.zones.push import push
from bot.zones.reconcile import reconcile
from tests.fakes import bench as fake
from tests.fakes.bench import FakeBench
from tests.fakes.git import FakeHistory, FakeRepo, Server
from tests.fakes.kept import propose_once

honesty, scope = (importlib.import_module(f"bot.guardrails.{name}") for name in ("honesty", "scope"))
"""By their full names: the package calls functions by the same ones."""
NO_DATE = formatdate(0, usegmt=True)
BOT = "kernelwright[bot]"
PEOPLE = {"mira": "maintain", "dana": "write", "noor": "write", "lee": "read"}
"""dana wrote the pull request."""
TALK = ("read", "comment", "status", "ledger")
EPOCH = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
KERNEL = "src/sample_kernels/ops/rms_norm.py"
MOST_AT_ONCE = 4
MOST_DOUBLES = 12
RECORDED = 5
"""In one story of so many the ledger's pages are written too: a seventh of its cost, and nobody acts on them."""
PASS_S = 10 * 60 + 1
"""How often reconcile passes by."""
Zone = Literal["decide", "measure", "publish", "push", "reconcile"]


OTHERS = re.compile(r"(^|_|/)(geglu|jsd|cross_entropy|softmax)\.py$")
"""What the other kernels bring, but for one: reading them would be a tenth of every story."""


@functools.cache
def sample_files() -> dict[str, bytes]:
    skip = {"__pycache__", ".pytest_cache", ".ruff_cache"}
    found = (path for path in SAMPLE.rglob("*") if path.is_file() and not skip & set(path.parts))
    named = {path.relative_to(SAMPLE).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in named.items() if not OTHERS.search(name)}


def found_shared(place: Path, proposals: Path) -> Path:
    """What all storms of a process use: the default branch checked out, trees of commits, and proposals, which storms
    of other processes use too."""
    for name, content in sample_files().items():
        (place / "trusted" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "trusted" / name).write_bytes(content)
    (place / "trees").mkdir()
    (place / "proposals").symlink_to(proposals)
    return place


class Killed(BaseException):
    """The runner is gone. Nothing of ours catches it."""


@dataclass(frozen=True)
class Task:
    """A job as a workflow would start it."""

    zone: Zone
    campaign: str = ""
    event: tuple[str, Path] | None = None
    bundle: Bundle | None = None
    out: Path | None = None

    @property
    def group(self) -> object:
        """As in templates/workflows: one job speaks for a campaign at a time, one measures, one takes in an event."""
        if self.event is not None:
            return self.event[1]
        return "measure" if self.zone == "measure" else "talk", self.campaign


class Job(threading.Thread):
    """One task under way. It moves when the storm gives it a turn, until its next crossing."""

    def __init__(self, task: Task, act: Callable[[], Any], kill: tuple[int, str] | None) -> None:
        super().__init__(daemon=True)
        self.task, self._act, self._kill = task, act, kill
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._crossed = 0
        self.over, self.killed = False, False
        self.report: Any = None
        self.error: BotError | None = None
        self.crash = ""
        self.start()

    def run(self) -> None:
        self._go.acquire()
        try:
            self.report = self._act()
        except Killed:
            self.killed = True
        except BotError as error:
            self.error = error
        except BaseException:
            self.crash = traceback.format_exc()
        self.over = True
        self._back.release()

    def turn(self) -> None:
        self._go.release()
        self._back.acquire()

    def _die(self, moment: str) -> None:
        if self._kill == (self._crossed, moment):
            raise Killed

    def cross(self, write: Callable[[], Any]) -> Any:
        self._back.release()
        self._go.acquire()
        self._die("before")
        try:
            done = write()
            self._die("after")
            return done
        finally:
            self._crossed += 1


def _words(said: Any) -> str:
    if said is None:
        return ""
    if not hasattr(said, "next"):
        return f", and resumes {', '.join(said.resume)}" if said.resume else ""
    return f": {said.campaign} {said.decision} {said.reason_code} -> {said.next}".replace(":  ", ": ")


def cross(write: Callable[[], Any]) -> Any:
    job = threading.current_thread()
    return job.cross(write) if isinstance(job, Job) else write()


@dataclass(frozen=True)
class Force:
    """How bad it is. All of it follows from the seed."""

    gusts: float
    """How likely a request fails."""
    kills: float
    """How likely a job dies at one of its first dozen crossings."""
    again: float
    """How likely a job that died is started again by hand."""
    doubles: float
    """How likely, in one step, something that was delivered is delivered once more."""
    words: int
    """What people do, until the sky clears."""

    @classmethod
    def of(cls, dice: random.Random) -> Force:
        return cls(
            gusts=dice.choice((0.0, 0.0, 0.03, 0.12)),
            kills=dice.choice((0.0, 0.25, 0.5)),
            again=dice.choice((0.3, 0.9)),
            doubles=dice.choice((0.0, 0.03, 0.1)),
            words=dice.randint(4, 16),
        )


@dataclass
class Storm:
    seed: int
    folder: Path
    shared: Path
    """What every storm of a process may use again: trees on disk, proposals made once."""
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.force = Force.of(self.dice)
        self.seconds = 0
        self.server = Server()
        self.jobs: list[Job] = []
        self.waiting: list[Task] = []
        self.done: list[Task] = []
        self.crashes: list[str] = []
        self.broken: list[str] = []
        """What was wrong at the moment it happened."""
        self._scratch = self.folder / "scratch"
        self._scratch.mkdir(parents=True)
        self._found()

    # The world

    def now(self) -> str:
        return (EPOCH + datetime.timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def pass_time(self, seconds: float) -> None:
        self.seconds += max(1, round(seconds))

    def _found(self) -> None:
        files = sample_files()
        base = self.server.commit(None, files, "Sample\n", author=("dana", "d@example.org"), date=self.now())
        self.server.refs["refs/heads/main"] = base
        self.hub = Hub(self.folder / "hub", clock=self.now)
        desk: Any = self.hub._desk
        desk.history = self.hub.history = FakeHistory(self.server)  # type: ignore[assignment]
        desk.save = lambda: None
        desk.server_url = "http://127.0.0.1:9"
        for login, role in PEOPLE.items():
            self.hub.add_user(login, role)
        self.hub.add_user(BOT, "write", is_bot=True)
        for branch in ("topic", "other"):
            self.hub.push("dana", branch, {KERNEL: b"# a line of the author\n" + files[KERNEL]}, "Touch\n")
            self.hub.open_pull("dana", branch, "main", f"Touch the kernel on {branch}")
        self.events: list[tuple[str, Path]] = []
        self.hub.inject(Gusts(random.Random(self.dice.random()), self.force.gusts) if self.force.gusts else None)

    def says(self, text: str) -> None:
        self.log.append(f"{self.seconds:>7} s  {text}")

    def hear(self) -> None:
        """What was said since becomes jobs."""
        for name, path in self.hub.events():
            self.events.append((name, path))
            self.waiting.append(Task("decide", event=(name, path)))

    @property
    def ledger(self) -> Ledger:
        return Ledger(FakeRepo(self.server))  # type: ignore[arg-type]

    def campaigns(self) -> dict[str, tuple[Campaign, tuple[Fact, ...]]]:
        ledger = self.ledger
        journals = {name: tuple(line.fact for line in ledger.lines(name)) for name in ledger.campaigns()}
        return {name: (fold(Campaign(id=name), facts), facts) for name, facts in journals.items()}

    # Jobs

    def _settings(self, task: Task) -> Any:
        talks = (*TALK, "push") if task.zone == "push" else TALK
        event = {"GITHUB_EVENT_NAME": task.event[0], "GITHUB_EVENT_PATH": str(task.event[1])} if task.event else {}
        job = {
            "GITHUB_REPOSITORY": self.hub.repo,
            "GITHUB_API_URL": self.hub.url,
            "GITHUB_SERVER_URL": self.hub.server_url,
            "GITHUB_WORKSPACE": str(self.shared / "trusted"),
            "RUNNER_TEMP": str(self._scratch),
            "KERNELWRIGHT_TOKEN": self.hub.token(BOT, talks),  # type: ignore[arg-type]
            "KERNELWRIGHT_BOT_LOGIN": BOT,
            "KERNELWRIGHT_BOT_ID": str(self.hub.user_id(BOT)),
        }
        return read_settings(job | event)

    def _measure(self, task: Task) -> Any:
        assert task.bundle is not None and task.out is not None
        scratch = self.folder / f"gpu-{len(self.done)}-{self.seconds}"
        scratch.mkdir(exist_ok=True)
        repo: Any = FakeRepo(self.server)
        repo.export = self._export
        shop = Workshop(
            repo=repo,
            python=sys.executable,
            scratch=scratch,
            open_bench=FakeBench,
            collect=lambda *_, **__: None,
            finish=finish,
            clock=self.now,
        )
        return measure(task.bundle.order, task.bundle.ledger_commit, shop, task.out)

    def _export(self, rev: str, path: Path) -> None:
        """One tree on disk for all jobs: the fake bench only looks at it."""
        commit = self.server.commits[rev]
        place = self.shared / "trees" / commit.blobs[KERNEL]
        if not place.exists():
            FakeRepo(self.server).export(rev, place.with_suffix(".new"))
            place.with_suffix(".new").rename(place)
        path.symlink_to(place)

    def _act(self, task: Task) -> Callable[[], Any]:
        match task.zone:
            case "decide":
                return lambda: decide(self._settings(task))
            case "measure":
                return lambda: self._measure(task)
            case "publish":
                return lambda: publish(self._settings(task), task.campaign, task.out)
            case "push":
                return lambda: push(self._settings(task), task.campaign)
            case "reconcile":
                return lambda: reconcile(self._settings(task), jobs=self)

    def _free(self, task: Task) -> bool:
        """What the workflows' concurrency groups let run beside the jobs that are under way."""
        return all(task.group != job.task.group for job in self.jobs)

    def begin(self, task: Task) -> Job:
        kill = None
        if self.dice.random() < self.force.kills:
            kill = (self.dice.randrange(14), self.dice.choice(("before", "after")))
        job = Job(task, self._act(task), kill)
        self.jobs.append(job)
        return job

    def move(self, job: Job) -> None:
        job.turn()
        if job.over:
            self.jobs.remove(job)
            job.join()
            self._ended(job)

    def _ended(self, job: Job) -> None:
        task, said = job.task, job.report
        self.done.append(task)
        end = "killed" if job.killed else f"failed: {job.error}" if job.error else "crashed" if job.crash else "ended"
        self.says(f"{task.zone} {task.campaign} {end}{_words(said)}")
        if job.crash:
            self.crashes.append(job.crash)
        if isinstance(job.error, BotError) and not self._may_fail(job.error):
            self.crashes.append(f"{task.zone}: {type(job.error).__name__}: {job.error}")
        if said is not None:
            self.waiting += self.follows(task, said)
            return
        if task.zone == "reconcile":  # the next one comes anyway
            return
        if task.zone == "measure" and self.dice.random() < 0.5:  # publish runs whatever became of the GPU job
            self.waiting.append(Task("publish", campaign=task.campaign, out=task.out))
        if self.dice.random() < self.force.again:
            self.waiting.append(task)

    def _may_fail(self, error: BotError) -> bool:
        """A job may give up on a GitHub in trouble, or on a ledger that many write to; nothing else stops one."""
        return isinstance(error, GitError) or (isinstance(error, ForgeError) and self.force.gusts > 0)

    def follows(self, task: Task, said: Any) -> list[Task]:
        if task.zone == "reconcile":
            return [found for campaign in said.resume for found in self._resume(campaign)]
        if task.zone == "measure":
            return [Task("publish", campaign=task.campaign, out=task.out)]
        match said.next:
            case "measure":
                return [self.order(said.campaign, said.order, said.ledger_commit, said.pinned_sha)]
            case "publish" | "push":
                return [Task(said.next, campaign=said.campaign)]
            case _:
                return []

    def order(self, campaign: str, order: Any, tip: str, pinned: str) -> Task:
        bundle = Bundle(order=order, ledger_commit=tip, pinned_sha=pinned)
        return Task("measure", campaign=campaign, bundle=bundle, out=self.folder / f"out-{order.id}-{self.seconds}")

    # The storm

    def rage(self, act: Callable[[Storm], None]) -> None:
        """Until people have said all they wanted and no job is left."""
        words, doubles = self.force.words, MOST_DOUBLES
        while words or self.jobs or self.waiting:
            roll = self.dice.random()
            if self.done and doubles and roll < self.force.doubles:
                doubles -= 1
                self.waiting.append(self.dice.choice(self.done))
            elif words and (roll < 0.08 or not (self.jobs or self.waiting)):
                words -= 1
                act(self)
                self.hear()
            elif roll > 0.995:
                self.waiting.append(Task("reconcile"))
            elif self.waiting and len(self.jobs) < MOST_AT_ONCE and (roll < 0.3 or not self.jobs):
                task = self.waiting.pop(self.dice.randrange(len(self.waiting)))
                if self._free(task):
                    self.begin(task)
                else:
                    self.waiting.append(task)
            elif self.jobs:
                self.move(self.dice.choice(self.jobs))

    def _resume(self, campaign: str) -> list[Task]:
        """The job that reconcile has the workflow start: whatever is owed now."""
        found, _ = self.campaigns()[campaign]
        match report.what_next(found):
            case "measure":
                assert found.order is not None and found.pull is not None
                return [self.order(campaign, found.order, self.ledger.tip or "", found.pull.head_sha)]
            case "publish" | "push" as zone:
                return [Task(zone, campaign=campaign)]
            case _:
                return []

    def unfinished(self) -> tuple[JobView, ...]:
        """What Actions would list of our jobs."""
        tasks = [*(job.task for job in self.jobs), *self.waiting]
        return tuple(
            JobView(campaign=task.campaign, name=f"order / {task.zone}", is_queued=False, created_at=self.now())
            for task in tasks
            if task.campaign
        )

    def calm(self) -> None:
        """The sky is clear. Reconcile passes by every ten minutes until nothing is left to do; a loop is a bug."""
        self.hub.inject(None)
        self.force = dataclasses.replace(self.force, gusts=0.0, kills=0.0, doubles=0.0)
        for _ in range(60):
            self.pass_time(PASS_S)
            self.waiting.append(Task("reconcile"))
            while self.waiting:
                self.complete(self.waiting.pop(0))
            if all(report.what_next(campaign) in ("wait", "none") for campaign, _ in self.campaigns().values()):
                return
        self.broken.append("the sky is clear, and there is no end to what is left to do")

    def complete(self, task: Task) -> None:
        job = self.begin(task)
        while not job.over:
            self.move(job)


# Twins, and what is the same in every story


def read_once(read: Callable[[DirectoryTree, str], Any]) -> Callable[..., Any]:
    """Folders here stay as they are."""
    kept: dict[tuple[Path, str], Any] = {}

    def again(self: DirectoryTree, path: str = "") -> Any:
        key = self._root, path
        if key not in kept:
            kept[key] = read(self, path)
        return kept[key]

    return again


ONCE: tuple[tuple[Any, str, Any], ...] = (
    (honesty, "_findings", functools.cache(honesty._findings)),
    (scope, "_compare", functools.cache(scope._compare)),
    (rewriting, "_of_file", functools.cache(rewriting._of_file.__wrapped__)),
    (rewriting, "of_files", functools.cache(rewriting.of_files.__wrapped__)),
    (liger, "dependent_tests", lambda *_, **__: ()),
    *((DirectoryTree, name, read_once(getattr(DirectoryTree, name))) for name in ("exists", "read", "list")),
)
"""Pure, and most of what a story costs: the same few kernels and variants are read in every one."""


def finish(repo: Any, head: str, site: Any, number: int, files: Any, **_: Any) -> Finalization:
    """Tests and style check that pass at once."""
    run = CommandRun(argv=("true",), passed=True, exit_code=0, seconds=0.0, summary="1 passed")
    return Finalization(variant=number, tests=(run,), style=(run,), files=files)


def _warps(files: Any) -> int:
    """A source with a launch rule of the engine's spills nothing, so that there is a winner to push."""
    return 8 if any("estimated for sm_90" in file.text for file in files) else fake.USUAL_WARPS


def _answer(storm: Storm, request: Request) -> Response:
    try:
        return storm.hub._desk.answer(request)
    except ConnectionError as error:
        raise requests.ConnectionError(str(error)) from error


def _send(storm: Storm, method: str, url: str, headers: dict[str, Any], data: str | None) -> requests.Response:
    """In place of a wire."""
    storm.pass_time(1)
    parts = urlsplit(url)
    named = {name.lower(): str(value) for name, value in headers.items()}
    ask = functools.partial(
        _answer, storm, Request(method, parts.path, dict(parse_qsl(parts.query)), named, (data or "").encode())
    )
    answer = ask() if method in ("GET", "HEAD") else cross(ask)
    made = requests.Response()
    made.status_code, made.url, made.encoding, made._content = answer.status, url, "utf-8", answer.body
    made.headers.update({"Date": NO_DATE, **answer.headers})
    return made


@contextlib.contextmanager
def over(storm: Storm, patch: Callable[[Any, str, Any], None]) -> Iterator[Storm]:
    """The world is this storm's. `patch` is pytest's own, and takes everything back."""
    push_, append = FakeRepo.push, Segment.append
    sleep = lambda seconds: storm.pass_time(seconds)  # noqa: E731
    ids = random.Random(storm.seed)

    def clone(settings: Any) -> Any:
        return FakeRepo(storm.server, settings.scratch)

    random.seed(storm.seed)
    patch(
        requests.Session,
        "request",
        lambda self, method, url, *, headers, data=None, **_: _send(storm, method, url, headers, data),
    )
    patch(FakeRepo, "push", lambda self, *args, **how: cross(lambda: push_(self, *args, **how)))
    patch(Segment, "append", lambda self, *args: cross(lambda: append(self, *args)))
    patch(client, "open_forge", functools.partial(client.open_forge, sleep=sleep))
    patch(doors, "_clone", clone)
    patch(pushing, "Repo", lambda *_, **__: FakeRepo(storm.server))
    patch(doors, "Doors", functools.partial(doors.Doors, clock=storm.now))
    patch(ledger_branch, "time", SimpleNamespace(sleep=sleep))
    patch(ledger_branch, "uuid", SimpleNamespace(uuid4=lambda: uuid.UUID(int=ids.getrandbits(128))))
    patch(fake, "_warps", _warps)
    patch(plots, "_drawn", lambda *_: b"png")
    if storm.seed % RECORDED:
        patch(drawing, "records", lambda *_: {"README.md": b"A campaign.\n"})
    patch(measuring, "next_proposal", propose_once(storm.shared / "proposals", measuring.next_proposal))
    patch(journal, "read_line", functools.cache(journal.read_line))
    patch(journal.os, "fsync", lambda handle: None)  # nobody pulls the plug
    for module, name, kept in ONCE:
        patch(module, name, kept)
    yield storm
    for job in storm.jobs:  # a story that failed leaves nobody waiting
        job._kill = None
