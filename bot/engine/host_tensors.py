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
DEEPEST = 8
"""Names that stand for names; one that is made of itself would never end."""


def bindings(tree: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    """What plain lines of a function or statement, and of its branches, give a name."""
    for line in findall(tree, m.SimpleStatementLine()):
        if source.is_plain(line, name):
            yield source.value(line)


def is_new(site: LaunchSite, name: str, depth: int = 0) -> bool:
    """Whether a name is of a tensor that the function has made until the launch, whichever way it went."""
    before = source.statements(site.function)[: site.position]
    made = [value for line in before for value in bindings(line, name)]
    if not made or len(made) != sum(bound_in(line)[name] for line in before) or depth > DEEPEST:
        return False
    if name in source.parameters(site.function) or any(findall(one, m.Arg(keyword=m.Name("out"))) for one in made):
        return False
    return all(is_new(site, one.value, depth + 1) if isinstance(one, cst.Name) else m.matches(one, NEW) for one in made)


def _surely(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of a line that are worked out whenever it is."""
    yield node
    for child in node.children:
        if not isinstance(node, cst.IfExp | cst.BooleanOperation | cst.Lambda | cst.BaseComp):
            yield from _surely(child)


def is_there(site: LaunchSite, name: str) -> bool:
    """Whether something is a tensor at a launch and not None: nobody asks, or something of it is asked for anyhow."""
    nothing = m.Comparison(left=m.Name(name), comparisons=[m.ComparisonTarget(comparator=m.Name("None"))])
    if not findall(site.function, nothing):
        return True
    lines = [*source.statements(site.function)[: site.position], source.line_of(site)]
    plain = [line for line in lines if isinstance(line, cst.SimpleStatementLine)]
    return any(m.matches(part, m.Attribute(value=m.Name(name))) for line in plain for part in _surely(line))
