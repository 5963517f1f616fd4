from __future__ import annotations

import pytest

from bot.git.push import Pushed, read_push


def said(summary: str, flag: str = "!") -> str:
    return f"To https://github.com/a/b.git\n{flag}\tabc:refs/heads/x\t{summary}\nDone\n"


@pytest.mark.parametrize(
    ("summary", "outcome"),
    [
        ("[rejected] (stale info)", Pushed.MOVED),
        ("[rejected] (fetch first)", Pushed.MOVED),
        ("[rejected] (non-fast-forward)", Pushed.MOVED),
        ("[remote rejected] (failed to update ref)", Pushed.MAYBE_MOVED),
        ("[remote rejected] (cannot lock ref 'refs/heads/x': is at a but expected b)", Pushed.MAYBE_MOVED),
        ("[remote rejected] (reference already exists)", Pushed.MAYBE_MOVED),
        ("[remote rejected] (incorrect old value provided)", Pushed.MAYBE_MOVED),
        ("[remote rejected] (protected branch hook declined)", Pushed.FORBIDDEN),
        ("[remote rejected] (pre-receive hook declined)", Pushed.FORBIDDEN),
        ("[remote rejected] (push declined due to repository rule violations)", Pushed.FORBIDDEN),
        ("[remote rejected] (refusing to allow a GitHub App to create or update workflow)", Pushed.FORBIDDEN),
        ("[remote rejected] (unpacker error)", Pushed.FAILED),
    ],
)
def test_a_refused_ref(summary: str, outcome: Pushed) -> None:
    assert read_push(1, said(summary), "error: failed to push some refs") == (outcome, summary)


@pytest.mark.parametrize(
    ("flag", "summary"), [("*", "[new branch]"), (" ", "a..b"), ("=", "[up to date]"), ("+", "a...b")]
)
def test_a_moved_ref(flag: str, summary: str) -> None:
    assert read_push(0, said(summary, flag), "") == (Pushed.DONE, "")


@pytest.mark.parametrize(
    "error",
    [
        "remote: Permission to a/b.git denied to c.\nfatal: The requested URL returned error: 403",
        "fatal: Authentication failed for 'https://github.com/a/b.git/'",
        "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
    ],
)
def test_a_token_without_the_right(error: str) -> None:
    assert read_push(128, "", error)[0] is Pushed.FORBIDDEN


@pytest.mark.parametrize(
    "error", ["fatal: unable to access: Could not resolve host", "The requested URL returned error: 502", ""]
)
def test_a_broken_line_is_a_failure(error: str) -> None:
    assert read_push(128, "", error)[0] is Pushed.FAILED


def test_an_exit_code_of_zero_does_not_hide_a_refusal() -> None:
    assert read_push(0, said("[rejected] (stale info)"), "")[0] is Pushed.MOVED
