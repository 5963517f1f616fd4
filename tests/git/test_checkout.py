from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import GitError
from bot.git.repo import Repo
from tests.git.world import World, git, raw_commit


def test_a_worktree_comes_and_goes(world: World) -> None:
    with world.repo.worktree("main", world.root / "tree") as tree:
        assert (tree / "src" / "op.py").read_bytes() == b"x = 1\n"
        assert git(tree, "status", "--porcelain") == ""
    assert not tree.exists()
    assert str(tree) not in git(world.repo.path, "worktree", "list")


def test_it_goes_even_when_the_work_in_it_fails(world: World) -> None:
    with pytest.raises(RuntimeError), world.repo.worktree("main", world.root / "tree") as tree:
        (tree / "README.md").write_text("changed")
        (tree / ".git").unlink()
        raise RuntimeError
    assert not (world.root / "tree").exists()
    with world.repo.worktree("main", world.root / "tree") as tree:
        assert (tree / "README.md").read_text() == "hello\n"


def test_what_a_killed_job_left_is_replaced(world: World) -> None:
    git(world.repo.path, "worktree", "add", "-q", "--detach", str(world.root / "tree"), world.base)
    (world.root / "tree" / "README.md").write_text("half done")
    with world.repo.worktree("main", world.root / "tree") as tree:
        assert (tree / "README.md").read_text() == "hello\n"


def test_a_folder_that_is_no_worktree_is_left_alone(world: World) -> None:
    (world.root / "mine").mkdir()
    (world.root / "mine" / "thesis").write_text("years of work")
    with pytest.raises(GitError), world.repo.worktree("main", world.root / "mine"):
        pass
    assert (world.root / "mine" / "thesis").read_text() == "years of work"


def hostile(world: World) -> str:
    entries = [
        ("120000", "link", b"/etc/passwd"),
        ("120000", "up", b".."),
        ("100644", ".gitattributes", b"*.bin filter=lfs\n*.py filter=evil diff=evil merge=evil\n"),
        ("100644", "a.bin", b"version https://git-lfs.github.com/spec/v1\n"),
        ("160000", "sub", b"1" * 40),
        ("100644", ".gitmodules", b'[submodule "sub"]\n\tpath = sub\n\turl = https://example.com/x\n'),
    ]
    return raw_commit(world.repo.path, "refs/heads/evil", entries)


def check_tamed(tree: Path) -> None:
    assert not (tree / "link").is_symlink() and (tree / "link").read_bytes() == b"/etc/passwd"
    assert not (tree / "up").is_symlink()
    assert (tree / "a.bin").read_bytes().startswith(b"version https://git-lfs")
    assert not (tree / "sub").exists() or not any((tree / "sub").iterdir())


def test_a_hostile_tree_is_only_files(world: World) -> None:
    git(world.repo.path, "config", "filter.lfs.smudge", f"touch {world.root}/ran-lfs")
    git(world.repo.path, "config", "filter.lfs.required", "true")
    sha = hostile(world)
    with world.repo.worktree(sha, world.root / "tree") as tree:
        check_tamed(tree)
    world.repo.export(sha, world.root / "plain")
    check_tamed(world.root / "plain")
    assert not list(world.root.glob("ran-*"))


def test_an_export_has_no_way_back_to_the_repository(world: World) -> None:
    world.repo.export("main", world.root / "plain")
    found = sorted(path.relative_to(world.root / "plain").as_posix() for path in (world.root / "plain").rglob("*"))
    assert found == ["README.md", "src", "src/op.py"]
    assert not (world.repo.path / "index").exists()


def test_an_export_of_a_repository_with_a_work_tree(world: World) -> None:
    work = Repo.clone(str(world.server.path), world.root / "work")
    (work.path / "README.md").write_text("not committed")
    work.export("HEAD", world.root / "plain")
    assert (world.root / "plain" / "README.md").read_text() == "hello\n"
    assert (work.path / "README.md").read_text() == "not committed"


def test_an_export_is_whole_or_not_there(world: World) -> None:
    evil = raw_commit(world.repo.path, "refs/heads/evil", [("100644", "a", b""), ("100644", ".git/config", b"[core]")])
    with pytest.raises(GitError):
        world.repo.export(evil, world.root / "plain")
    assert not (world.root / "plain").exists()
    (world.root / "there").mkdir()
    with pytest.raises(GitError, match="already"):
        world.repo.export("main", world.root / "there")


@pytest.mark.parametrize("rev", ["nope", "1" * 40])
def test_a_commit_that_is_not_here(world: World, rev: str) -> None:
    with pytest.raises(GitError, match="no commit"):
        world.repo.export(rev, world.root / "plain")
    with pytest.raises(GitError, match="no commit"), world.repo.worktree(rev, world.root / "tree"):
        pass
