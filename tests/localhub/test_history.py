"""What is computed from git, with file names and contents as strange as git allows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bot.localhub.history import History

WHO = {
    "GIT_AUTHOR_NAME": "Dana",
    "GIT_AUTHOR_EMAIL": "dana@example.org",
    "GIT_COMMITTER_NAME": "Dana",
    "GIT_COMMITTER_EMAIL": "dana@example.org",
    "GIT_AUTHOR_DATE": "2026-11-21T10:00:00Z",
    "GIT_COMMITTER_DATE": "2026-11-21T10:00:00Z",
}


class Tree:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        environment = {**os.environ, **WHO, "GIT_CONFIG_GLOBAL": os.devnull}
        return subprocess.run(
            ("git", *words), cwd=self.path, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


def test_each_kind_of_change(tree: Tree) -> None:
    long = "".join(f"line {count}\n" for count in range(30))
    for name in ("kept.py", "gone.py", "moved.py"):
        (tree.path / name).write_text(long + name)
    before = tree.commit("Begin")
    (tree.path / "gone.py").unlink()
    (tree.path / "moved.py").rename(tree.path / "there.py")
    (tree.path / "kept.py").write_text(long.replace("line 3\n", "line three\n") + "kept.py\n")
    (tree.path / "new ä\t.py").write_text("x = 1\n")
    (tree.path / "empty.py").write_text("")
    (tree.path / "data.bin").write_bytes(bytes(range(256)))
    after = tree.commit("Change")
    found = {change.path: change for change in History(tree.path).files(before, after)}
    assert {path: change.status for path, change in found.items()} == {
        "data.bin": "added",
        "empty.py": "added",
        "gone.py": "removed",
        "kept.py": "modified",
        "new ä\t.py": "added",
        "there.py": "renamed",
    }
    assert found["there.py"].previous == "moved.py"
    assert (found["kept.py"].additions, found["kept.py"].deletions) == (2, 2)
    assert found["gone.py"].deletions == 31
    assert found["new ä\t.py"].patch == "@@ -0,0 +1 @@\n+x = 1"
    assert found["data.bin"].patch == found["empty.py"].patch == found["there.py"].patch == ""
    assert found["kept.py"].blob == tree.git("rev-parse", "HEAD:kept.py")


def test_a_line_that_looks_like_a_header_is_only_a_line(tree: Tree) -> None:
    (tree.path / "a.txt").write_text("diff --git a/x b/x\n@@ -1 +1 @@\n")
    before = tree.commit("Begin")
    (tree.path / "a.txt").write_text("diff --git a/y b/y\n@@ -2 +2 @@\n")
    (tree.path / "b.txt").write_text("--- a/x\n+++ b/x\n")
    first, second = History(tree.path).files(before, tree.commit("Change"))
    assert (first.additions, first.deletions) == (2, 2)
    assert second.patch == "@@ -0,0 +1,2 @@\n+--- a/x\n++++ b/x"


def test_commits_come_oldest_first_with_their_whole_message(tree: Tree) -> None:
    base = tree.commit("Begin")
    first, second = tree.commit("One\n\nWhy.\n\nSigned-off-by: x"), tree.commit("Two")
    one, two = History(tree.path).commits(base, second)
    assert (one.sha, one.title, one.message) == (first, "One", "One\n\nWhy.\n\nSigned-off-by: x")
    assert (two.sha, two.name, two.email) == (second, "Dana", "dana@example.org")
    assert History(tree.path).commits(second, second) == []


def test_a_commit_that_is_not_there(tree: Tree) -> None:
    made, history = tree.commit("Begin"), History(tree.path)
    assert history.is_commit(made)
    assert not history.is_commit("0" * 40)
    assert not history.is_commit(tree.git("rev-parse", "HEAD^{tree}"))
    assert history.file("0" * 40, "a.py") is None
