"""`kernelwright rehearse`: one's own repository on an embedded GitHub, from an empty folder to the first answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli.entry import cli
from bot.errors import UserError
from bot.render import workflows
from tests.zones.conversation import PATH, sample_files

GIT = ("git", "-c", "user.name=dana", "-c", "user.email=dana@example.org")
ACTION = "kernels/kernelwright@" + "a" * 40


def git(repo: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=repo, check=True, capture_output=True)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """What the install page has one do, up to the commit."""
    repo = tmp_path / "library"
    for name, content in sample_files().items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(content)
    git(repo, "init", "--quiet", "--initial-branch", "main")
    done = CliRunner().invoke(cli, ["init", "--repo", str(repo), "--action", ACTION], standalone_mode=False)
    assert done.return_value == 0
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "Kernels")
    return repo


def change(library: Path) -> None:
    git(library, "switch", "--quiet", "-c", "try-it")
    (library / PATH).write_text("# Reviewed.\n" + (library / PATH).read_text())
    git(library, "commit", "--quiet", "--all", "-m", "Say so")
    git(library, "switch", "--quiet", "main")


def rehearse(library: Path, *words: str) -> tuple[int, str]:
    out = str(library.parent / "out")
    command = [sys.executable, "-m", "bot", "rehearse", "--repo", str(library), "--out", out, "--evidence", "static"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def test_from_an_empty_folder_to_the_first_answer(library: Path) -> None:
    change(library)
    before = subprocess.run(["git", "for-each-ref"], cwd=library, capture_output=True, text=True).stdout
    code, said = rehearse(library, "--comment", "/optimize list")
    assert code == 0, said
    assert "/you/library/pull/1" in said
    assert "This pull request touches `rms_norm`" in said
    after = subprocess.run(["git", "for-each-ref"], cwd=library, capture_output=True, text=True).stdout
    assert before == after, "nothing in the repository is changed"
    assert (library.parent / "out" / ".gitignore").read_text() == "*\n", "and it cannot be committed by accident"


def refused(library: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        words = ["rehearse", "--repo", str(library), "--out", str(library.parent / "out"), "--comment", "x"]
        CliRunner().invoke(cli, words, catch_exceptions=False, standalone_mode=False)
    return caught.value


def test_without_a_branch_it_says_how_to_make_one(library: Path) -> None:
    error = refused(library)
    assert "no branch" in str(error) and "git switch -c" in error.hint


def test_without_workflows_it_names_init(library: Path) -> None:
    change(library)
    git(library, "rm", "--quiet", "-r", ".github")
    git(library, "commit", "--quiet", "-m", "No workflows")
    assert "kernelwright init" in refused(library).hint


def test_an_empty_repository_is_told_to_commit_first(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    assert "git commit" in refused(empty).hint


def test_a_folder_of_somebody_s_is_left_alone(library: Path) -> None:
    (library.parent / "out").mkdir()
    (library.parent / "out" / "thesis.tex").write_text("mine")
    assert "holds no earlier rehearsal" in str(refused(library))
    assert (library.parent / "out" / "thesis.tex").read_text() == "mine"


def test_the_workflows_it_plays_are_those_that_init_wrote(library: Path) -> None:
    pages = {path.name for path in (library / ".github" / "workflows").iterdir()}
    assert pages == set(workflows.names())
