"""How often a function gives a name a value. What is bound once, or never, means one thing all the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine.finding import findall

ASSIGNMENT = m.Assign() | m.AugAssign() | m.AnnAssign()


def bound_in(node: cst.CSTNode) -> Counter[str]:
    """How often each name gets a value within."""
    places = m.AssignTarget() | m.AugAssign() | m.AnnAssign() | m.For() | m.NamedExpr() | m.CompFor() | m.AsName()
    found = findall(node, places)
    bound = [one.name if isinstance(one, cst.AsName) else getattr(one, "target", None) for one in found]
    aliases = [cst.ensure_type(one, cst.ImportAlias).name for one in findall(node, m.ImportAlias(asname=None))]
    targets = [target for target in (*bound, *map(root, aliases)) if isinstance(target, cst.CSTNode)]
    return Counter(cst.ensure_type(n, cst.Name).value for target in targets for n in findall(target, m.Name()))


def root(name: cst.BaseExpression) -> cst.BaseExpression:
    """`a` of `a.b`: what `import a.b` binds."""
    while isinstance(name, cst.Attribute):
        name = name.value
    return name


def made_of(lines: Collection[cst.CSTNode], begins: m.BaseMatcherNode) -> frozenset[str]:
    """Names that some of the lines make of what matches, or of such names."""
    found: set[str] = set()
    while True:
        of = [one for one in lines if findall(one, begins) or any(findall(one, m.Name(name)) for name in found)]
        more = {name for one in of for name in bound_in(one)}
        if more <= found:
            return frozenset(found)
        found |= more


@lru_cache(maxsize=16)
def _bound(function: cst.FunctionDef) -> Counter[str]:
    return bound_in(function)


def times_bound(function: cst.FunctionDef, name: str) -> int:
    """How often anything gives a name a value, or a part of what it names."""
    return _bound(function)[name]
