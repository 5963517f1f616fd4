"""Runs the workflow files of the embedded GitHub's default branch as GitHub's runners would.

Each job has a folder, an environment built from nothing and a token with its own permissions. What happens is what the
files say: their conditions, their `run:` lines, their groups, the action's steps. A job waits for its turn while
another thread plays one of its group, or one on its machine.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.errors import CorruptRecord
from bot.git.repo import Repo
from bot.localhub import actions
from bot.localhub.expressions import as_text, fill, holds
from bot.localhub.server import Hub
from bot.localhub.steps import Machine, Place, Ran, Result
from bot.localhub.turns import Turn, Turns
from bot.localhub.workflow_files import JobSpec, Workflow, read_action, workflows_at
from bot.localhub.world import Scope

GIVES: dict[tuple[str, str], tuple[Scope, ...]] = {
    ("contents", "read"): ("read",),
    ("contents", "write"): ("read", "ledger"),
    ("issues", "write"): ("read", "comment"),
    ("pull-requests", "write"): ("read", "comment"),
    ("statuses", "write"): ("read", "status"),
    ("actions", "write"): ("dispatch",),
}
"""What a permission lets a job's token do here. GitHub's `contents: write` reaches every unprotected branch."""


@dataclass(slots=True)
class _Run:
    """One run of one workflow: what its jobs share."""

    github: dict[str, Any]
    workflows: Mapping[str, Workflow]
    inputs: dict[str, str]
    artifacts: dict[str, Path]
    shown: actions.Run
    callers: str = ""
    """The jobs that called this one, as they stand before the names of its own."""
    ran: dict[str, Ran] = field(default_factory=dict)

    def needs(self) -> dict[str, Any]:
        return {name: {"result": ran.result, "outputs": ran.outputs} for name, ran in self.ran.items()}


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
    ) -> None:
        """`action`: the folder of action.yml. `environment`: what a machine of ours has beyond a bare one's."""
        self._hub, self._work, self._bot = hub, work, bot
        read = read_action((action / "action.yml").read_text(encoding="utf-8"), "action.yml")
        self._machine = Machine(hub, bot, action.resolve(), read, dict(environment or {}))
        self._variables, self._secrets = dict(variables), dict(secrets or {})
        self._folders = itertools.count(1)
        self._turns = Turns()
        self.jobs: list[Ran] = []
        """Those that came to their end."""
        self.began: Callable[[Ran], None] = lambda ran: None
        """Told of each job that begins."""
        self.ended: Callable[[Ran], None] = lambda ran: None

    def stop(self) -> None:
        """End every job, and begin none from now on."""
        self._turns.close()

    def occupied(self, *labels: str) -> AbstractContextManager[None]:
        """Meanwhile the machine with these labels takes up no job of ours: somebody else has it, or it is gone."""
        return self._turns.taken(" ".join(labels), Turn())

    # Events

    def play(self) -> int:
        """Run what the hub's events start, and what that starts in turn. Returns how many events there were."""
        count = 0
        for name, payload in self._hub.events():
            self.hear(name, json.loads(payload.read_text(encoding="utf-8")), payload)
            count += 1
        return count

    def hear(self, name: str, event: Mapping[str, Any], payload: Path) -> None:
        """Run what this event starts, to its end."""
        repo = Repo(self._hub.bare)
        sha = repo.resolve("refs/heads/main")
        if sha is None:
            return
        workflows = workflows_at(repo, sha)
        for workflow in workflows.values():
            if name in workflow.triggers and _is_meant(workflow, name, event):
                shown = self._hub.actions.begin(path=workflow.path, workflow=workflow.name, event=name, sha=sha)
                github = self._github(shown, event, payload.resolve())
                inputs = dict(event.get("inputs") or {})
                shown.title = as_text(fill(workflow.title, {"github": github, "inputs": inputs}))
                self._run(workflow, _Run(github, workflows, inputs=inputs, artifacts={}, shown=shown))

    def _github(self, shown: actions.Run, event: Mapping[str, Any], payload: Path) -> dict[str, Any]:
        return {
            "event_name": shown.event,
            "event": event,
            "event_path": str(payload),
            "sha": shown.sha,
            "ref": "refs/heads/main",
            "ref_name": "main",
            "repository": self._hub.repo,
            "api_url": self._hub.url,
            "server_url": self._hub.server_url,
            "run_id": str(shown.id),
            "run_attempt": "1",
            "workflow": shown.workflow,
        }

    # Workflows

    def _run(self, workflow: Workflow, run: _Run) -> None:
        result: Result = "failure"
        try:
            result, _ = self._workflow(workflow, run)
        finally:
            run.shown.conclusion = result

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
        return _worst(run.ran.values()), outputs

    def _known(self, run: _Run, needs: tuple[str, ...], matrix: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: value for name, value in run.needs().items() if name in needs}
        results = [need["result"] for need in found.values()]
        functions = {
            "always": lambda: True,
            "success": lambda: all(result == "success" for result in results),
            "failure": lambda: "failure" in results,
            "cancelled": lambda: "cancelled" in results,
        }
        names = {"vars": self._variables, "needs": found, "inputs": run.inputs, "matrix": matrix}
        return {"github": run.github, "functions": functions, **names}

    def _job(self, workflow: Workflow, spec: JobSpec, run: _Run) -> Ran:
        known = self._known(run, spec.needs, {})
        if not holds(spec.condition, known):
            return Ran(workflow.path, spec.id, "skipped")
        ran = [self._cell(workflow, spec, run, cell) for cell in _cells(spec, known)]
        return ran[0] if len(ran) == 1 else Ran(workflow.path, spec.id, _worst(ran))

    def _cell(self, workflow: Workflow, spec: JobSpec, run: _Run, cell: Mapping[str, Any]) -> Ran:
        known = self._known(run, spec.needs, cell)
        name = run.callers + as_text(fill(spec.name, known))
        if spec.uses:  # the jobs that it calls are those that are listed
            return self._in_turn(workflow, spec, known, lambda turn: self._call(workflow, spec, run, known, name))
        job, result = self._hub.actions.queue(run.shown, name, _labels(spec, known)), "failure"
        try:
            ran = self._in_turn(workflow, spec, known, lambda turn: self._play(workflow, spec, run, known, turn, job))
            result = ran.result
        finally:
            self._hub.actions.end(job, result)
        return ran

    def _in_turn(self, workflow: Workflow, spec: JobSpec, known: Mapping[str, Any], go: Callable[[Turn], Ran]) -> Ran:
        """Once its group and its machine are free."""
        turn, group, labels = Turn(), as_text(fill(spec.group, known)), _labels(spec, known)
        rules = {"ends_others": spec.ends_others, "waits_long": spec.waits_long}
        with self._turns.taken(group, turn, **rules), self._turns.taken(" ".join(labels), turn):
            return Ran(workflow.path, spec.id, "cancelled") if turn.is_cancelled else go(turn)

    def _call(self, workflow: Workflow, spec: JobSpec, run: _Run, known: Mapping[str, Any], name: str) -> Ran:
        called = run.workflows.get(spec.uses.removeprefix("$/").removeprefix("./"))
        if called is None or "workflow_call" not in called.triggers:
            raise CorruptRecord(f"{workflow.path}: {spec.uses} is no workflow that can be called")
        inputs = {name: as_text(fill(text, known)) for name, text in spec.given.items()}
        inner = replace(run, inputs=inputs, callers=f"{name} / ", ran={})
        result, outputs = self._workflow(called, inner)
        return Ran(workflow.path, spec.id, result, outputs=outputs)

    # Jobs

    def _play(
        self, workflow: Workflow, spec: JobSpec, run: _Run, known: dict[str, Any], turn: Turn, job: actions.Job
    ) -> Ran:
        ran = self._ran(workflow, spec, run, known)
        self._hub.actions.take_up(job)
        began = time.monotonic()
        self.began(ran)
        place = Place(spec, ran, turn, {**known, **self._here(spec, ran, run)}, run.artifacts, self._machine)
        try:
            place.play()
        finally:  # also when we are ended: who asks what became of it finds an answer
            ran.result, ran.seconds = place.result, time.monotonic() - began
            place.write_log()
            self.jobs.append(ran)
            self.ended(ran)
        return ran

    def _ran(self, workflow: Workflow, spec: JobSpec, run: _Run, known: Mapping[str, Any]) -> Ran:
        folder = self._work / f"{next(self._folders):03d}-{spec.id}"
        for name in ("temp", "workspace"):
            (folder / name).mkdir(parents=True)
        given = [scope for pair in spec.permissions.items() for scope in GIVES.get(pair, ())]
        scopes = tuple(sorted(set(given)))
        return Ran(
            workflow.path,
            spec.id,
            "running",
            spec.zone,
            folder=folder,
            inputs=run.inputs,
            scopes=scopes,
            machine=_labels(spec, known),
        )

    def _here(self, spec: JobSpec, ran: Ran, run: _Run) -> dict[str, Any]:
        """What a job's steps may speak of beyond what its conditions may."""
        token = self._hub.token(self._bot, ran.scopes) if ran.scopes else ""
        github = {**run.github, "token": token, "workspace": str(ran.folder / "workspace"), "job": spec.id}
        secrets = self._secrets if spec.environment else {}
        return {"github": github, "runner": {"temp": str(ran.temp)}, "secrets": secrets}


def _worst(ran: Iterable[Ran]) -> Result:
    results = {one.result for one in ran}
    return "failure" if "failure" in results else "cancelled" if "cancelled" in results else "success"


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


def _labels(spec: JobSpec, known: Mapping[str, Any]) -> tuple[str, ...]:
    """Of the one machine that has them; of GitHub's own there are as many as are wanted."""
    labels = fill(spec.runs_on, known)
    return tuple(labels) if isinstance(labels, list) else ()
