"""What a clone must do, by git and in memory: the storm trusts the one in memory to behave like the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.errors import Conflict, GitError
from bot.git.local import set_branch
from bot.git.repo import Repo
from tests.fakes.git import FakeRepo, Server

AUTHOR, DATE = ("mira", "mira@example.org"), "2026-01-02T03:04:05Z"
FILES = {"README.md": b"hello\n", "src/a.py": b"a = 1\n", "src/deep/b.py": b"b = 1\n"}
TOPIC = "refs/heads/topic"


class GitSide:
    def __init__(self, folder: Path) -> None:
        self._folder, self._clones = folder, 0
        self.server = Repo.init(folder / "server", bare=True)

    def set(self, branch: str, sha: str) -> None:
        set_branch(self.server.path, branch, sha)

    def clone(self) -> Any:
        self._clones += 1
        return Repo.clone(str(self.server.path), self._folder / f"clone-{self._clones}", bare=True)


class FakeSide:
    def __init__(self) -> None:
        self._server = Server()
        self.server = FakeRepo(self._server)

    def set(self, branch: str, sha: str) -> None:
        self._server.refs[f"refs/heads/{branch}"] = sha

    def clone(self) -> Any:
        return FakeRepo(self._server)


@pytest.fixture(params=["fake", "git"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any = FakeSide() if request.param == "fake" else GitSide(tmp_path)
    base = made.server.commit_files(None, FILES, "Begin\n", author=AUTHOR, date=DATE)
    made.set("main", base)
    made.set("topic", made.server.commit_files(base, {"src/a.py": b"a = 2\n"}, "Tune\n", author=AUTHOR, date=DATE))
    yield made


def commit(repo: Any, parent: str, text: str, path: str = "src/a.py") -> str:
    made: str = repo.commit_files(parent, {path: text.encode()}, f"{text}\n", author=AUTHOR, date=DATE)
    return made


def test_names_become_commits(side: Any) -> None:
    repo = side.clone()
    topic = repo.resolve("topic")
    assert repo.resolve(topic) == repo.resolve(topic[:10]) == repo.resolve(TOPIC) == topic
    assert repo.resolve("HEAD") == repo.resolve("main") != topic
    assert repo.resolve("gone") is repo.resolve("0" * 40) is repo.resolve("abcdef0") is None


def test_files_are_read(side: Any) -> None:
    repo = side.clone()
    assert (repo.read("topic", "src/a.py"), repo.read("HEAD", "src/a.py")) == (b"a = 2\n", b"a = 1\n")
    assert [repo.read("topic", path) for path in ("gone", "src", "src/gone", "")] == [None] * 4
    assert repo.list("topic") == ("README.md", "src/a.py", "src/deep/b.py")
    assert repo.list("topic", "src") == ("src/a.py", "src/deep/b.py")
    tree = repo.at("topic")
    assert (tree.exists("src/a.py"), tree.exists("src"), tree.read("README.md")) == (True, False, b"hello\n")
    with pytest.raises(GitError):
        repo.read("0" * 40, "README.md")


def test_entries_shallow_and_deep(side: Any) -> None:
    repo = side.clone()

    def seen(*paths: str, deep: bool) -> list[tuple[str, bool]]:
        return [(entry.path, entry.is_folder) for entry in repo.entries("topic", *paths, deep=deep)]

    assert seen(deep=True) == [("README.md", False), ("src/a.py", False), ("src/deep/b.py", False)]
    assert seen("src", deep=True) == seen("src/", deep=True) == [("src/a.py", False), ("src/deep/b.py", False)]
    assert seen("src", deep=False) == [("src", True)]
    assert [row for row in seen("src/", deep=False) if row[0] != "src"] == [("src/a.py", False), ("src/deep", True)]
    assert seen("gone", deep=False) == []
    entry = repo.entry("topic", "src/deep/b.py")
    assert (entry.is_file, entry.size, repo.blob(entry)) == (True, 6, b"b = 1\n")
    assert (repo.entry("topic", "src").is_folder, repo.entry("topic", "src/gone")) == (True, None)


def test_the_same_commit_twice_is_one(side: Any) -> None:
    one, other = side.clone(), side.clone()
    main = one.resolve("main")
    assert commit(one, main, "x") == commit(other, main, "x") != commit(one, main, "y")
    made = commit(one, main, "x")
    assert (one.parents(made), one.message(made)) == ((main,), "x\n")
    assert one.changed(main, made) == ("src/a.py",)
    assert one.changed(made, commit(one, made, "new", "src/c.py")) == ("src/c.py",)
    assert one.is_ancestor(main, made) and one.is_ancestor(made, made) and not one.is_ancestor(made, main)


def test_a_push_with_the_right_lease_arrives(side: Any) -> None:
    repo = side.clone()
    topic = repo.resolve("topic")
    made = commit(repo, topic, "x")
    repo.push(TOPIC, made, expect=topic)
    assert repo.remote_sha(TOPIC) == side.clone().resolve("topic") == made
    repo.push(TOPIC, made, expect=topic)
    repo.push("refs/heads/fresh", made, expect=None)
    assert repo.remote_sha("refs/heads/fresh") == made


def test_a_push_with_a_wrong_lease_does_not(side: Any) -> None:
    one, other = side.clone(), side.clone()
    topic = one.resolve("topic")
    other.push(TOPIC, commit(other, topic, "theirs"), expect=topic)
    for expect in (topic, None, one.resolve("main")):
        with pytest.raises(Conflict):
            one.push(TOPIC, commit(one, topic, "ours"), expect=expect)
    assert one.remote_sha(TOPIC) == commit(other, topic, "theirs")
    with pytest.raises(Conflict):
        one.push("refs/heads/fresh", topic, expect=topic)
    with pytest.raises(GitError):
        one.push("topic", topic, expect=topic)


def test_a_clone_sees_what_others_did_when_it_fetches(side: Any) -> None:
    one, other = side.clone(), side.clone()
    topic = one.resolve("topic")
    made = commit(other, topic, "theirs")
    other.push(TOPIC, made, expect=topic)
    assert (one.resolve("topic"), one.remote_sha(TOPIC), one.remote_sha("refs/heads/gone")) == (topic, made, None)
    one.fetch(f"+{TOPIC}:refs/kernelwright/there")
    assert (one.resolve("refs/kernelwright/there"), one.resolve("topic")) == (made, topic)
    one.fetch("+refs/heads/*:refs/heads/*")
    assert one.resolve("topic") == made
    one.fetch(made)
    with pytest.raises(GitError):
        one.fetch("+refs/heads/gone:refs/heads/gone")


def test_a_tree_on_disk(side: Any, tmp_path: Path) -> None:
    side.clone().export("topic", tmp_path / "tree")
    assert (tmp_path / "tree/src/a.py").read_bytes() == b"a = 2\n"
    assert (tmp_path / "tree/src/deep/b.py").is_file()
