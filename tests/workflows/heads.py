"""What stories of moving heads share: a stage that goes on where another one stood, hooks, forks, words of answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.git.repo import Repo
from bot.localhub.steps import Ran
from bot.localhub.wire import Request, Response, token_of
from tests.fakes.kept import copy_world
from tests.workflows.stage import BOT, DANA, LEE, Stage
from tests.zones.conversation import AT, PATH

FENCED = re.compile(r"^ *```\n *(.*)\n *```$", re.MULTILINE)
ENVIRONMENT = "environment.txt"
TELLING = """#!/bin/sh
env > "$RUNNER_TEMP/{name}"
exec '{python}' "$@"
"""
OWN_RULES = b"polcy = 1\n"
"""What a fork says of itself. Whoever reads it stops there."""


class Later(Stage):
    """Goes on in a copy of where another stage stood: an event that had not come to its end there comes once more."""

    def __init__(self, place: Path, folder: Path, python: Path) -> None:
        copy_world(place, folder / "hub")
        super().__init__(folder, python)

    def _found(self) -> None:
        """It was founded before."""


@dataclass
class Turned:
    """A story that took another turn while one of its jobs was at work."""

    stage: Stage
    head: str
    """What that was about: where the author's branch stands since."""
    jobs: list[Ran]


@contextmanager
def turned(place: Path, folder: Path, python: Path, job: str, do: Callable[[Stage], str]) -> Iterator[Turned]:
    """From this moment of another story on: `do` happens as soon as the job begins."""
    stage, heads = Later(place, folder, python), list[str]()
    stage.runner.began = at(job, lambda: heads.append(do(stage)))
    jobs = stage.plays()
    yield Turned(stage, heads[0], jobs)
    stage.close()


def at(job: str, do: Callable[[], object], turn: int = 1) -> Callable[[Ran], None]:
    """For a runner's `began`: done once, at the job of this name whose turn it is."""
    before = iter(range(turn)[::-1])

    def told(ran: Ran) -> None:
        if ran.job == job and next(before, None) == 0:
            do()

    return told


def keep(stage: Stage, place: Path, job: str, turn: int = 1) -> None:
    """A copy of the world as this job finds it."""
    stage.runner.began = at(job, lambda: copy_world(stage.hub.root, place), turn)


# People


def pull_of_a_fork(stage: Stage) -> tuple[str, int]:
    """The fork of somebody who may only read, and the number of its pull request."""
    fork = stage.hub.fork(LEE)
    kernel = b"# mine\n" + (Repo(stage.hub.bare).read("main", PATH) or b"")
    stage.hub.push(LEE, "mine", {PATH: kernel, "kernelwright.toml": OWN_RULES}, "Mine\n", repo=fork)
    return fork, stage.hub.open_pull(LEE, "mine", "main", "From a fork", head_repo=fork)


def changes_the_kernel(stage: Stage) -> str:
    kernel = b"# anew\n" + (Repo(stage.hub.bare).read(stage.head, PATH) or b"")
    return stage.hub.push(DANA, "topic", {PATH: kernel}, "Anew\n")


def rewrites_at_the_push(stage: Stage) -> str:
    """A force-push after every look of the push job, when its git asks with the App's token where the branch stands.

    Returns where it stood until then.
    """
    repo, old = Repo(stage.hub.bare), stage.head
    main, author = repo.resolve("refs/heads/main"), (DANA, "dana@example.org")
    kernel = b"# rewritten\n" + (repo.read("main", PATH) or b"")

    def before(moment: str, request: Request) -> Response | None:
        token = stage.hub.world.tokens.get(token_of(request))
        pushes = request.query.get("service") == "git-receive-pack" and token and "push" in token.scopes
        if moment == "before" and pushes and stage.head == old:
            made = repo.commit_files(main, {PATH: kernel}, "Rewritten\n", author=author, date=AT)
            stage.hub.history.set_ref("refs/heads/topic", made)
        return None

    stage.hub.inject(before)
    return old


def deletes_the_fork(stage: Stage) -> str:
    (fork,) = stage.hub.world.forks
    stage.hub.delete_fork(fork)
    return ""


# What can be seen


def answers(stage: Stage, number: int) -> list[str]:
    return [said["body"] for said in stage.hub.comments(number) if said["user"]["login"] == BOT]


def typed(answer: str) -> list[str]:
    """The lines that an answer offers to be pasted."""
    return FENCED.findall(answer)


def pinned_in(ran: Ran) -> Repo:
    """What a GPU job measured."""
    return Repo(ran.folder / "workspace" / "kernelwright-pinned")


def write_telling_python(path: Path, python: Path) -> Path:
    """A Python that writes down the environment that it is called in."""
    path.write_text(TELLING.format(name=ENVIRONMENT, python=python), encoding="utf-8")
    path.chmod(0o755)
    return path
