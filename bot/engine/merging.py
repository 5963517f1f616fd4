"""One text of two that were made of the same one, where they changed other lines of it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from bot.engine import gates


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines of the first text that became others; none where lines were put in between."""

    start: int
    end: int
    lines: tuple[str, ...]


def _changes(before: Sequence[str], after: Sequence[str]) -> set[_Change]:
    codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    found = [_Change(start, end, tuple(after[low:high])) for kind, start, end, low, high in codes if kind != "equal"]
    return {_first_place(one, before) if one.start == one.end and _asks_for_a_gpu(one) else one for one in found}


def _first_place(change: _Change, before: Sequence[str]) -> _Change:
    """Lines put in between, as far up as they say the same: difflib takes either of the blank lines around them."""
    start, lines = change.start, change.lines
    while start and before[start - 1] == lines[-1]:
        start, lines = start - 1, (lines[-1], *lines[:-1])
    return _Change(start, start, lines)


def _defined(text: str) -> Counter[str]:
    """How often each function and class of a text is defined."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return Counter(node.name for node in ast.parse(text).body if isinstance(node, kinds))


def _asks_for_a_gpu(change: _Change) -> bool:
    """Whether it is of ours put in between, and nothing else, that tells one architecture from others: it comes with
    launch numbers for whichever kernel."""
    try:
        body = ast.parse("".join(change.lines)).body
    except (SyntaxError, ValueError):
        return False
    return bool(body) and all(map(gates.is_ours, body))


def merged(first: str, one: str, other: str) -> str | None:
    """What becomes of the first text with the changes of both. None where they changed the same lines, lines side by
    side, of which nobody knows the order, or something alike that is no gate; where it would not be a program, or
    define twice what neither does: difflib may see one insertion at two places."""
    before = first.splitlines(keepends=True)
    mine, others = (_changes(before, text.splitlines(keepends=True)) for text in (one, other))
    changes = sorted(mine | others, key=lambda change: (change.start, change.end))
    if not all(map(_asks_for_a_gpu, mine & others)) or any(
        left.end >= right.start for left, right in pairwise(changes)
    ):
        return None
    made, at = list[str](), 0
    for change in changes:
        made += [*before[at : change.start], *change.lines]
        at = change.end
    text = "".join([*made, *before[at:]])
    try:
        more = _defined(text) - (_defined(one) | _defined(other))
    except (SyntaxError, ValueError):
        return None
    return None if more else text
