"""Launches, and the numbers they are given, in lines that are not too long, as formatters write those that are."""

from __future__ import annotations

from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall, nodes
from bot.engine.source import LAUNCH, LONGEST


def _new_line(depth: int) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    " * depth))


BRACKETS = LAUNCH | m.Dict() | m.Call(func=m.Name("min"))
"""What may be broken into lines: launches, the dictionaries they get, and numbers that have an end."""


def _on_lines(node: cst.Call | cst.Dict, depth: int) -> cst.Call | cst.Dict:
    """Brackets with each part in a line of its own, as formatters write those that are too long."""
    inner, outer = _new_line(depth + 1), _new_line(depth)
    parts = [part.with_changes(comma=cst.Comma(whitespace_after=inner)) for part in _parts(node)]
    parts[-1] = parts[-1].with_changes(comma=cst.Comma(whitespace_after=outer))
    if isinstance(node, cst.Dict):
        left, right = cst.LeftCurlyBrace(whitespace_after=inner), cst.RightCurlyBrace()
        return node.with_changes(elements=parts, lbrace=left, rbrace=right)
    bare = [part.with_changes(whitespace_after_arg=cst.SimpleWhitespace("")) for part in parts]
    return node.with_changes(args=bare, whitespace_before_args=inner)


def _parts(node: cst.Call | cst.Dict) -> tuple[Any, ...]:
    return tuple(node.elements if isinstance(node, cst.Dict) else node.args)


def in_lines(module: cst.Module, before: str) -> cst.Module:
    """The module with its launches and their numbers in lines that are not too long, where a change made them so."""
    known = set(before.splitlines())
    while (found := _broken(module, known)) is not None:
        module = source.replaced(module, *found)
    return module


def _broken(module: cst.Module, known: set[str]) -> tuple[cst.CSTNode, cst.CSTNode] | None:
    """The outermost brackets in lines that are too long, and what they are in lines of their own."""
    long = {line.strip() for line in source.written(module).splitlines() if len(line) > LONGEST and line not in known}
    around = findall(module, BRACKETS) if long else []
    for node in around:
        if not isinstance(node, cst.Call | cst.Dict) or not _parts(node) or findall(node, m.Comment()):
            continue
        told = source.code(node)
        lines = [line.strip() for line in told.splitlines()]
        if any(line in long for line in lines) or (len(lines) == 1 and any(told in one for one in long)):
            outer = [one for one in around if one is not node and "\n" in source.code(one)]
            made = _on_lines(node, sum(any(inner is node for inner in nodes(one)) for one in outer))
            if source.code(made) != told:
                return node, made
    return None
