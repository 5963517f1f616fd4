"""Nodes for nodes. What holds none of them stays the very same, and is not gone through again.

libcst's visitors make every node of a module anew for one that changes; a plan changes a module some hundred times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import libcst as cst

from bot.engine.finding import LISTS, fields_of, kind_of, parts_of

New = Mapping[cst.CSTNode, Sequence[cst.CSTNode]]
REMEMBERED = 16


class NotInside(AssertionError):
    """A node to replace is of another tree: a bug of ours."""


@lru_cache(maxsize=REMEMBERED)
def _holders(tree: cst.CSTNode, with_air: bool) -> dict[cst.CSTNode, list[cst.CSTNode]]:
    """Of each node the one that it is a part of. Where we wrote a node twice there are two."""
    found: dict[cst.CSTNode, list[cst.CSTNode]] = {tree: []}
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        parts = parts_of(kind_of(one), with_air=with_air)
        for value in parts(one) if parts is not None else ():
            for part in value if type(value) in LISTS else (value,):
                if parts_of(kind_of(part), with_air=with_air) is None:
                    continue
                if part not in found:
                    waiting.append(part)
                found.setdefault(part, []).append(one)
    return found


def _above(tree: cst.CSTNode, wanted: Sequence[cst.CSTNode]) -> set[cst.CSTNode]:
    """All that hold one of these."""
    holders = _holders(tree, False)
    if any(one not in holders for one in wanted):  # a comment, or the blanks of a line
        holders = _holders(tree, True)
    if any(one not in holders for one in wanted):
        raise NotInside("a node to replace is of another tree")
    found, waiting = set[cst.CSTNode](), list(wanted)
    while waiting:
        fresh = [holder for holder in holders[waiting.pop()] if holder not in found]
        found.update(fresh)
        waiting += fresh
    return found


def _one(node: cst.CSTNode, new: New, above: set[cst.CSTNode]) -> cst.CSTNode:
    made = _made(node, new, above)
    if len(made) != 1:
        raise NotInside("several nodes for one that stands in no list")
    return made[0]


def _made(node: cst.CSTNode, new: New, above: set[cst.CSTNode]) -> Sequence[cst.CSTNode]:
    """What stands below one that goes is not looked at."""
    if node in new:
        return new[node]
    if node not in above:
        return (node,)
    changes: dict[str, Any] = {}
    for name in fields_of(kind_of(node), with_air=True):
        value: Any = getattr(node, name)
        if isinstance(value, list | tuple):
            if any(part in new or part in above for part in value):
                changes[name] = [made for part in value for made in _made(part, new, above)]
        elif isinstance(value, cst.CSTNode) and (value in new or value in above):
            changes[name] = _one(value, new, above)
    return (node.with_changes(**changes),)


def exchanged(tree: cst.CSTNode, new: New) -> cst.CSTNode:
    """The tree with some nodes for each of these."""
    return _one(tree, new, _above(tree, list(new)))
