"""The steps of one job, as GitHub's runner plays them: conditions, `run:` lines, the action's own steps.

Four actions of GitHub's are played here; any other is ours.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bot.errors import CorruptRecord, OperatorError
from bot.git.repo import Repo
from bot.git.run import run as git
from bot.localhub.expressions import as_text, fill, holds
from bot.localhub.server import Hub
from bot.localhub.shell import run_script
from bot.localhub.turns import Turn
from bot.localhub.workflow_files import CompositeAction, JobSpec, Step
from bot.localhub.world import Scope

Result: TypeAlias = Literal["running", "success", "failure", "cancelled", "skipped"]
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
LOG = "log.txt"
"""In the folder of a job."""
APP_GIVES: dict[str, tuple[Scope, ...]] = {
    "permission-contents": ("read", "push"),
    "permission-pull-requests": ("read", "comment"),
}
"""What a permission that a step asks of the App lets its token do here."""


@dataclass(slots=True)
class Ran:
    """One job: it runs, came to its end, or was skipped."""

    workflow: str
    job: str
    result: Result
    zone: str = ""
    """What of ours it runs; nothing, for a job that only starts or stops another."""
    outputs: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()
    inputs: Mapping[str, str] = field(default_factory=dict)
    """What the workflow was called with."""
    scopes: tuple[Scope, ...] = ()
    machine: tuple[str, ...] = ()
    """The labels of the machine that it needs; none on GitHub's own."""
    log: list[tuple[str, str]] = field(default_factory=list)
    """The command lines it ran, and what they said."""
    printed: str = ""
    seconds: float = 0.0

    @property
    def temp(self) -> Path:
        """Its RUNNER_TEMP."""
        return self.folder / "temp"

    @property
    def report(self) -> dict[str, Any]:
        """What its zone printed last; nothing where none came so far."""
        for line in self.printed.splitlines()[::-1]:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        return {}


@dataclass(frozen=True, slots=True)
class Machine:
    """What a job finds on the machine that runs it, whatever the job."""

    hub: Hub
    bot: str
    home: Path
    """The folder of action.yml."""
    action: CompositeAction
    environment: Mapping[str, str]


@dataclass(slots=True)
class Place:
    """One job at work."""

    spec: JobSpec
    ran: Ran
    turn: Turn
    known: dict[str, Any]
    artifacts: dict[str, Path]
    machine: Machine
    failed: bool = False

    @property
    def workspace(self) -> Path:
        return self.ran.folder / "workspace"

    def play(self) -> None:
        steps: dict[str, Any] = {}
        self.known |= {"steps": steps, "functions": self._functions()}
        try:
            for step in self.spec.steps:
                self._step(step, self.known, steps)
        except BaseException:
            self.failed = True
            raise
        outputs = self.spec.outputs.items() if not self.failed else ()
        self.ran.outputs = {name: as_text(fill(text, self.known)) for name, text in outputs}

    def write_log(self) -> None:
        text = "\n".join(f"$ {line}\n{said}" for line, said in self.ran.log)
        (self.ran.folder / LOG).write_text(text, encoding="utf-8")

    @property
    def result(self) -> Result:
        return "cancelled" if self.turn.is_cancelled else "failure" if self.failed else "success"

    def _functions(self) -> dict[str, Any]:
        return {
            "always": lambda: True,
            "success": lambda: self.result == "success",
            "failure": lambda: self.result == "failure",
            "cancelled": lambda: self.result == "cancelled",
        }

    def _step(self, step: Step, known: dict[str, Any], steps: dict[str, Any]) -> None:
        if not holds(step.condition, known):
            steps[step.id] = {"outputs": {}, "outcome": "skipped"}
            return
        outputs: dict[str, str] = {}
        good = True
        try:
            if step.run:
                outputs = self._shell(step, known)
            else:
                given = {name: as_text(fill(text, known)) for name, text in step.given.items()}
                outputs = self._use(step.uses, given)
        except OperatorError as error:
            self.ran.log.append((step.name, str(error)))
            good = False
        self.failed = self.failed or not (good or step.may_fail)
        if step.id:
            steps[step.id] = {"outputs": outputs, "outcome": "success" if good else "failure"}

    def _shell(self, step: Step, known: Mapping[str, Any]) -> dict[str, str]:
        number = len(self.ran.log)
        output, script = self.ran.temp / f"output-{number}", self.ran.temp / f"step-{number}.sh"
        line = as_text(fill(step.run, known))
        output.touch()
        script.write_text(line, encoding="utf-8")
        env = {name: as_text(fill(text, known)) for name, text in step.env.items()}
        around = {**self._environment(known["github"]), "GITHUB_OUTPUT": str(output), **env}
        # What is left to do for a job that was stopped is done to its end.
        stopped = (lambda: False) if self.turn.is_cancelled else (lambda: self.turn.is_cancelled)
        code, out, err = run_script(script, self.workspace, around, stopped)
        self.ran.log.append((line, out + err))
        self.ran.printed = out
        if code != 0:
            raise OperatorError(f"{step.name} ended with {code}:\n{err[-2000:]}")
        return read_outputs(output.read_text(encoding="utf-8"))

    def _environment(self, github: Mapping[str, Any]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        told = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(self.ran.temp),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_ACTION_PATH": str(self.machine.home),
        }
        names = ("repository", "api_url", "server_url", "event_name", "event_path", "sha", "ref", "run_id")
        return kept | told | {f"GITHUB_{name.upper()}": github[name] for name in names} | dict(self.machine.environment)

    # Actions

    def _use(self, uses: str, given: dict[str, str]) -> dict[str, str]:
        match uses.partition("@")[0]:
            case "actions/checkout":
                return self._check_out(given)
            case "actions/upload-artifact":
                return self._upload(Path(given["path"]), given["name"])
            case "actions/download-artifact":
                return self._download(Path(given["path"]), given["name"])
            case "actions/create-github-app-token":
                return {"token": self.machine.hub.token(self.machine.bot, app_scopes(given))}
            case _:
                return self._composite(self.machine.action, given)

    def _check_out(self, given: Mapping[str, str]) -> dict[str, str]:
        """All branches, straight from the folder of the repository, and the files of one commit."""
        where, bare = self.workspace / given.get("path", ""), str(self.machine.hub.bare)
        git(self.workspace, ("clone", "--quiet", "--no-tags", "--no-checkout", "--", bare, str(where))).or_raise()
        wanted = given.get("ref") or "HEAD"
        if Repo(where).resolve(wanted) is None:
            Repo(where).fetch(wanted)
        git(where, ("checkout", "--quiet", "--detach", wanted)).or_raise()
        return {}

    def _upload(self, source: Path, name: str) -> dict[str, str]:
        if not source.exists():
            return {}
        if name in self.artifacts:
            raise OperatorError(f"there is an artifact {name} already")
        kept = self.ran.temp / "artifacts" / name
        shutil.copytree(source, kept, symlinks=True)
        self.artifacts[name] = kept
        return {}

    def _download(self, target: Path, name: str) -> dict[str, str]:
        kept = self.artifacts.get(name)
        if kept is None:
            raise OperatorError(f"there is no artifact {name}")
        shutil.copytree(kept, target, symlinks=True, dirs_exist_ok=True)
        return {}

    def _composite(self, action: CompositeAction, given: dict[str, str]) -> dict[str, str]:
        unknown = set(given) - set(action.defaults)
        if unknown:
            raise CorruptRecord(f"the action has no input {sorted(unknown)}")
        steps: dict[str, Any] = {}
        github = {**self.known["github"], "action_path": str(self.machine.home)}
        known = {**self.known, "github": github, "inputs": {**action.defaults, **given}, "steps": steps}
        before, self.failed = self.failed, False
        for step in action.steps:
            self._step(step, known, steps)
        failed, self.failed = self.failed, before
        if failed:
            raise OperatorError(f"{self.spec.id}: a step of the action failed")
        return {name: as_text(fill(text, known)) for name, text in action.outputs.items()}


def app_scopes(given: Mapping[str, str]) -> tuple[Scope, ...]:
    """What the token of the App may do, by the words of the step that makes it."""
    found = {scope for name, level in given.items() if level == "write" for scope in APP_GIVES.get(name, ())}
    return tuple(sorted(found))


def read_outputs(text: str) -> dict[str, str]:
    """What a step wrote to $GITHUB_OUTPUT: `name=value`, or `name<<WORD`, lines, `WORD`."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        name, mark, word = line.partition("<<")
        if mark and "=" not in name:
            held: list[str] = []
            for inner in lines:
                if inner == word:
                    break
                held.append(inner)
            found[name] = "\n".join(held)
        elif line:
            name, _, value = line.partition("=")
            found[name] = value
    return found
