"""Reads what `git push --porcelain` says of the one ref that was pushed."""

from __future__ import annotations

import re
from enum import StrEnum

DENIED = re.compile(
    r"returned error: 40[13]|authentication failed|could not read username|permission to .* denied", re.I
)
# The server compares the old value once more while it holds the lock; these are its words when another push won there.
# They are also its words for other troubles, so the ref has to be looked at.
MAYBE_MOVED = re.compile(r"failed to update ref|cannot lock ref|incorrect old value|already exists", re.I)
MOVED = re.compile(r"stale info|fetch first|non-fast-forward|remote ref updated", re.I)

LONGEST_SAID = 400


class Pushed(StrEnum):
    DONE = "done"
    MOVED = "moved"
    MAYBE_MOVED = "maybe_moved"
    FORBIDDEN = "forbidden"
    FAILED = "failed"


def _said(error: str) -> str:
    """What the server itself wrote: which rule it was."""
    lines = [line.removeprefix("remote:").strip() for line in error.splitlines() if line.startswith("remote:")]
    return " ".join(line for line in lines if line)[:LONGEST_SAID]


def read_push(code: int, out: str, error: str) -> tuple[Pushed, str]:
    """What became of the push, and git's own reason. A line is `flag<tab>from:to<tab>summary (reason)`."""
    lines = [line.split("\t") for line in out.splitlines() if line.count("\t") >= 2]
    flags = {line[0]: line[2] for line in lines}
    if code == 0 and "!" not in flags:
        return Pushed.DONE, ""
    summary = flags.get("!", "")
    if MOVED.search(summary):
        return Pushed.MOVED, summary
    if MAYBE_MOVED.search(summary):
        return Pushed.MAYBE_MOVED, summary
    if summary.startswith("[remote rejected]") and "unpacker error" not in summary:
        return Pushed.FORBIDDEN, f"{summary} {_said(error)}".strip()
    if not lines and DENIED.search(error):
        return Pushed.FORBIDDEN, error
    return Pushed.FAILED, summary or error
