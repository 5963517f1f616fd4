"""One campaign on the embedded GitHub, job by job, so that a test can stop it, wind it back and go on."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.campaign.machine import fold
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.localhub.server import Hub
from bot.model.campaign import Campaign, Stage
from bot.model.facts import Fact
from tests.fakes.kept import copy_world, packed
from tests.workflows import handed

MIRA, DANA, BOT = "mira", "dana", "kernelwright[bot]"
HEXES = re.compile(r"\b[0-9a-f]{7,64}\b")
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
SAMPLE = Path(__file__).parents[2] / "templates" / "sample"
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
"""Each request of an actor looks through all of its environment, twice."""
FIXED = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT00:00:00Z")
"""Whenever anything is said; an approval of another week would be too old."""


class Theatre:
    """The process that forks actors; see theatre.py."""

    def __init__(self, pictures: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.theatre", str(pictures)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=PLAIN,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"

    def perform(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)


@dataclass(frozen=True)
class Job:
    """A job as it was asked for, and what it crossed when nobody killed it."""

    asked: dict[str, Any]
    crossings: tuple[str, ...]
    report: dict[str, Any]
    seen: dict[str, Any]
    """What there was to see right after it."""

    @property
    def zone(self) -> str:
        return str(self.asked["zone"])


def sample_files(kernel: str) -> dict[str, bytes]:
    """The sample library, without what other kernels bring."""
    skip = ("__pycache__", ".pytest_cache", ".ruff_cache")
    found = (path for path in SAMPLE.rglob("*") if path.is_file() and not set(skip) & set(path.parts))
    return {path.relative_to(SAMPLE).as_posix(): path.read_bytes() for path in found}


class Story:
    """A world in a folder: the hub's own, and a folder a job. Copying the folder copies everything there is."""

    def __init__(self, world: Path, theatre: Theatre, mode: str, kernel: str = "rms_norm") -> None:
        self.world, self._theatre, self._mode, self._kernel = world, theatre, mode, kernel
        self.hub: Hub | None = None

    # The world

    def found(self) -> None:
        """The first day: a repository, people, one pull request, one comment."""
        self.open()
        hub = self._hub
        repo = Repo(hub.bare)
        files = sample_files(self._kernel)
        base = repo.commit_files(None, files, "Sample", author=("dana", "dana@example.org"), date=FIXED)
        path = f"src/sample_kernels/ops/{self._kernel}.py"
        touched = {path: b"# a line of the author\n" + files[path]}
        head = repo.commit_files(base, touched, "Touch", author=("dana", "dana@example.org"), date=FIXED)
        set_branch(repo.path, "main", base)
        set_branch(repo.path, "topic", head)
        hub.add_user(MIRA, "maintain")
        hub.add_user(DANA, "write")
        hub.add_user(BOT, "write", is_bot=True)
        hub.open_pull(DANA, "topic", "main", "Touch the kernel", "")
        repo.export("refs/heads/main", self.world / "trusted")
        mode = f" mode={self._mode}"
        hub.comment(MIRA, 1, f"/optimize {self._kernel}{mode}")

    @property
    def _hub(self) -> Hub:
        assert self.hub is not None
        return self.hub

    def open(self) -> None:
        self.close()
        self.hub = Hub(self.world / "hub", clock=lambda: FIXED).start()

    def close(self) -> None:
        if self.hub is not None:
            self.hub.stop()
            self.hub = None

    def save(self, place: Path) -> None:
        shutil.rmtree(self.world / "scratch", ignore_errors=True)  # no job finds another's
        copy_world(self.world, place)
        packed(place)

    def restore(self, place: Path) -> None:
        self.close()
        shutil.rmtree(self.world)
        copy_world(place, self.world)
        self.open()

    # Jobs

    def _environment(self, zone: str, event: tuple[str, Path] | None) -> dict[str, str]:
        hub = self._hub
        given = {"GITHUB_EVENT_NAME": event[0], "GITHUB_EVENT_PATH": str(event[1])} if event else {}
        return given | {
            "GITHUB_REPOSITORY": hub.repo,
            "GITHUB_API_URL": hub.url,
            "GITHUB_SERVER_URL": hub.server_url,
            "GITHUB_WORKSPACE": str(self.world / "trusted"),
            **handed.tokens(zone, hub, BOT),
            "KERNELWRIGHT_BOT_LOGIN": BOT,
            "KERNELWRIGHT_BOT_ID": str(hub.user_id(BOT)),
        }

    def perform(self, asked: dict[str, Any], kill: tuple[int, str] | None = None) -> dict[str, Any]:
        """Run one job. Its scratch is new each time, as a runner's is; its output folder stays."""
        scratch = self.world / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        report = scratch / "report.json"
        told = {**asked, "kill": kill, "report": str(report), "scratch": str(scratch)}
        if asked["zone"] == "measure":
            clone = scratch / "clone.git"
            subprocess.run(["git", "clone", "--quiet", "--mirror", str(self._hub.bare), str(clone)], check=True)
            told["repository"] = str(clone)
        else:
            event = asked.get("event")
            environment = self._environment(asked["zone"], (event[0], Path(event[1])) if event else None)
            told["environment"] = {**environment, "RUNNER_TEMP": str(scratch)}
        done = self._theatre.perform(told)
        return {**done, "report": json.loads(report.read_text()) if report.exists() else {}}

    def _order(self, report: dict[str, Any], count: int) -> str:
        path = self.world / f"order-{count}.json"
        bundle = {key: report[key] for key in ("order", "ledger_commit", "pinned_sha")}
        path.write_text(json.dumps(bundle), encoding="utf-8")
        return str(path)

    def _human(self, stage: str) -> None:
        if stage == Stage.AWAIT_FINAL:
            self._hub.review(MIRA, 1, "APPROVE")
        else:
            self._hub.comment(MIRA, 1, "/optimize approve")

    def next_job(self, last: Job | None, count: int) -> dict[str, Any] | None:
        """What happens now: a person speaks and a job starts, or the job before asks for another."""
        if last is not None and last.report["next"] == "wait":
            self._human(last.report["stage"])
        if last is None or last.report["next"] == "wait":
            ((name, path),) = list(self._hub.events())
            kept = self.world / f"event-{count}.json"
            kept.write_bytes(Path(path).read_bytes())
            return {"zone": "decide", "event": (name, str(kept))}
        campaign = last.report["campaign"]
        match last.report["next"]:
            case "measure":
                return {
                    "zone": "measure",
                    "order": self._order(last.report, count),
                    "out": str(self.world / f"out-{count}"),
                }
            case "publish":
                return {"zone": "publish", "campaign": campaign}
            case "push":
                return {"zone": "push", "campaign": campaign}
            case _:
                return None

    def after_measure(self, job: Job) -> dict[str, Any]:
        return {"zone": "publish", "campaign": job.report["campaign"], "segment": job.asked["out"]}

    # What can be seen of it

    def _reactions(self, comment: int) -> list[tuple[str, str]]:
        return sorted((made.author, made.content) for made in self._hub.world.reactions_to(comment))

    def campaign(self) -> tuple[Campaign, tuple[Fact, ...]]:
        ledger = Ledger(Repo(self._hub.bare), remote=".")
        names = ledger.campaigns()
        assert len(names) == 1, names
        facts = tuple(line.fact for line in ledger.lines(names[0]))
        return fold(Campaign(id=names[0]), facts), facts

    def seen(self) -> dict[str, Any]:
        """Everything a person could compare: comments, reactions, branches, the campaign and its facts."""
        repo, hub = Repo(self._hub.bare), self._hub
        heads = subprocess.run(
            ["git", "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"],
            cwd=repo.path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        branches = {name: sha for name, sha in (line.split() for line in heads) if "ledger" not in name}
        comments = [
            (said["user"]["login"], ADDRESS.sub("hub", HEXES.sub("sha", said["body"])), self._reactions(said["id"]))
            for said in hub.comments(1)
        ]
        ledger_exists = any("kernelwright/ledger" in line for line in heads)
        campaign, facts = self.campaign() if ledger_exists else (None, ())
        kept = campaign.model_dump(mode="json", exclude={"done", "requested", "joined", "spent"}) if campaign else None
        done = sorted(key for key, _ in campaign.done) if campaign else []
        return {
            "branches": branches,
            "comments": comments,
            "campaign": kept,
            "done": done,
            "facts": dict(Counter(fact.kind for fact in facts)),
        }
