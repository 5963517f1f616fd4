"""A journal without the target's own text: v0 by its hash, a variant by what it changes in v0.

So a campaign can be published where the library's source may not be. With a checkout of the stock tree beside it the
journal is whole again, byte for byte, and every text is held against its hash.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from bot.errors import CorruptRecord, UserError
from bot.ledger.journal import what_next
from bot.model.reasons import ReasonCode

HASH, EDITS = "sha256", "edits"
STOCK = (
    "name the stock tree that the campaign ran on with --repo TREE; where that is the one, the journal keeps no edits "
    "of this text or was changed after it was written"
)
Base = Callable[[str], str | None]
"""The stock text of a path; None where the stock tree has no such file."""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _edits(before: str, after: str) -> list[list[Any]]:
    """[first line, line behind the last, text in their place], in order."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    found = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [[i, j, "".join(new[k:n])] for kind, i, j, k, n in found if kind != "equal"]


def _edited(before: str, edits: Any) -> str:
    """The text with its lines replaced. Raises ValueError where the edits are not of it."""
    old, found, at = before.splitlines(keepends=True), [], 0
    for edit in edits:
        first, last, text = edit
        if (
            type(first) is not int
            or type(last) is not int
            or type(text) is not str
            or not at <= first <= last <= len(old)
        ):
            raise ValueError("edits that do not fit")
        found += [*old[at:first], text]
        at = last
    return "".join([*found, *old[at:]])


def _walk(node: Any, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    if isinstance(node, list):
        return [_walk(one, change) for one in node]
    if isinstance(node, dict):
        changed = change(node)
        return changed if changed is not None else {key: _walk(value, change) for key, value in node.items()}
    return node


def _lines(text: str, change: Callable[[dict[str, Any]], dict[str, Any] | None], what: str) -> str:
    found, rows = [], text.split("\n")
    last = len(rows) - (not rows[-1])
    for number, row in enumerate(rows, start=1):
        try:
            found.append(json.dumps(_walk(json.loads(row), change), separators=(",", ":")) if row else "")
        except (ValueError, TypeError, RecursionError) as error:
            hint = what_next(number, last)
            raise CorruptRecord(f"{what}: line {number} is no fact: {error}", hint=hint) from error
    return "\n".join(found)


def slim(text: str, base: Mapping[str, str]) -> str:
    """A journal with hashes and edits in place of texts; what tests printed is left out as well."""

    def change(node: dict[str, Any]) -> dict[str, Any] | None:
        if set(node) == {"path", "text"}:
            before, after = base.get(node["path"], ""), node["text"]
            kept = {"path": node["path"], HASH: _hash(after)}
            return kept if before == after else {**kept, EDITS: _edits(before, after)}
        if {"argv", "output"} <= set(node):
            return {**node, "output": ""}
        return None

    return _lines(text, change, "the journal")


def is_slim(text: str) -> bool:
    return f'"{HASH}":' in text


def whole(text: str, base: Base, what: str, hint: str = STOCK) -> str:
    """The journal with its texts, made of the stock tree's. `what` it is called; `hint`: what to do where the tree is
    another one."""

    def change(node: dict[str, Any]) -> dict[str, Any] | None:
        if not {"path", HASH} <= set(node) <= {"path", HASH, EDITS}:
            return None
        before = base(str(node["path"]))
        made = _edited(before or "", node.get(EDITS, []))
        if _hash(made) == node[HASH]:
            return {"path": node["path"], "text": made}
        why = f"of the tree does not lead to the text that hashes to {str(node[HASH])[:12]}"
        if before is None:
            why = f"is not in this tree, and {what} is of a library that has it"
        raise UserError(f"{node['path']} {why}", hint=hint, reason=ReasonCode.BASE_CHANGED)

    return _lines(text, change, what)
