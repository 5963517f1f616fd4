"""A conversation on the embedded GitHub, with the real zones in this process: people speak, jobs answer.

Everything there is lies in one folder, so a test begins in a copy of a conversation that came this far already.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from bot.campaign.machine import fold
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.ledger import journal
from bot.ledger.branch import Ledger
from bot.ledger.journal import Segment
from bot.ledger.layout import CAMPAIGNS, JOURNAL, LEDGER_REF
from bot.localhub.server import Hub
from bot.localhub.world import FIRST_ID
from bot.model.campaign import Campaign, Outcome, Stage, Zone
from bot.model.facts import Fact
from bot.model.reasons import ReasonCode
from bot.settings import Settings, read_settings
from bot.targets.contract import CONFIG
from bot.zones.clock import utc_now
from bot.zones.decide import decide
from bot.zones.intake import SEGMENT
from bot.zones.publish import publish
from bot.zones.push import push
from bot.zones.report import ZoneReport
from tests.fakes.kept import copy_world
from tests.workflows import handed
from tests.zones import gpu

MIRA, DANA, NOOR, LEE, BOT = "mira", "dana", "noor", "lee", "kernelwright[bot]"
ROLES = {MIRA: "maintain", DANA: "write", NOOR: "write", LEE: "read"}
"""dana wrote the pull request."""
SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
KERNEL = "rms_norm"
PATH = f"src/sample_kernels/ops/{KERNEL}.py"
LEFT_OUT = ("__pycache__", ".pytest_cache", ".ruff_cache")
AT = "2026-01-02T03:04:05Z"
HOUR = datetime.timedelta(hours=1)
PULL = 1


def sample_files() -> dict[str, bytes]:
    files = (path for path in SAMPLE.rglob("*") if path.is_file() and not set(LEFT_OUT) & set(path.parts))
    return {path.relative_to(SAMPLE).as_posix(): path.read_bytes() for path in files}


def said(report: ZoneReport) -> tuple[str, str, str]:
    return report.decision, report.reason_code, report.next


class Conversation:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = 0
        self.hub: Hub
        self._hub: Hub | None = None
        self._read: tuple[str | None, dict[str, tuple[Fact, ...]]] = (None, {})

    # The place

    def _now(self) -> str:
        """A second passes whenever something is said; a copy of the folder goes on where it was."""
        if self._hub is None:  # an hour ago, so that nothing is said in the future
            return (datetime.datetime.now(datetime.UTC) - HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
        world = self._hub.world
        founded = datetime.datetime.fromisoformat(world.created_at)
        return (founded + datetime.timedelta(seconds=world.last_id - FIRST_ID)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def open(self) -> Conversation:
        self._hub = self.hub = Hub(self.folder / "hub", clock=self._now)
        self.hub.start()
        return self

    def close(self) -> None:
        self.hub.stop()

    def copy_of(self, place: Path) -> Conversation:
        copy_world(place, self.folder)
        return self.open()

    def found(self, files: dict[str, bytes] | None = None) -> Conversation:
        """The first day: the sample library, people, and dana's pull request."""
        self.open()
        repo, author = Repo(self.hub.bare), (DANA, "dana@example.org")
        sample = sample_files() | (files or {})
        base = repo.commit_files(None, sample, "Sample\n", author=author, date=AT)
        touched = {PATH: b"# a line of the author\n" + sample[PATH]}
        set_branch(repo.path, "main", base)
        set_branch(repo.path, "topic", repo.commit_files(base, touched, "Touch\n", author=author, date=AT))
        for login, role in ROLES.items():
            self.hub.add_user(login, role)
        self.hub.add_user(BOT, "write", is_bot=True)
        self.hub.open_pull(DANA, "topic", "main", "Touch the kernel")
        repo.export("refs/heads/main", self.folder / "trusted")
        return self

    # People

    def says(self, who: str, text: str, number: int = PULL) -> int:
        return self.hub.comment(who, number, text)

    def reviews(self, who: str, state: str, body: str = "", commit: str | None = None) -> int:
        return self.hub.review(who, PULL, state, body, commit)

    def pushes(self, who: str, text: str, branch: str = "topic", path: str = PATH) -> str:
        return self.hub.push(who, branch, {path: text.encode()}, "Another commit\n")

    def allows(self, lines: str) -> None:
        """A maintainer changes what the repository allows, on its default branch."""
        self.hub.push(MIRA, "main", {CONFIG: f"[policy]\n{lines}\n".encode()}, "Other rules\n")

    # Jobs

    def settings(self, zone: str, event: tuple[str, Path] | None = None, **other: str) -> Settings:
        """The settings of one job: a scratch folder and the tokens of its own that its workflow file gives it."""
        self.jobs += 1
        scratch = self.folder / f"job-{self.jobs}"
        scratch.mkdir()
        given = {"GITHUB_EVENT_NAME": event[0], "GITHUB_EVENT_PATH": str(event[1])} if event else {}
        job = {
            "GITHUB_REPOSITORY": self.hub.repo,
            "GITHUB_API_URL": self.hub.url,
            "GITHUB_SERVER_URL": self.hub.server_url,
            "GITHUB_WORKSPACE": str(self.folder / "trusted"),
            "RUNNER_TEMP": str(scratch),
            **handed.tokens(zone, self.hub, BOT),
            "KERNELWRIGHT_BOT_LOGIN": BOT,
            "KERNELWRIGHT_BOT_ID": str(self.hub.user_id(BOT)),
        }
        return read_settings(job | given | other)

    def last_event(self) -> tuple[str, Path]:
        """The newest event; those before it count as delivered."""
        return list(self.hub.events())[-1]

    def event_of(self, comment: int) -> tuple[str, Path]:
        """The event of a comment, however long ago it was delivered."""
        files = (self.hub.root / "outbox").glob("*/event.json")
        return "issue_comment", next(
            f for f in files if json.loads(f.read_text()).get("comment", {}).get("id") == comment
        )

    def decides(self, event: tuple[str, Path] | None = None) -> ZoneReport:
        return decide(self.settings("decide", event or self.last_event()))

    def asks(self, who: str, text: str, number: int = PULL) -> ZoneReport:
        """A comment, and the job that it starts."""
        self.says(who, text, number)
        return self.decides()

    def reviewed_by(self, who: str, state: str, body: str = "", commit: str | None = None) -> ZoneReport:
        self.reviews(who, state, body, commit)
        return self.decides()

    def leaves(self, facts: Iterable[Fact]) -> Path:
        """The folder a GPU job would leave with these facts."""
        self.jobs += 1
        out = self.folder / f"out-{self.jobs}"
        out.mkdir()
        segment = Segment(out / SEGMENT)
        for fact in facts:
            segment.append(fact, AT)
        return out

    def publishes(self, segment: Path | None = None, campaign: str = "") -> ZoneReport:
        return publish(self.settings("publish"), campaign or self.campaign.id, segment)

    def profiles(self) -> ZoneReport:
        """The GPU job of the PROFILE order, and publish."""
        return self.publishes(self.leaves(gpu.profiled(self.campaign, self.repo)))

    def searches(self, ideas: Sequence[gpu.Idea] = gpu.IDEAS) -> ZoneReport:
        return self.publishes(self.leaves(gpu.searched(self.campaign, ideas)))

    def finishes(self) -> ZoneReport:
        return self.publishes(self.leaves(gpu.finished(self.campaign)))

    def push(self) -> ZoneReport:
        return push(self.settings("push"), self.campaign.id)

    # What can be seen

    @property
    def repo(self) -> Repo:
        return Repo(self.hub.bare)

    @property
    def journals(self) -> dict[str, tuple[Fact, ...]]:
        """The facts of every campaign, oldest campaign first. Read once for each state of the ledger branch."""
        tip = self.hub.history.heads().get(LEDGER_REF)
        if tip != self._read[0]:
            paths = (path for path in self.repo.list(tip or "", CAMPAIGNS) if path.endswith(f"/{JOURNAL}"))
            texts = {path.split("/")[1]: (self.repo.read(tip or "", path) or b"").decode() for path in paths}
            lines = {name: journal.parse(text, name) for name, text in sorted(texts.items())}
            self._read = (tip, {name: tuple(line.fact for line in rows) for name, rows in lines.items()})
        return self._read[1]

    @cached_property
    def here(self) -> datetime.datetime:
        """When the last fact was written, as of the first time somebody asks. A kept place may be many minutes old."""
        tip = self.hub.history.heads()[LEDGER_REF]
        path = next(path for path in self.repo.list(tip, CAMPAIGNS) if path.endswith(f"{self.campaign.id}/{JOURNAL}"))
        lines = journal.parse((self.repo.read(tip, path) or b"").decode(), path)
        return datetime.datetime.fromisoformat(lines[-1].at)

    @property
    def campaign(self) -> Campaign:
        """The youngest one."""
        name, facts = list(self.journals.items())[-1]
        return fold(Campaign(id=name), facts)

    def facts(self) -> list[str]:
        return [fact.kind for fact in self.journals[self.campaign.id]]

    def writes_down(self, *facts: Fact) -> None:
        """Somebody who can write to the ledger branch appends what they like."""
        name, there = list(self.journals.items())[-1]
        Ledger(self.repo, remote=".").append(name, facts, zone=Zone.DECIDE, at=utc_now(), expect_seq=len(there))

    def retold(self, **changes: Mapping[str, Any]) -> Conversation:
        """The same story under another policy, after another command or on another pull request."""
        name, (first, *others) = list(self.journals.items())[-1]
        told = {part: getattr(first, part).model_copy(update=dict(change)) for part, change in changes.items()}
        self.git("update-ref", "-d", LEDGER_REF)
        facts = (first.model_copy(update=told), *others)
        Ledger(self.repo, remote=".").append(name, facts, zone=Zone.DECIDE, at=AT, expect_seq=0)
        return self

    @property
    def branches(self) -> dict[str, str]:
        heads = self.hub.history.heads()
        return {ref.removeprefix("refs/heads/"): sha for ref, sha in heads.items() if ref.startswith("refs/heads/")}

    @property
    def has_ledger(self) -> bool:
        return LEDGER_REF in self.hub.history.heads()

    @property
    def head(self) -> str:
        return self.branches["topic"]

    def answers(self, number: int = PULL) -> list[str]:
        """What the bot said, oldest first, without the markers."""
        said = [comment["body"] for comment in self.hub.comments(number) if comment["user"]["login"] == BOT]
        return [body.partition("\n\n")[2] for body in said]

    def visible(self) -> list[str]:
        """What of it a reader sees without unfolding anything."""
        shown = [c for c in self.hub.world.comments_on(PULL) if c.author == BOT and not c.minimized]
        return [comment.body.partition("\n\n")[2] for comment in shown]

    def reactions(self, comment: int) -> list[str]:
        return [r.content for r in self.hub.world.reactions_to(comment) if r.author == BOT]

    @property
    def ended(self) -> tuple[Stage, Outcome | None, ReasonCode | None]:
        campaign = self.campaign
        return campaign.stage, campaign.outcome, campaign.reason

    @property
    def is_untouched(self) -> bool:
        """dana's branch ends where it began."""
        return self.head == self.hub.world.pulls()[0][1].first

    def status(self) -> tuple[str, str]:
        """State and words of the commit status of the pull request's first head."""
        latest = self.hub.world.latest_statuses(self.hub.world.pulls()[0][1].first)[-1]
        return latest.state, latest.description

    def git(self, *arguments: str) -> str:
        done = subprocess.run(("git", *arguments), cwd=self.hub.bare, check=True, capture_output=True, text=True)
        return done.stdout.strip()
