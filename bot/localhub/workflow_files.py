"""Workflow and action files as values. Every plain value is text, as YAML's own guesses would make `on` a truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from bot.errors import CorruptRecord
from bot.git.repo import Repo
from bot.model.ids import CommitSha

FOLDER = ".github/workflows"


@dataclass(frozen=True, slots=True)
class Step:
    id: str
    name: str
    condition: str | None
    uses: str
    run: str
    given: Mapping[str, str]
    """`with:`."""
    env: Mapping[str, str]
    may_fail: bool


@dataclass(frozen=True, slots=True)
class JobSpec:
    id: str
    name: str
    """As its run shows it."""
    needs: tuple[str, ...]
    condition: str | None
    permissions: Mapping[str, str]
    outputs: Mapping[str, str]
    matrix: str
    uses: str
    given: Mapping[str, str]
    environment: str
    runs_on: str
    group: str
    ends_others: bool
    """`cancel-in-progress`: entering the group ends who is in it."""
    waits_long: bool
    """`queue: max`: who waits for the group stays when another one comes."""
    steps: tuple[Step, ...]

    @property
    def zone(self) -> str:
        """The zone that it runs, as its step hands it to the action."""
        return next((step.given["zone"] for step in self.steps if "zone" in step.given), "")


@dataclass(frozen=True, slots=True)
class Workflow:
    path: str
    name: str
    title: str
    """`run-name:`, which its runs are shown by."""
    triggers: Mapping[str, Any]
    permissions: Mapping[str, str]
    jobs: tuple[JobSpec, ...]
    outputs: Mapping[str, str]
    """Of a workflow that others call."""


@dataclass(frozen=True, slots=True)
class CompositeAction:
    defaults: Mapping[str, str]
    outputs: Mapping[str, str]
    steps: tuple[Step, ...]


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        found = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise CorruptRecord(f"{path} is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise CorruptRecord(f"{path} is no workflow and no action")
    return found


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (value,) if value else ()


def _table(value: Any) -> dict[str, Any]:
    """A table; `on: push` and `on: [push]` are tables of nothing."""
    return value if isinstance(value, dict) else {key: {} for key in _listed(value)}


def _steps(found: list[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Step(
            id=step.get("id", ""),
            name=step.get("name") or step.get("uses") or "run",
            condition=step.get("if"),
            uses=step.get("uses", ""),
            run=step.get("run", ""),
            given=_table(step.get("with")),
            env=_table(step.get("env")),
            may_fail=step.get("continue-on-error") == "true",
        )
        for step in found
    )


def _job(name: str, found: dict[str, Any], permissions: Mapping[str, str]) -> JobSpec:
    environment, group = found.get("environment", ""), _table(found.get("concurrency"))
    return JobSpec(
        id=name,
        name=found.get("name", name),
        needs=_listed(found.get("needs")),
        condition=found.get("if"),
        permissions=_table(found["permissions"]) if "permissions" in found else permissions,
        outputs=_table(found.get("outputs")),
        matrix=_table(found.get("strategy")).get("matrix", ""),
        uses=found.get("uses", ""),
        given=_table(found.get("with")),
        environment=environment.get("name", "") if isinstance(environment, dict) else environment,
        runs_on=str(found.get("runs-on", "")),
        group=group.get("group", ""),
        ends_others=group.get("cancel-in-progress") == "true",
        waits_long=group.get("queue") == "max",
        steps=_steps(found.get("steps", [])),
    )


@lru_cache(maxsize=64)  # every event has all of them read, and YAML takes its time
def read_workflow(text: str, path: str) -> Workflow:
    found = _parsed(text, path)
    triggers, permissions = _table(found.get("on")), _table(found.get("permissions"))
    called = _table(_table(triggers.get("workflow_call")).get("outputs"))
    return Workflow(
        path=path,
        name=found.get("name", path),
        title=found.get("run-name", found.get("name", path)),
        triggers=triggers,
        permissions=permissions,
        jobs=tuple(_job(name, job, permissions) for name, job in found.get("jobs", {}).items()),
        outputs={name: told["value"] for name, told in called.items()},
    )


def read_action(text: str, path: str) -> CompositeAction:
    found = _parsed(text, path)
    return CompositeAction(
        defaults={name: _table(told).get("default", "") for name, told in _table(found.get("inputs")).items()},
        outputs={name: told["value"] for name, told in _table(found.get("outputs")).items()},
        steps=_steps(_table(found.get("runs")).get("steps", [])),
    )


@lru_cache(maxsize=64)  # what a commit holds never changes
def _texts(place: Path, commit: CommitSha) -> tuple[tuple[str, str], ...]:
    repo = Repo(place)
    files = [entry for entry in repo.entries(commit, FOLDER) if entry.is_file]
    wanted = [entry for entry in files if PurePosixPath(entry.path).suffix in (".yml", ".yaml")]
    return tuple((entry.path, repo.blob(entry).decode()) for entry in wanted)


def workflows_at(repo: Repo, commit: CommitSha) -> dict[str, Workflow]:
    """The workflow files of one commit, by path."""
    return {path: read_workflow(text, path) for path, text in _texts(repo.path, commit)}
