"""Refs read from the files of a bare repository: whatever git did to them, git and we see the same ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bot.git.repo import Repo
from bot.localhub.history import History
from bot.localhub.refs import read_refs

WHO = ("Dana", "dana@example.org")
AT = "2026-11-21T10:00:00Z"


class Bare:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.repo = Repo.init(path, bare=True)
        self.one = self.commit("one")
        self.two = self.commit("two")

    def commit(self, text: str) -> str:
        return self.repo.commit_files(None, {"a": text.encode()}, f"{text}\n", author=WHO, date=AT)

    def git(self, *words: str) -> str:
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        environment |= {"GIT_COMMITTER_NAME": WHO[0], "GIT_COMMITTER_EMAIL": WHO[1]}
        return subprocess.run(
            ("git", *words), cwd=self.path, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def set(self, ref: str, sha: str) -> None:
        self.git("update-ref", ref, sha)

    def by_git(self) -> dict[str, str]:
        lines = self.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        return {name: sha for sha, _, name in (line.partition(" ") for line in lines)}

    def same(self) -> dict[str, str]:
        """What both see."""
        found = read_refs(self.path)
        assert found == self.by_git()
        assert list(found) == list(self.by_git())
        return found


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path / "a.git")


def test_a_new_repository_has_none(bare: Bare) -> None:
    assert bare.same() == {}


def test_loose_ones_in_folders_of_any_depth(bare: Bare) -> None:
    names = ("refs/heads/main", "refs/heads/a/b/c/d", "refs/pull/1/head", "refs/tags/v1", "refs/heads/ünïcode")
    for name in names:
        bare.set(name, bare.one)
    assert bare.same() == dict.fromkeys(names, bare.one)


def test_packed_ones(bare: Bare) -> None:
    bare.set("refs/heads/main", bare.one)
    bare.set("refs/pull/7/head", bare.two)
    bare.git("pack-refs", "--all")
    assert not (bare.path / "refs/heads/main").exists(), "git packed it"
    assert bare.same() == {"refs/heads/main": bare.one, "refs/pull/7/head": bare.two}


def test_a_loose_one_counts_more_than_a_packed_one(bare: Bare) -> None:
    bare.set("refs/heads/main", bare.one)
    bare.git("pack-refs", "--all")
    bare.set("refs/heads/main", bare.two)
    assert "refs/heads/main" in (bare.path / "packed-refs").read_text() and (bare.path / "refs/heads/main").exists()
    assert bare.same() == {"refs/heads/main": bare.two}


@pytest.mark.parametrize("packed", [False, True])
def test_a_deleted_one_is_gone(bare: Bare, packed: bool) -> None:
    bare.set("refs/heads/main", bare.one)
    bare.set("refs/heads/x/gone", bare.one)
    if packed:
        bare.git("pack-refs", "--all")
    bare.git("update-ref", "-d", "refs/heads/x/gone")
    assert bare.same() == {"refs/heads/main": bare.one}


def test_a_tag_with_words_is_shown_itself_not_what_it_is_of(bare: Bare) -> None:
    bare.git("tag", "--annotate", "--message", "words", "v2", bare.one)
    bare.git("pack-refs", "--all")
    assert "\n^" in (bare.path / "packed-refs").read_text(), "git wrote what the tag is of on a line of its own"
    assert bare.same()["refs/tags/v2"] != bare.one


def test_a_symbolic_one_points_where_its_target_points(bare: Bare) -> None:
    bare.set("refs/heads/main", bare.one)
    bare.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    bare.git("symbolic-ref", "refs/heads/again", "refs/heads/alias")
    bare.git("symbolic-ref", "HEAD", "refs/heads/main")
    assert bare.same()["refs/heads/again"] == bare.one
    bare.git("pack-refs", "--all")
    assert bare.same()["refs/heads/again"] == bare.one
    assert "HEAD" not in bare.same(), "it stands beside refs/, not in it"


def test_a_symbolic_one_that_leads_nowhere_is_none(bare: Bare) -> None:
    bare.git("symbolic-ref", "refs/heads/alias", "refs/heads/absent")
    assert read_refs(bare.path) == bare.by_git() == {}


def test_a_ring_of_symbolic_ones_ends(bare: Bare) -> None:
    for name, target in (("a", "b"), ("b", "a")):
        (bare.path / f"refs/heads/{name}").write_text(f"ref: refs/heads/{target}\n")
    assert read_refs(bare.path) == {}


def test_a_lock_and_a_broken_file_are_no_refs(bare: Bare) -> None:
    bare.set("refs/heads/main", bare.one)
    (bare.path / "refs/heads/main.lock").write_text(f"{bare.two}\n")
    (bare.path / "refs/heads/cut").write_text(bare.two[:20])
    assert read_refs(bare.path) == bare.by_git() == {"refs/heads/main": bare.one}


def test_a_repository_with_a_table_of_refs_is_read_by_git(bare: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.set("refs/heads/main", bare.one)
    history, ours = History(bare.path), "bot.localhub.history.read_refs"
    monkeypatch.setattr(ours, lambda _: {"refs/heads/read": bare.two})
    assert history.heads() == {"refs/heads/read": bare.two}
    (bare.path / "reftable").mkdir()
    assert history.heads() == {"refs/heads/main": bare.one}


def test_a_folder_that_is_gone_has_none(tmp_path: Path) -> None:
    assert read_refs(tmp_path / "deleted-fork.git") == {}
