"""A machine for the page: it plays the workflow files, its bench answers at once, and its GPU runner can be held."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bot.cli.local_runner import runner_of
from bot.localhub.runner import Runner
from bot.localhub.server import Hub

HELD = """#!/bin/sh
while [ -e '{mark}' ]; do sleep 0.05; done
exec '{python}' "$@"
"""
"""The Python of the measuring job."""


@dataclass(frozen=True)
class GpuRunner:
    """Where the measuring job's Python waits while there is a mark."""

    folder: Path

    @property
    def mark(self) -> Path:
        return self.folder / "held"

    def hold(self) -> None:
        self.mark.touch()

    def machine(self, hub: Hub, jobs: Path, python: Path) -> Runner:
        """`python`: what a job gets when nobody holds it."""
        held = self.folder / "python"
        held.write_text(HELD.format(mark=self.mark, python=python), encoding="utf-8")
        held.chmod(0o755)
        return runner_of(hub, jobs, evidence="static", python=str(held), hosted_python=str(python))
