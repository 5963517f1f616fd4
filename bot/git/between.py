"""The commits between two points of a branch that touched some files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from bot.git.names import check_sha
from bot.git.run import run

MOST = 200
FORMAT = "%H%x00%s"


@dataclass(frozen=True, slots=True)
class Named:
    sha: str
    subject: str


def commits_between(folder: Path, older: str, newer: str, paths: Collection[str]) -> tuple[Named, ...]:
    """What `newer` has and `older` has not, newest first and at most MOST."""
    asked = ("log", f"--max-count={MOST}", f"--format={FORMAT}", f"{check_sha(older)}..{check_sha(newer)}")
    listed = run(folder, (*asked, "--", *sorted(paths))).or_raise().text.splitlines()
    return tuple(Named(sha, subject) for sha, _, subject in (line.partition("\0") for line in listed))
