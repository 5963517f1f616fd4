"""`kernelwright rehearse`: one's own repository on an embedded GitHub, from an empty folder to the first answer."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli.entry import cli
from bot.cli.rehearse import RUN_LINK
from bot.errors import UserError
from bot.model.reasons import ReasonCode
from bot.render import links, workflows
from tests.patience import wait_for
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


def test_what_is_played_and_where_it_lies_is_said_before_anything_happens(library: Path) -> None:
    change(library)
    code, said = rehearse(library, "--comment", "hello")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=library, capture_output=True, text=True).stdout
    out = library.parent / "out"
    assert code == 0
    assert said.splitlines()[:2] == [
        f"plays the workflows and the kernelwright.toml of {head[:7]}; evidence: static",
        f"all of it lies in {out}; what each job said: {out}/jobs/*/log.txt",
    ]
    assert re.fullmatch(r"  try-it: http://127\.0\.0\.1:\d+/you/library/pull/1", said.splitlines()[2])
    assert said.splitlines()[3:] == ["nobody answered: there is no /optimize in it"]


def test_what_is_answered_leads_to_files_and_not_to_pages_that_are_gone() -> None:
    link = str(links.link("run", "http://127.0.0.1:8000/you/library/actions/runs/5"))
    assert RUN_LINK.sub("run: x", f"[record](y) · {link} · z") == "[record](y) · run: x · z"


def test_a_line_is_printed_when_a_job_begins_and_when_it_ends(library: Path) -> None:
    change(library)
    code, said = rehearse(library, "--comment", "/optimize rms_nrm")
    assert code == 0, "whatever the answer"
    assert len(list((library.parent / "out" / "jobs").glob("001-*/log.txt"))) == 1, "found by its number"
    assert re.search(r"^  \d{3} decide +begins  reading what was written$", said, re.MULTILINE)
    assert re.search(r"^  \d{3} decide +\d+\.\d s  \w+", said, re.MULTILINE)


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return str(answer.read().decode())


def test_the_start_page_shows_the_campaign_and_how_to_start_another_rehearsal(library: Path) -> None:
    change(library)
    command = [sys.executable, "-m", "bot", "rehearse", "--repo", str(library), "--out", str(library.parent / "out")]
    with subprocess.Popen([*command, "--evidence", "static"], stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        try:
            line = next(line for line in served.stderr if "try-it: " in line)
            address = line.partition(": ")[2].strip()
            assert "Ctrl-C ends the rehearsal" in next(served.stderr)
            start = address.partition("/you/")[0]
            wait_for(lambda: "<code>kernelwright rehearse</code> starts another" in page(start))
            before = page(start)
            assert "No campaign so far" in before and "demo" not in before
            assert "/optimize rms_norm" in page(address), "the kernel that the branch touches is suggested"
            words = urllib.parse.urlencode({"as": "you", "body": "/optimize rms_norm"}).encode()
            said = urllib.request.Request(f"{address}/say", words, {"Origin": start})
            urllib.request.urlopen(said, timeout=10).close()
            wait_for(lambda: "No campaign so far" not in page(start))
            assert '<a href="/you/library/pull/1">#1</a>: ' in page(start)
        finally:
            served.terminate()
            served.stderr.read()


def refused(library: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        words = ["rehearse", "--repo", str(library), "--out", str(library.parent / "out"), "--comment", "x"]
        CliRunner().invoke(cli, words, catch_exceptions=False, standalone_mode=False)
    return caught.value


def test_without_a_branch_it_says_how_to_make_one(library: Path) -> None:
    error = refused(library)
    assert "no branch" in str(error) and "git switch -c" in error.hint
    assert error.reason is ReasonCode.NOT_FOUND


def test_without_workflows_it_names_init(library: Path) -> None:
    change(library)
    git(library, "rm", "--quiet", "-r", ".github")
    git(library, "commit", "--quiet", "-m", "No workflows")
    assert "kernelwright init" in refused(library).hint


def test_an_empty_repository_is_told_to_commit_first(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    error = refused(empty)
    assert "git commit" in error.hint and error.reason is ReasonCode.NOT_FOUND


def test_a_folder_of_somebody_s_is_left_alone(library: Path) -> None:
    (library.parent / "out").mkdir()
    (library.parent / "out" / "thesis.tex").write_text("mine")
    assert "holds no earlier rehearsal" in str(refused(library))
    assert (library.parent / "out" / "thesis.tex").read_text() == "mine"


def test_the_workflows_it_plays_are_those_that_init_wrote(library: Path) -> None:
    pages = {path.name for path in (library / ".github" / "workflows").iterdir()}
    assert pages == set(workflows.names())
