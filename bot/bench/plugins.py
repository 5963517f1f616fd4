"""What a repository's own pytest loads of ours, by name: it lies in `templates/pytest`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from bot.render.environment import templates_dir

PYTEST = ("{python}", "-m", "pytest")


def is_pytest(command: Sequence[str]) -> bool:
    return tuple(command[: len(PYTEST)]) == PYTEST


def findable(environment: Mapping[str, str]) -> dict[str, str]:
    """The same, with the folder behind what the target has on its path."""
    ours = str(templates_dir() / "pytest")
    theirs = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part and part != ours]
    return {**environment, "PYTHONPATH": os.pathsep.join((*theirs, ours))}
