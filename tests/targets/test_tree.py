from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.git.repo import Repo
from bot.targets import tree as tree_module
from bot.targets.tree import DirectoryTree, TreeReader, read_text
from tests.targets.shelf import lay_out

FILES = {"README.md": "hello\n", "src/pkg/op.py": "x = 1\n", "src/pkg/deep/a.txt": "", ".git/config": "[core]\n"}


def trees(root: Path) -> list[TreeReader]:
    """The same files in a folder and in a commit."""
    folder = lay_out(root / "folder", FILES)
    repo = Repo.init(root / "repo")
    content = {path: text.encode() for path, text in FILES.items() if not path.startswith(".git/")}
    sha = repo.commit_files(None, content, "m", author=("A", "a@b"), date="2026-01-01T00:00:00Z")
    return [folder, repo.at(sha)]


@pytest.mark.parametrize("which", [0, 1])
def test_a_folder_and_a_commit_read_alike(tmp_path: Path, which: int) -> None:
    tree = trees(tmp_path)[which]
    assert tree.read("src/pkg/op.py") == b"x = 1\n" and tree.read("src/pkg/deep/a.txt") == b""
    assert tree.exists("README.md") and not tree.exists("src") and not tree.exists("nope")
    assert tree.read("src") is tree.read("nope") is tree.read("README.md/x") is None
    assert tree.list() == ("README.md", "src/pkg/deep/a.txt", "src/pkg/op.py")
    assert tree.list("src/pkg/deep") == tree.list("src/pkg/deep/") == ("src/pkg/deep/a.txt",)
    assert tree.list("nope") == tree.list("sr") == ()


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "path", ["../folder/README.md", "./README.md", "src/../README.md", "/README.md", "src//pkg/op.py", "", "a\0b"]
)
def test_roundabout_ways_lead_nowhere(tmp_path: Path, which: int, path: str) -> None:
    tree = trees(tmp_path)[which]
    assert tree.read(path) is None and not tree.exists(path)


def test_an_absolute_path_leads_nowhere(tmp_path: Path) -> None:
    tree = lay_out(tmp_path, FILES)
    assert tree.read(str(tmp_path / "README.md")) is None
    assert tree.list("..") == tree.list("/") == ()


def test_links_are_missing(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("sesame")
    tree = lay_out(tmp_path / "tree", FILES)
    (tmp_path / "tree" / "file").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "tree" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "tree" / "inside").symlink_to("README.md")
    for path in ("file", "folder/key", "inside"):
        assert tree.read(path) is None and not tree.exists(path)
    assert tree.list("folder") == ()
    assert set(tree.list()) == set(FILES) - {".git/config"}


def test_what_is_no_file_does_not_hang_the_reader(tmp_path: Path) -> None:
    tree = lay_out(tmp_path, FILES)
    os.mkfifo(tmp_path / "pipe")
    assert tree.read("pipe") is None and not tree.exists("pipe") and "pipe" not in tree.list()


def test_a_file_too_large_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = lay_out(tmp_path, {"a": "12345"})
    monkeypatch.setattr(tree_module, "MAX_FILE", 5)
    assert tree.read("a") == b"12345" and read_text(tree, "a") == "12345"
    monkeypatch.setattr(tree_module, "MAX_FILE", 4)
    assert tree.read("a") is None and read_text(tree, "a") is None


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff")
    assert DirectoryTree(tmp_path).read("a") == b"\xff"
    assert read_text(DirectoryTree(tmp_path), "a") is None
