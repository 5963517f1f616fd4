"""What only a checkout on this machine has: a current branch, changes nobody committed, branches of its own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from bot.git.names import check_ref, check_sha
from bot.git.run import run


def git_dir(folder: Path) -> Path:
    """Where git keeps its files; for a linked worktree that is not the folder `.git`."""
    return Path(run(folder, ("rev-parse", "--path-format=absolute", "--git-common-dir")).or_raise().text.strip())


def current_branch(folder: Path) -> str | None:
    """None when no branch is checked out."""
    ran = run(folder, ("symbolic-ref", "--quiet", "--short", "HEAD"))
    return ran.text.strip() if ran.code == 0 else None


def dirty(folder: Path, paths: Collection[str]) -> tuple[str, ...]:
    """Which of these paths differ from HEAD, staged or not."""
    ran = run(folder, ("diff", "--name-only", "-z", "--no-ext-diff", "HEAD", "--", *sorted(paths)))
    return tuple(ran.or_raise().text.split("\0")[:-1])


def set_branch(folder: Path, branch: str, sha: str) -> None:
    """Point a branch of this repository at a commit."""
    run(folder, ("update-ref", f"refs/heads/{check_ref(branch)}", check_sha(sha))).or_raise()
