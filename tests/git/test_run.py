from __future__ import annotations

import base64
import os
import stat
import time
from pathlib import Path

import pytest

from bot.errors import GitError, OperatorError
from bot.git.repo import Repo
from bot.git.run import MAX_ERROR, run, scrub, token_config
from tests.git.world import World, git
from tests.patience import wait_until_gone

TOKEN = "ghs_sesame0pen"
ENCODED = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


def fake_git(folder: Path, script: str) -> str:
    """A PATH whose git is a shell script."""
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_token_is_in_the_environment_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    report = f'tr "\\0" "\\n" </proc/$$/cmdline >>{seen}.argv; env >>{seen}.env; echo https://example.com/a/b.git'
    monkeypatch.setenv("PATH", fake_git(tmp_path / "bin", report))
    Repo(tmp_path, token=TOKEN).fetch("refs/heads/main")
    argv, environment = Path(f"{seen}.argv").read_text(), Path(f"{seen}.env").read_text()
    assert TOKEN not in argv and ENCODED not in argv and "refs/heads/main" in argv
    assert f"Authorization: Basic {ENCODED}" in environment
    assert "=http.https://example.com/.extraHeader" in environment


def test_only_calls_to_the_server_hold_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", fake_git(tmp_path / "bin", f"env >>{tmp_path}/env; exit 0"))
    Repo(tmp_path, token=TOKEN).resolve("main")
    assert ENCODED not in (tmp_path / "env").read_text()


def test_the_environment_of_the_caller_stays_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GIT_DIR",
        "GIT_TRACE_CURL",
        "GIT_SSH_COMMAND",
        "GIT_EXTERNAL_DIFF",
        "GH_TOKEN",
        "GIT_CONFIG_PARAMETERS",
    ):
        monkeypatch.setenv(name, "hostile")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("PATH", fake_git(tmp_path / "bin", "env"))
    shown = run(tmp_path, ["version"]).text
    assert "hostile" not in shown
    assert "https_proxy=http://proxy:3128" in shown
    assert "GIT_TERMINAL_PROMPT=0" in shown and "GIT_CONFIG_GLOBAL=/dev/null" in shown


@pytest.mark.parametrize("secret", [TOKEN, ENCODED])
def test_an_error_never_repeats_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv(
        "PATH", fake_git(tmp_path / "bin", f'echo https://example.com/; echo "fatal: {secret}!" >&2; exit 1')
    )
    repo = Repo(tmp_path, token=TOKEN)
    repo._origin = "https://example.com/a.git"
    for act in (
        lambda: repo.fetch("main"),
        lambda: repo.remote_sha("refs/heads/main"),
        lambda: repo.push("refs/heads/x", "a" * 40, ""),
        lambda: Repo.clone("https://example.com/a.git", tmp_path / "new", token=TOKEN),
    ):
        with pytest.raises(GitError) as failed:
            act()
        assert secret not in str(failed.value) and "***" in str(failed.value)


def test_the_clone_keeps_no_token(world: World) -> None:
    copy = Repo.clone(f"file://{world.server.path}", world.root / "again", token=TOKEN)
    for file in (copy.path / ".git").rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_a_token_goes_to_its_own_host_only() -> None:
    assert list(token_config("https://ghe.example.com:8443/a/b.git", TOKEN)) == [
        "http.https://ghe.example.com:8443/.extraHeader"
    ]
    assert token_config("/srv/a.git", TOKEN) == token_config("https://github.com/a", "") == {}


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:80"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    assert token_config(f"http://{host}/a.git", TOKEN)


@pytest.mark.parametrize("host", ["github.com", "127.0.0.1.evil.com", "localhost.evil.com"])
def test_a_token_is_never_sent_in_the_clear(host: str) -> None:
    with pytest.raises(OperatorError, match="plain http"):
        token_config(f"http://{host}/a.git", TOKEN)


def test_scrubbing() -> None:
    assert scrub("fatal: https://user:pw@host/x") == "fatal: https://host/x"
    assert scrub("a\x1b[31mb\x07") == "a?[31mb?"
    assert scrub("x" * (MAX_ERROR + 1)).startswith("...x") and scrub("x" * MAX_ERROR) == "x" * MAX_ERROR


def test_a_deadline_ends_git_and_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child"
    script = f"sleep 600 & echo $! >{child}.new; mv {child}.new {child}; wait"
    monkeypatch.setenv("PATH", fake_git(tmp_path / "bin", script))
    for deadline in (0.3, 3, 30):  # a busy machine may need longer to begin
        began = time.monotonic()
        with pytest.raises(GitError, match=f"did not end within {deadline} s"):
            run(tmp_path, ["fetch"], deadline_s=deadline)
        assert time.monotonic() - began < deadline + 60
        if child.exists():
            break
    wait_until_gone(int(child.read_text()))


def test_a_machine_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError, match="git is not installed"):
        run(tmp_path, ["version"])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="no folder"):
        Repo(tmp_path / "nowhere").resolve("main")


def test_a_plain_folder_inside_a_repository_is_no_repository(world: World) -> None:
    inside = world.root / "outer"
    Repo.init(inside)
    (inside / "plain").mkdir()
    with pytest.raises(GitError, match="not a git repository"):
        Repo(inside / "plain").entries("HEAD")


def test_hooks_of_the_repository_do_not_run(world: World) -> None:
    copy = Repo.clone(str(world.server.path), world.root / "work")
    for name in ("pre-push", "post-checkout", "reference-transaction"):
        hook = copy.path / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {world.root}/ran-{name}\n")
        hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    sha = copy.commit_files(world.base, {"a": b"1"}, "m", author=("A", "a@b"), date="2026-01-01T00:00:00Z")
    copy.push("refs/heads/x", sha, "")
    with copy.worktree(sha, world.root / "tree"):
        pass
    assert not list(world.root.glob("ran-*"))
    git(copy.path, "checkout", "-q", "-b", "y")
    assert list(world.root.glob("ran-*")), "the hooks are real: plain git runs them"
