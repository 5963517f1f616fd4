"""GitHub refuses a comment above 65,536 characters. Ours stay below a budget in bytes: rows go first, with a note."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

BUDGET = 60_000
"""UTF-8 bytes of a body; the caller's marker line and GitHub's own limit leave room above it."""
ENDS = 5_000
"""Room to close whatever is open at the cut."""
CUT = "_The rest was left out: this comment reached its size limit._"


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a page may show."""

    visible: int = 8
    """Rows of the open table."""
    folded: int = 120
    """Rows of each folded table."""
    cases: int = 64
    lines: int = 60
    """Lines of a log or a diff."""


LADDER = (Detail(), Detail(folded=40, cases=24), Detail(folded=12, cases=12, lines=20), Detail(4, 0, 4, 8))
"""From everything to the least that still answers the question."""


def weight(body: str) -> int:
    return len(body.encode("utf-8", "replace"))


def _left_open(lines: list[str]) -> list[str]:
    """What must be closed after these lines: a code block, then folds. A line of a block opens and closes nothing."""
    fence, folds = "", 0
    for line in lines:
        found = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif found:
            fence = found.group()
        else:
            folds += line.startswith("<details>") - line.startswith("</details>")
    return [fence] * bool(fence) + ["</details>"] * folds


def cut(body: str, budget: int = BUDGET) -> str:
    """Whole lines from the end go, what they left open is closed, and the last line (what can be typed) stays."""
    if weight(body) <= budget:
        return body
    *lines, last = body.rstrip("\n").split("\n")
    room = budget - weight(last) - weight(CUT) - ENDS
    kept: list[str] = []
    for line in lines:
        room -= weight(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n\n".join(["\n".join(kept), *_left_open(kept), CUT, last]) + "\n"


def fitted(page: Callable[[Detail], str]) -> str:
    """The fullest page that fits."""
    body = ""
    for detail in LADDER:
        body = page(detail)
        if weight(body) <= BUDGET:
            return body
    return cut(body)
