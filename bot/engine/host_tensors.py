"""What is known of the tensors that a host function hands to a launch: whether one is there, and whether it is new."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import LaunchSite

MADE = tuple(m.Name(name) for name in ("empty", "zeros", "full", "empty_like", "zeros_like", "full_like"))
NEW = m.Call(func=m.Attribute(m.Name("torch"), m.OneOf(*MADE)))
ALLOCATED = m.Call(func=m.Attribute(m.Name("torch"), m.Name("empty") | m.Name("zeros")))
"""By sizes of its own."""
DEEPEST = 8
"""Names that stand for names; one that is made of itself would never end."""


def bindings(tree: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    """What plain lines of a function or statement, and of its branches, give a name."""
    for line in findall(tree, m.SimpleStatementLine()):
        if source.is_plain(line, name):
            yield source.value(line)


def _before(site: LaunchSite) -> list[cst.BaseStatement]:
    """What is done until a launch, with the statement that holds it."""
    return list(source.statements(site.function)[: site.position + 1])


def is_new(site: LaunchSite, name: str, depth: int = 0) -> bool:
    """Whether a name is of a tensor that the function has made until the launch, whichever way it went."""
    before = _before(site)
    made = [value for line in before for value in bindings(line, name)]
    if not made or len(made) != sum(bound_in(line)[name] for line in before) or depth > DEEPEST:
        return False
    if name in source.parameters(site.function) or any(findall(one, m.Arg(keyword=m.Name("out"))) for one in made):
        return False
    return all(is_new(site, one.value, depth + 1) if isinstance(one, cst.Name) else m.matches(one, NEW) for one in made)


def roots(site: LaunchSite, name: str) -> frozenset[str]:
    """The name and all that it may be a part of, or another name for: what a new tensor is made like is not among
    them."""
    found, waiting = {name}, [name]
    while waiting:
        one = waiting.pop()
        values = [value for line in _before(site) for value in bindings(line, one) if not m.matches(value, NEW)]
        names = {cst.ensure_type(part, cst.Name).value for value in values for part in findall(value, m.Name())}
        waiting += names - found
        found |= names
    return frozenset(found)


def _surely(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of a line that are worked out whenever it is."""
    yield node
    children = [node.test] if isinstance(node, cst.Assert) else node.children
    for child in children:
        if not isinstance(node, cst.IfExp | cst.BooleanOperation | cst.Lambda | cst.BaseComp):
            yield from _surely(child)


def _may_be_none(function: cst.FunctionDef, name: str) -> bool:
    """Whether somebody asks, or gives it None."""
    nothing, given = m.Name("None"), m.Param(name=m.Name(name), default=m.Name("None"))
    asked = m.Comparison(left=m.Name(name), comparisons=[m.ComparisonTarget(comparator=nothing)])
    turned = m.Comparison(left=nothing, comparisons=[m.ComparisonTarget(comparator=m.Name(name))])
    values = list(bindings(function, name))
    plain = len(values) == bound_in(function)[name] and not any(findall(value, nothing) for value in values)
    return bool(findall(function, asked | turned | given)) or not plain


def is_there(site: LaunchSite, name: str) -> bool:
    """Whether something is a tensor at a launch and not None: nobody asks or gives it None, or something of it is asked
    for anyhow, behind the last line that gives it a value."""
    if not _may_be_none(site.function, name):
        return True
    before = _before(site)
    last = max((at for at, line in enumerate(before[:-1]) if bound_in(line)[name]), default=-1)
    plain = [line for line in before[last + 1 : -1] if isinstance(line, cst.SimpleStatementLine)]
    lines = [*plain, source.line_of(site)] if not bound_in(before[-1])[name] else []
    return any(m.matches(part, m.Attribute(value=m.Name(name))) for line in lines for part in _surely(line))
