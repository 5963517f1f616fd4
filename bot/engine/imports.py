"""Brings one of Python's own modules into a source, where those who sort imports have it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in, root
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

IMPORT = m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])
FUTURE = m.SimpleStatementLine(body=[m.ImportFrom(module=m.Name("__future__"))])
Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement


def makes(statement: cst.CSTNode, name: str) -> bool:
    """Whether the name stands for something of this statement from then on."""
    own = isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.name.value == name
    return own or bool(bound_in(statement)[name])


def plain(name: str) -> m.SimpleStatementLine:
    """`import name` under its own name, whatever else the line imports."""
    alias = m.ImportAlias(m.Name(name), asname=None)
    return m.SimpleStatementLine(body=[m.Import(names=[m.ZeroOrMore(), alias, m.ZeroOrMore()])])


def _module_of(statement: Statement) -> str:
    """The first word of what an import asks for; empty of a relative one."""
    line = cst.ensure_type(statement, cst.SimpleStatementLine).body[0]
    if isinstance(line, cst.Import):
        named: cst.BaseExpression | None = line.names[0].name
    else:
        named = None if cst.ensure_type(line, cst.ImportFrom).relative else cst.ensure_type(line, cst.ImportFrom).module
    while isinstance(named, cst.Attribute):
        named = named.value
    return named.value if isinstance(named, cst.Name) else ""


def _is_plain(statement: Statement) -> bool:
    return bool(m.matches(statement, m.SimpleStatementLine(body=[m.Import()])))


def _place(body: list[Statement], first: int, name: str) -> int:
    """Among the plain imports of Python's own, which stand first and before any `from`."""
    at = first
    while at < len(body) and m.matches(body[at], IMPORT) and _module_of(body[at]) in sys.stdlib_module_names:
        aliased = bool(findall(body[at], m.ImportAlias(asname=m.AsName())))  # `import functools as ft` stands below
        if not _is_plain(body[at]) or (_module_of(body[at]), aliased) > (name, False):
            break
        at += 1
    return at


def _goes_on(body: list[Statement], at: int) -> bool:
    """Whether what stands there is a plain import of Python's own as well, in the same block."""
    return _is_plain(body[at]) and _module_of(body[at]) in sys.stdlib_module_names


def _said_of(line: cst.SimpleStatementLine) -> tuple[Sequence[cst.EmptyLine], Sequence[cst.EmptyLine]]:
    """What stands above a line, and the comments right above it, which are of it."""
    lines = line.leading_lines
    at = max((n for n, one in enumerate(lines, 1) if one.comment is None), default=0)
    return lines[:at], lines[at:]


def with_import(module: cst.Module, name: str) -> cst.Module:
    """The module with `import name`. What sorts otherwise mends its place when the style check asks.

    Raises NotUnderstood where that name means something else, and without any import.
    """
    there = [n for n, one in enumerate(module.body) if m.matches(one, plain(name))]
    if there:
        if any(isinstance(one, cst.FunctionDef | cst.ClassDef) for one in module.body[: there[0]]):
            raise NotUnderstood(f"{name} is imported below what may need it")
        return module
    if any(makes(one, name) for one in module.body):
        raise NotUnderstood(f"{name} is something else in this module")
    body: list[Statement] = list(module.body)
    first = next((n for n, one in enumerate(body) if m.matches(one, IMPORT) and not m.matches(one, FUTURE)), None)
    if first is None:
        raise NotUnderstood(f"nothing is imported, so `import {name}` has no place")
    at = _place(body, first, name)
    new = cst.ensure_type(cst.parse_statement(f"import {name}"), cst.SimpleStatementLine)
    if at == first:
        below = cst.ensure_type(body[at], cst.SimpleStatementLine)
        above, said = _said_of(below)
        apart = () if _goes_on(body, at) and not said else (cst.EmptyLine(),)
        new = new.with_changes(leading_lines=above)
        body[at] = below.with_changes(leading_lines=(*apart, *said))
    return module.with_changes(body=(*body[:at], new, *body[at:]))


def mentions(tree: cst.CSTNode, name: str) -> int:
    """How often a variable is spoken of, also where it gets its value and in strings that say more than a docstring:
    annotations, `__all__`."""
    other = m.Attribute(attr=m.Name(name)) | m.Arg(keyword=m.Name(name))
    docstrings = {cst.ensure_type(one, cst.Expr).value for one in findall(tree, m.Expr(m.SimpleString()))}
    texts = [one for one in findall(tree, m.SimpleString()) if one not in docstrings]
    said = sum(bool(re.search(rf"\b{name}\b", source.code(one))) for one in texts)
    return len(findall(tree, m.Name(name))) - len(findall(tree, other)) + said


def without_unread(module: cst.Module, gone: Sequence[cst.CSTNode]) -> cst.Module:
    """The module without a plain `import name` that nothing but lines which are gone asked for. Raises NotUnderstood
    where somebody said something of it."""
    for name in {cst.ensure_type(one, cst.Name).value for line in gone for one in findall(line, m.Name())}:
        body: list[Statement] = list(module.body)
        alone = m.SimpleStatementLine(body=[m.Import(names=[m.ImportAlias(m.Name(name), asname=None)])])
        at = next((n for n, one in enumerate(body) if m.matches(one, alone)), None)
        if at is None or mentions(module, name) > 1:
            continue
        line = cst.ensure_type(body[at], cst.SimpleStatementLine)
        if findall(line, m.Comment()):
            raise NotUnderstood(f"something is said of `import {name}`")
        if (line.leading_lines or at == 0) and at + 1 < len(body) and m.matches(body[at + 1], IMPORT):
            below = [one for one in body[at + 1].leading_lines if one.comment is not None]
            body[at + 1] = body[at + 1].with_changes(leading_lines=(*line.leading_lines, *below))
        module = module.with_changes(body=(*body[:at], *body[at + 1 :]))
    return module


def _brought_by(module: cst.Module, lines: m.BaseMatcherNode) -> Iterator[tuple[str, str]]:
    for found in findall(module, lines):
        line = cst.ensure_type(found, cst.ImportFrom | cst.Import)
        where = "" if isinstance(line, cst.Import) else f"{source.code(line.module) if line.module else ''}."
        for alias in () if isinstance(line.names, cst.ImportStar) else line.names:
            name = source.code(alias.asname.name if alias.asname is not None else alias.name)
            yield name, f"{where}{source.code(alias.name)}"


def brought(module: cst.Module) -> Iterator[tuple[str, str]]:
    """(name, where from) of each name that the module imports from another, wherever it does."""
    yield from _brought_by(module, m.ImportFrom())


@lru_cache(maxsize=16)
def of_others(module: cst.Module) -> frozenset[str]:
    """Names that imports bring, wherever they stand, but those of triton: what such a function does nobody knows."""
    every = (*_brought_by(module, m.Import()), *brought(module))
    return frozenset(name.split(".")[0] for name, where in every if where.split(".")[0] != "triton")


def calls_others(module: cst.Module, node: cst.CSTNode) -> bool:
    """Whether anything within calls a function that another file brings."""
    called = {source.code(root(cst.ensure_type(one, cst.Call).func)) for one in findall(node, m.Call())}
    return not called.isdisjoint(of_others(module))
