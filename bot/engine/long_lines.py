"""Launches, the numbers they are given, and parameters in lines that are not too long, as formatters write those that
are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall, nodes
from bot.engine.source import LAUNCH, LONGEST


def _new_line(depth: int) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    " * depth))


PARTS = m.Dict() | m.Call(func=m.Name("min"))
"""What may be broken into lines beside launches: the dictionaries they get, and numbers that have an end."""


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


def _at_ifs(choice: cst.IfExp, depth: int) -> cst.IfExp:
    """A choice with each `if` and each `else` at the beginning of a line."""
    new = _new_line(depth)
    orelse = _at_ifs(choice.orelse, depth) if isinstance(choice.orelse, cst.IfExp) else choice.orelse
    return choice.with_changes(whitespace_before_if=new, whitespace_before_else=new, orelse=orelse)


def _in_parentheses(choice: cst.IfExp, indent: int) -> cst.IfExp:
    """In one line where there is room for it."""
    inside = choice if indent + 4 + len(source.code(choice)) <= LONGEST else _at_ifs(choice, 1)
    left, right = cst.LeftParen(whitespace_after=_new_line(1)), cst.RightParen(whitespace_before=_new_line(0))
    return inside.with_changes(lpar=[left], rpar=[right])


def _choice(module: cst.Module, long: Sequence[str]) -> tuple[cst.CSTNode, cst.CSTNode] | None:
    """A choice that a variable is set to, or that a launch is given in a line of its own, and what it is in lines."""
    made = [getattr(one, "value", one) for one in findall(module, m.Assign(value=m.IfExp(lpar=[])))]
    given = [arg for call in findall(module, LAUNCH) for arg in getattr(call, "args", ()) if arg.keyword is not None]
    for line in long:
        for one in made:
            if isinstance(one, cst.IfExp) and line.endswith(f" = {source.code(one)}"):
                return one, _in_parentheses(one, len(line) - len(line.lstrip()))
        for arg in given:
            one = arg.value
            if isinstance(one, cst.IfExp) and line.lstrip() == f"{arg.keyword.value}={source.code(one)},":
                return one, _at_ifs(one, 1)
    return None


def in_lines(module: cst.Module, before: str) -> cst.Module:
    """The module with its launches and their numbers in lines that are not too long, where a change made them so."""
    known = set(before.splitlines())
    while (found := _broken(module, known)) is not None:
        module = source.replaced(module, *found)
    return module


def _broken(module: cst.Module, known: set[str]) -> tuple[cst.CSTNode, cst.CSTNode] | None:
    """What stands in lines that are too long, and what it is in lines of its own: launches first, then the choices they
    are given, then the rest from outside."""
    lines = [line for line in source.written(module).splitlines() if len(line) > LONGEST and line not in known]
    if not lines:
        return None
    long = {line.strip() for line in lines}
    for function in source.functions(module):
        if (apart := _parameters(function, long)) is not None:
            return function, apart
    around = findall(module, LAUNCH | PARTS)
    for node in [one for one in around if m.matches(one, LAUNCH)]:
        if (made := _apart(node, around, long)) is not None:
            return node, made
    if (choice := _choice(module, lines)) is not None:
        return choice
    found = ((node, _apart(node, around, long)) for node in findall(module, PARTS))
    return next(((node, made) for node, made in found if made is not None), None)


def _parameters(function: cst.FunctionDef, long: set[str]) -> cst.FunctionDef | None:
    """Each in a line of its own; None where they are in no line that is too long, or somebody said something of one."""
    every, told = function.params.params, source.code(function.params)
    if not every or tuple(every) != source.declared(function) or findall(function.params, m.Comment()):
        return None
    head = f"def {function.name.value}({told}"  # of the function itself: a long call may begin with the same names
    if not any(line.strip() in long for line in told.splitlines()) and not any(head in one for one in long):
        return None
    inner, bare = _new_line(1), cst.SimpleWhitespace("")
    parts = [one.with_changes(comma=cst.Comma(whitespace_after=inner), whitespace_after_param=bare) for one in every]
    parts[-1] = parts[-1].with_changes(comma=cst.Comma(whitespace_after=_new_line(0)))
    params = function.params.with_changes(params=parts)
    apart = function.with_changes(params=params, whitespace_before_params=inner)
    return apart if source.code(apart.params) != told else None


def _apart(node: cst.CSTNode, around: list[cst.CSTNode], long: set[str]) -> cst.CSTNode | None:
    """Brackets with each part in a line of its own; None where they are in no line that is too long."""
    if not isinstance(node, cst.Call | cst.Dict) or not _parts(node) or findall(node, m.Comment()):
        return None
    told = source.code(node)
    lines = [line.strip() for line in told.splitlines()]
    if any(line in long for line in lines) or (len(lines) == 1 and any(told in one for one in long)):
        outer = [one for one in around if one is not node and "\n" in source.code(one)]
        made = _on_lines(node, sum(any(inner is node for inner in nodes(one)) for one in outer))
        return made if source.code(made) != told else None
    return None
