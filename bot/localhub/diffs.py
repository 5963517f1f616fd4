"""A patch as lines that a page can colour and number."""

from __future__ import annotations

import re
from dataclasses import dataclass

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
MOST_DIFF_LINES = 400


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: str
    old: str
    new: str
    text: str


def diff_lines(patch: str) -> list[DiffLine]:
    """The lines of a patch with their numbers before and after, up to a limit."""
    found, old, new = [], 0, 0
    for line in patch.split("\n")[:MOST_DIFF_LINES]:
        hunk = HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
            found.append(DiffLine("hunk", "", "", line))
        elif line.startswith("+"):
            found.append(DiffLine("add", "", str(new), line[1:]))
            new += 1
        elif line.startswith("-"):
            found.append(DiffLine("del", str(old), "", line[1:]))
            old += 1
        elif not line.startswith("\\"):
            found.append(DiffLine("same", str(old), str(new), line[1:]))
            old, new = old + 1, new + 1
    if patch.count("\n") >= MOST_DIFF_LINES:
        found.append(DiffLine("hunk", "", "", f"… {patch.count(chr(10)) + 1 - MOST_DIFF_LINES} more lines"))
    return found
