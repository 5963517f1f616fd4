"""Files of a commit on disk: a work tree that goes away again, or a plain folder."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bot.errors import GitError
from bot.git.run import run


@contextlib.contextmanager
def worktree(repo: Path, sha: str, path: Path) -> Iterator[Path]:
    """A checkout of its own for one commit, gone afterwards. What a killed job left at `path` is replaced."""
    path = path.resolve()
    if (path / ".git").is_file():
        shutil.rmtree(path)
    run(repo, ("worktree", "add", "--quiet", "--force", "--detach", str(path), sha)).or_raise()
    try:
        yield path
    finally:
        # No git command runs inside: hostile tests were there before us.
        shutil.rmtree(path, ignore_errors=True)
        run(repo, ("worktree", "prune"))


def export(repo: Path, sha: str, path: Path) -> None:
    """The files of one commit in a plain folder, with no way back to the repository. All of them or none."""
    path = path.resolve()
    if path.exists():
        raise GitError(f"there is something at {path} already", hint="export into a new folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    git_dir = run(repo, ("rev-parse", "--absolute-git-dir")).or_raise().text.strip()
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        extra = {"GIT_DIR": git_dir, "GIT_INDEX_FILE": f"{scratch}/index", "GIT_WORK_TREE": str(tree)}
        run(repo, ("read-tree", sha), extra=extra).or_raise()
        run(repo, ("checkout-index", "--quiet", "--all", f"--prefix={tree}/"), extra=extra).or_raise()
        tree.rename(path)
