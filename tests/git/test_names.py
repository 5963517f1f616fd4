from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import GitError
from bot.git.names import check_path, check_ref, check_refspec, check_remote, check_rev, check_sha, shown
from tests.examples import many

OPTION_LIKE = ["-oProxyCommand=touch pwned", "--upload-pack=touch pwned", "-", "--", "-c"]


@pytest.mark.parametrize(
    "name", ["main", "refs/heads/main", "feature/x-1", "a.b", "ünïcode", "user@host", "HEAD", "$(id)"]
)
def test_ordinary_names_pass(name: str) -> None:
    assert check_ref(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *OPTION_LIKE,
        *[
            "",
            "@",
            "a..b",
            "a b",
            "a\nb",
            "a\0b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "a@{1}",
            "/a",
            "a/",
            "a//b",
        ],
        *[".a", "a/.b", "a.lock", "a.lock/b", "a.", "x" * 256],
    ],
)
def test_what_git_would_read_as_something_else_is_no_ref(name: str) -> None:
    with pytest.raises(GitError, match="not a usable ref name"):
        check_ref(name)


def test_the_longest_name_passes_and_one_more_does_not() -> None:
    assert check_ref("x" * 255)
    with pytest.raises(GitError):
        check_ref("x" * 256)


@settings(max_examples=many(60))
@given(st.text(alphabet="ab-./~^:?*[\\@{} \x7f\n", min_size=1, max_size=8))
def test_every_name_we_let_through_is_one_git_lets_through(name: str) -> None:
    try:
        check_ref(name)
    except GitError:
        return
    assert subprocess.run(["git", "check-ref-format", f"refs/heads/{name}"], check=False).returncode == 0


@pytest.mark.parametrize("sha", ["a" * 40, "0123456789abcdef0123456789abcdef01234567"])
def test_full_ids_pass(sha: str) -> None:
    assert check_sha(sha) == check_rev(sha) == sha


@pytest.mark.parametrize("sha", ["a" * 39, "a" * 41, "A" * 40, "g" * 40, "", "a" * 40 + "\n", "HEAD"])
def test_anything_else_is_no_full_id(sha: str) -> None:
    with pytest.raises(GitError, match="not a full commit id"):
        check_sha(sha)


def test_an_abbreviated_id_must_be_resolved_first() -> None:
    with pytest.raises(GitError, match="abbreviated"):
        check_rev("abc1234")


@pytest.mark.parametrize(
    "refspec", ["main", "+refs/heads/*:refs/heads/*", "refs/pull/7/head:refs/x", "+a:b", "a" * 40 + ":x"]
)
def test_refspecs(refspec: str) -> None:
    assert check_refspec(refspec) == refspec


@pytest.mark.parametrize(
    "refspec", [*OPTION_LIKE, "a:b:c", "a:*", "refs/*/*:refs/*/*", "a:", ":a", "+", "", "--upload-pack=x:y", "a: b"]
)
def test_hostile_refspecs(refspec: str) -> None:
    with pytest.raises(GitError):
        check_refspec(refspec)


@pytest.mark.parametrize(
    "remote", ["origin", "/srv/x.git", "https://github.com/a/b.git", "http://[::1]:80/x", "../x.git"]
)
def test_remotes(remote: str) -> None:
    assert check_remote(remote) == remote


@pytest.mark.parametrize("remote", ["", "-x", "--upload-pack=x", "ext::sh -c id", "ext::id", "a b", "a\n", "fd::3"])
def test_remotes_that_would_run_something(remote: str) -> None:
    with pytest.raises(GitError, match="not a usable remote"):
        check_remote(remote)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(GitError) as refused:
        check_remote("https://x-access-token:sesame@github.com/a/b.git")
    assert "sesame" not in str(refused.value) + refused.value.hint


@pytest.mark.parametrize("path", ["a", "src/pkg/ops/rms_norm.py", ".github/x.yml", "a-b+c_d/.hidden", "x" * 255, "..a"])
def test_plain_paths(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *["", "/etc/passwd", "../x", "a/../b", "a/./b", "a//b", "a/", ".", "..", "a/.."],
        *[".git/config", "a/.git/hooks/x", ".GIT/config", "git~1/config", "a.", "a./b", "x" * 256],
        *["a b", "a\nb", "a\tb", "a\\b", "a\0b", 'a"b', "ä"],
    ],
)
def test_paths_we_do_not_write(path: str) -> None:
    with pytest.raises(GitError, match="not a path we write to"):
        check_path(path)


def test_a_hostile_name_is_shown_short_and_printable() -> None:
    assert shown("\x1b[31m@everyone\n") == "'\\x1b[31m@everyone\\n'"
    assert len(shown("x" * 5000)) < 100
