"""A repository on the embedded GitHub with `init`'s workflows on its default branch, and the runner that obeys them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bot.campaign.machine import fold
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.steps import Ran
from bot.localhub.world import ACTIONS_BOT
from bot.model.campaign import Campaign
from bot.render import workflows
from bot.zones.clock import utc_now
from tests.workflows.warm import write_python
from tests.zones.conversation import DANA, KERNEL, LEE, MIRA, PATH, ROLES, sample_files

ROOT = Path(__file__).parents[2]
BOT = ACTIONS_BOT[0]
AT = "2026-01-02T03:04:05Z"
PULL = 1
ACTION = "kernels/kernelwright@" + "a" * 40
"""As a repository that is not this one says it."""


class WarmPython:
    """The process that forks jobs; see warm.py."""

    def __init__(self, folder: Path, pictures: Path, module: str = "tests.workflows.warm") -> None:
        listening = folder / "python.socket"
        command = [sys.executable, "-m", module, str(listening), str(pictures)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"
        self.path = write_python(folder / "python", listening)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=20)


class Stage:
    def __init__(
        self,
        folder: Path,
        python: Path,
        environment: dict[str, str] | None = None,
        clock: Callable[[], str] = utc_now,
    ) -> None:
        """`environment`: what its machines have beyond a bare one's. `clock`: GitHub's."""
        self.folder, self._environment = folder, environment
        self.hub = Hub(folder / "hub", clock=clock).start()
        self._found()
        self._python = python
        self.runner = self.runner_with()

    def runner_with(self, **variables: str) -> Runner:
        """A machine that obeys this repository's files under other repository variables."""
        python = self._python
        told = {
            "KERNELWRIGHT_ENABLED": "true",
            "KERNELWRIGHT_RUNNER": '["self-hosted", "gpu"]',
            "KERNELWRIGHT_PYTHON": str(python),
            "KERNELWRIGHT_HOSTED_PYTHON": str(python),
            "KERNELWRIGHT_EVIDENCE": "static",
            "KERNELWRIGHT_APP_CLIENT_ID": "Iv1.kernelwright",
        }
        return Runner(
            self.hub,
            self.folder / f"jobs-{len(list(self.folder.glob('jobs-*')))}",
            bot=BOT,
            action=ROOT,
            variables=told | variables,
            secrets={"KERNELWRIGHT_APP_KEY": "the App's own key"},
            environment=self._environment,
        )

    def _found(self) -> None:
        """The first day: the sample library and our workflows, people, and dana's pull request."""
        repo, author = Repo(self.hub.bare), (DANA, "dana@example.org")
        files = sample_files()
        pages = {f".github/workflows/{name}": workflows.page(name, ACTION).encode() for name in workflows.names()}
        base = repo.commit_files(None, files | pages, "Sample\n", author=author, date=AT)
        touched = {PATH: b"# a line of the author\n" + files[PATH]}
        set_branch(repo.path, "main", base)
        set_branch(repo.path, "topic", repo.commit_files(base, touched, "Touch\n", author=author, date=AT))
        for login, role in ROLES.items():
            self.hub.add_user(login, role)
        self.hub.add_user(BOT, "write", is_bot=True)
        self.hub.open_pull(DANA, "topic", "main", "Touch the kernel")

    def close(self) -> None:
        self.hub.stop()

    # People, and what comes of it

    def says(self, who: str, text: str) -> list[Ran]:
        self.hub.comment(who, PULL, text)
        return self.plays()

    def approves(self, who: str) -> list[Ran]:
        self.hub.review(who, PULL, "APPROVE")
        return self.plays()

    def wakes(self, cron: str) -> list[Ran]:
        """GitHub's clock."""
        before = len(self.runner.jobs)
        payload = self.folder / "schedule.json"
        payload.write_text(json.dumps({"schedule": cron}), encoding="utf-8")
        self.runner.hear("schedule", {"schedule": cron}, payload)
        return self.runner.jobs[before:]

    def plays(self) -> list[Ran]:
        """The jobs that run now, until nothing is left to do or a person is waited for."""
        before = len(self.runner.jobs)
        self.runner.play()
        return self.runner.jobs[before:]

    # What can be seen

    @property
    def head(self) -> str:
        sha = Repo(self.hub.bare).resolve("refs/heads/topic")
        assert sha is not None
        return sha

    def answers(self) -> list[str]:
        return [said["body"] for said in self.hub.comments(PULL) if said["user"]["login"] == BOT]

    @property
    def campaign(self) -> Campaign:
        ledger = Ledger(Repo(self.hub.bare), remote=".")
        (name,) = ledger.campaigns()
        return fold(Campaign(id=name), (line.fact for line in ledger.lines(name)))


def told(jobs: list[Ran]) -> list[tuple[str, str]]:
    return [(ran.job, ran.result) for ran in jobs]


__all__ = ["BOT", "DANA", "KERNEL", "LEE", "MIRA", "Stage", "WarmPython", "told"]
