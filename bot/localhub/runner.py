"""Runs the workflow files of the embedded GitHub's default branch as GitHub's runners would, one job after the other.

Each job has a folder, an environment built from nothing and a token with its own permissions. What happens is what the
files say: their conditions, their `run:` lines, the action's steps. Four actions of GitHub's are played here.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bot.errors import CorruptRecord, OperatorError
from bot.git.repo import Repo
from bot.git.run import run as git
from bot.localhub.expressions import as_text, fill, holds
from bot.localhub.server import Hub
from bot.localhub.shell import run_script
from bot.localhub.workflow_files import CompositeAction, JobSpec, Step, Workflow, read_action, workflows_at
from bot.localhub.world import Scope

Result: TypeAlias = Literal["success", "failure", "skipped"]
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
LOG = "log.txt"
"""In the folder of a job."""
GIVES: dict[tuple[str, str], tuple[Scope, ...]] = {
    ("contents", "read"): ("read",),
    ("contents", "write"): ("read", "ledger"),
    ("issues", "write"): ("read", "comment"),
    ("pull-requests", "write"): ("read", "comment"),
    ("statuses", "write"): ("read", "status"),
    ("actions", "write"): ("dispatch",),
}
"""What a permission lets a job's token do here. GitHub's `contents: write` reaches every unprotected branch."""
APP: tuple[Scope, ...] = ("read", "push")
"""What the App's token may do."""


@dataclass(slots=True)
class Ran:
    """One job that came to its end, or was skipped."""

    workflow: str
    job: str
    result: Result
    outputs: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    scopes: tuple[Scope, ...] = ()
    log: list[tuple[str, str]] = field(default_factory=list)
    """The command lines it ran, and what they said."""


@dataclass(slots=True)
class _Run:
    """One run of one workflow: what its jobs share."""

    github: dict[str, Any]
    inputs: dict[str, str]
    artifacts: dict[str, Path]
    ran: dict[str, Ran] = field(default_factory=dict)

    def needs(self) -> dict[str, Any]:
        return {name: {"result": ran.result, "outputs": ran.outputs} for name, ran in self.ran.items()}


@dataclass(slots=True)
class _Place:
    """One job at work."""

    spec: JobSpec
    ran: Ran
    token: str
    known: dict[str, Any]
    temp: Path
    workspace: Path
    artifacts: dict[str, Path]
    failed: bool = False


class Runner:
    def __init__(
        self,
        hub: Hub,
        work: Path,
        *,
        bot: str,
        action: Path,
        variables: Mapping[str, str],
        secrets: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        tell: Callable[[Ran], None] = lambda _: None,
    ) -> None:
        """`action`: the folder of action.yml. `environment`: what a machine of ours has beyond a bare one's."""
        self._hub, self._work, self._bot = hub, work, bot
        self._home = action.resolve()
        self._action = read_action((action / "action.yml").read_text(encoding="utf-8"), "action.yml")
        self._variables, self._secrets = dict(variables), dict(secrets or {})
        self._environment, self._tell = dict(environment or {}), tell
        self._runs = 0
        self._workflows: dict[str, Workflow] = {}
        self.jobs: list[Ran] = []

    # Events

    def play(self) -> int:
        """Run what the hub's events start, and what that starts in turn. Returns how many events there were."""
        count = 0
        for name, payload in self._hub.events():
            self.hear(name, json.loads(payload.read_text(encoding="utf-8")), payload)
            count += 1
        return count

    def hear(self, name: str, event: Mapping[str, Any], payload: Path) -> None:
        repo = Repo(self._hub.bare)
        sha = repo.resolve("refs/heads/main")
        if sha is None:
            return
        self._workflows = workflows_at(repo, sha)
        for workflow in self._workflows.values():
            if name in workflow.triggers and _is_meant(workflow, name, event):
                self._start(workflow, name, event, payload.resolve(), sha)

    def _start(self, workflow: Workflow, name: str, event: Mapping[str, Any], payload: Path, sha: str) -> None:
        self._runs += 1
        github = {
            "event_name": name,
            "event": event,
            "event_path": str(payload),
            "sha": sha,
            "ref": "refs/heads/main",
            "ref_name": "main",
            "repository": self._hub.repo,
            "api_url": self._hub.url,
            "server_url": self._hub.server_url,
            "run_id": str(self._runs),
            "run_attempt": "1",
            "workflow": workflow.name,
        }
        self._workflow(workflow, _Run(github=github, inputs=dict(event.get("inputs") or {}), artifacts={}))

    # Workflows

    def _workflow(self, workflow: Workflow, run: _Run) -> tuple[Result, dict[str, str]]:
        waiting = list(workflow.jobs)
        while waiting:
            spec = next((job for job in waiting if set(job.needs) <= set(run.ran)), None)
            if spec is None:
                raise CorruptRecord(f"{workflow.path}: jobs wait for each other, or for one that is not there")
            waiting.remove(spec)
            run.ran[spec.id] = self._job(workflow, spec, run)
        jobs = {name: {"outputs": ran.outputs, "result": ran.result} for name, ran in run.ran.items()}
        outputs = {name: as_text(fill(text, {"jobs": jobs})) for name, text in workflow.outputs.items()}
        return "failure" if any(ran.result == "failure" for ran in run.ran.values()) else "success", outputs

    def _known(self, run: _Run, needs: tuple[str, ...], matrix: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: value for name, value in run.needs().items() if name in needs}
        results = [need["result"] for need in found.values()]
        functions = {
            "always": lambda: True,
            "success": lambda: all(result == "success" for result in results),
            "failure": lambda: "failure" in results,
            "cancelled": lambda: False,
        }
        names = {"vars": self._variables, "needs": found, "inputs": run.inputs, "matrix": matrix}
        return {"github": run.github, "functions": functions, **names}

    def _job(self, workflow: Workflow, spec: JobSpec, run: _Run) -> Ran:
        known = self._known(run, spec.needs, {})
        if not holds(spec.condition, known):
            return Ran(workflow.path, spec.id, "skipped")
        cells = list(_cells(spec, known))
        ran = [self._cell(workflow, spec, run, cell) for cell in cells]
        return ran[0] if len(ran) == 1 else _together(workflow, spec, ran)

    def _cell(self, workflow: Workflow, spec: JobSpec, run: _Run, cell: Mapping[str, Any]) -> Ran:
        known = self._known(run, spec.needs, cell)
        if not spec.uses:
            ran = self._steps_of(workflow, spec, run, known)
            self.jobs.append(ran)
            self._tell(ran)
            return ran
        called = self._workflows.get(spec.uses.removeprefix("$/").removeprefix("./"))
        if called is None or "workflow_call" not in called.triggers:
            raise CorruptRecord(f"{workflow.path}: {spec.uses} is no workflow that can be called")
        inputs = {name: as_text(fill(text, known)) for name, text in spec.given.items()}
        result, outputs = self._workflow(called, _Run(github=run.github, inputs=inputs, artifacts=run.artifacts))
        return Ran(workflow.path, spec.id, result, outputs)

    # Jobs

    def _scopes(self, permissions: Mapping[str, str]) -> tuple[Scope, ...]:
        given = [scope for pair in permissions.items() for scope in GIVES.get(pair, ())]
        return tuple(sorted(set(given)))

    def _steps_of(self, workflow: Workflow, spec: JobSpec, run: _Run, known: dict[str, Any]) -> Ran:
        folder = self._work / f"{len(self.jobs) + 1:03d}-{spec.id}"
        temp, workspace = folder / "temp", folder / "workspace"
        temp.mkdir(parents=True)
        workspace.mkdir()
        scopes = self._scopes(spec.permissions)
        token = self._hub.token(self._bot, scopes) if scopes else ""
        ran = Ran(workflow.path, spec.id, "success", folder=folder, scopes=scopes)
        github = {**run.github, "token": token, "workspace": str(workspace), "job": spec.id}
        secrets = self._secrets if spec.environment else {}
        steps: dict[str, Any] = {}
        here = {"github": github, "runner": {"temp": str(temp)}, "steps": steps, "secrets": secrets}
        place = _Place(spec, ran, token, {**known, **here}, temp, workspace, run.artifacts)
        _status_of_steps(place)
        for step in spec.steps:
            self._step(step, place, place.known, steps)
        ran.result = "failure" if place.failed else "success"
        (folder / LOG).write_text("\n".join(f"$ {line}\n{said}" for line, said in ran.log), encoding="utf-8")
        ran.outputs = {
            name: as_text(fill(text, place.known)) for name, text in spec.outputs.items() if not place.failed
        }
        return ran

    def _step(self, step: Step, place: _Place, known: dict[str, Any], steps: dict[str, Any]) -> None:
        if not holds(step.condition, known):
            steps[step.id] = {"outputs": {}, "outcome": "skipped"}
            return
        given = {name: as_text(fill(text, known)) for name, text in step.given.items()}
        outputs: dict[str, str] = {}
        good = True
        try:
            if step.run:
                outputs = self._shell(step, place, known)
            else:
                outputs = self._use(step.uses, given, place)
        except OperatorError as error:
            place.ran.log.append((step.name, str(error)))
            good = False
        place.failed = place.failed or not (good or step.may_fail)
        if step.id:
            steps[step.id] = {"outputs": outputs, "outcome": "success" if good else "failure"}

    def _shell(self, step: Step, place: _Place, known: Mapping[str, Any]) -> dict[str, str]:
        env = {name: as_text(fill(text, known)) for name, text in step.env.items()}
        output = place.temp / f"output-{len(place.ran.log)}"
        output.touch()
        line = as_text(fill(step.run, known))
        script = place.temp / f"step-{len(place.ran.log)}.sh"
        script.write_text(line, encoding="utf-8")
        machine = {**self._machine(place, known), "GITHUB_OUTPUT": str(output), **env}
        code, out, err = run_script(script, place.workspace, machine)
        place.ran.log.append((line, out + err))
        if code != 0:
            raise OperatorError(f"{step.name} ended with {code}:\n{err[-2000:]}")
        return read_outputs(output.read_text(encoding="utf-8"))

    def _machine(self, place: _Place, known: Mapping[str, Any]) -> dict[str, str]:
        github = known["github"]
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        told = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(place.temp),
            "GITHUB_WORKSPACE": str(place.workspace),
            "GITHUB_ACTION_PATH": str(self._home),
        }
        names = ("repository", "api_url", "server_url", "event_name", "event_path", "sha", "ref", "run_id")
        return kept | told | {f"GITHUB_{name.upper()}": github[name] for name in names} | self._environment

    # Actions

    def _use(self, uses: str, given: dict[str, str], place: _Place) -> dict[str, str]:
        name = uses.partition("@")[0]
        match name:
            case "actions/checkout":
                return self._check_out(given, place)
            case "actions/upload-artifact":
                return _upload(given, place)
            case "actions/download-artifact":
                return _download(given, place)
            case "actions/create-github-app-token":
                return {"token": self._hub.token(self._bot, APP)}
            case _:
                return self._composite(self._action, given, place)

    def _check_out(self, given: Mapping[str, str], place: _Place) -> dict[str, str]:
        """All branches, straight from the folder of the repository, and the files of one commit."""
        where, bare = place.workspace / given.get("path", ""), str(self._hub.bare)
        git(place.workspace, ("clone", "--quiet", "--no-tags", "--no-checkout", "--", bare, str(where))).or_raise()
        wanted = given.get("ref") or "HEAD"
        if Repo(where).resolve(wanted) is None:
            Repo(where).fetch(wanted)
        git(where, ("checkout", "--quiet", "--detach", wanted)).or_raise()
        return {}

    def _composite(self, action: CompositeAction, given: dict[str, str], place: _Place) -> dict[str, str]:
        unknown = set(given) - set(action.defaults)
        if unknown:
            raise CorruptRecord(f"the action has no input {sorted(unknown)}")
        steps: dict[str, Any] = {}
        github = {**place.known["github"], "action_path": str(self._home)}
        known = {**place.known, "github": github, "inputs": {**action.defaults, **given}, "steps": steps}
        before, place.failed = place.failed, False
        inner = {**known, "functions": {**known["functions"], "success": lambda: not place.failed}}
        for step in action.steps:
            self._step(step, place, inner, steps)
        if place.failed:
            place.failed = before
            raise OperatorError(f"{place.spec.id}: a step of the action failed")
        place.failed = before
        return {name: as_text(fill(text, known)) for name, text in action.outputs.items()}


def _status_of_steps(place: _Place) -> None:
    place.known["functions"] = {
        "always": lambda: True,
        "success": lambda: not place.failed,
        "failure": lambda: place.failed,
        "cancelled": lambda: False,
    }


def _is_meant(workflow: Workflow, name: str, event: Mapping[str, Any]) -> bool:
    """Whether the trigger's filters let this event through."""
    told = workflow.triggers[name] or {}
    if name == "schedule":
        return any(line["cron"] == event.get("schedule") for line in told)
    if name == "workflow_dispatch":
        return bool(event.get("workflow") == workflow.path)
    if name == "workflow_run" and event["workflow_run"]["name"] not in told.get("workflows", []):
        return False
    return "types" not in told or event.get("action") in told["types"]


def _cells(spec: JobSpec, known: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if not spec.matrix:
        yield {}
        return
    found = fill(spec.matrix, known)
    yield from found["include"]


def _together(workflow: Workflow, spec: JobSpec, ran: list[Ran]) -> Ran:
    bad = any(cell.result == "failure" for cell in ran)
    return Ran(workflow.path, spec.id, "failure" if bad else "success")


def _upload(given: Mapping[str, str], place: _Place) -> dict[str, str]:
    source, name = Path(given["path"]), given["name"]
    if not source.exists():
        return {}
    if name in place.artifacts:
        raise OperatorError(f"there is an artifact {name} already")
    kept = place.temp / "artifacts" / name
    shutil.copytree(source, kept, symlinks=True)
    place.artifacts[name] = kept
    return {}


def _download(given: Mapping[str, str], place: _Place) -> dict[str, str]:
    kept = place.artifacts.get(given["name"])
    if kept is None:
        raise OperatorError(f"there is no artifact {given['name']}")
    shutil.copytree(kept, given["path"], symlinks=True, dirs_exist_ok=True)
    return {}


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
