"""Reads where a kernel's accesses go: an address as a sum of products, with the kernel's own names written out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall

Product = tuple[str, ...]
"""The factors of one term, sorted, without casts."""

CASTS = ("to", "cast")
MOST_SUBSTITUTIONS = 12


@dataclass(frozen=True, slots=True)
class Names:
    """What the kernel's variables stand for, as far as each is made once."""

    made: dict[str, cst.BaseExpression]
    moved: dict[str, cst.BaseExpression]
    """Pointers set to this program's part by one `+=` in the kernel's own body."""
    unknown: frozenset[str]
    """Made twice, in a loop's head, or changed on the way."""


def _binds(kernel: cst.FunctionDef) -> Iterator[tuple[str, cst.BaseExpression | None]]:
    for found in findall(kernel, m.Assign() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr()):
        if isinstance(found, cst.Assign) and len(found.targets) == 1 and isinstance(found.targets[0].target, cst.Name):
            yield found.targets[0].target.value, found.value
            continue
        targets = [t.target for t in found.targets] if isinstance(found, cst.Assign) else [found.target]
        for target in targets:
            yield from ((str(name.value), None) for name in findall(target, m.Name()) if isinstance(name, cst.Name))


def _moves(kernel: cst.FunctionDef) -> dict[str, cst.BaseExpression]:
    found = {}
    for statement in source.statements(kernel):
        line = (
            statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
        )
        if m.matches(line, m.AugAssign(target=m.Name(), operator=m.AddAssign())) and isinstance(line, cst.AugAssign):
            found[str(cst.ensure_type(line.target, cst.Name).value)] = line.value
    return found


@lru_cache(maxsize=16)
def names_of(kernel: cst.FunctionDef) -> Names:
    parameters = set(source.parameters(kernel))
    moves, counted = _moves(kernel), list(_binds(kernel))
    times: dict[str, int] = {}
    for name, _ in counted:
        times[name] = times.get(name, 0) + 1
    moved = {name: value for name, value in moves.items() if times[name] == 1 and name in parameters}
    made = {n: v for n, v in counted if v is not None and times[n] == 1 and n not in parameters}
    return Names(made, moved, frozenset(times) - set(made) - set(moved))


def without_casts(node: cst.BaseExpression) -> cst.BaseExpression:
    """`tl.program_id(0)` of `tl.program_id(0).to(tl.int64)` and of `tl.cast(tl.program_id(0), tl.int64)`."""
    if isinstance(node, cst.Call) and kernels.called_name(node) in CASTS and isinstance(node.func, cst.Attribute):
        inner = node.args[0].value if m.matches(node.func.value, m.Name("tl")) and node.args else node.func.value
        return without_casts(inner)
    return node


def parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a sum adds up; anything else is its own only part."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*parts(node.left), *parts(node.right)]
    return [node]


def _factors(node: cst.BaseExpression, names: Names, depth: int = 0) -> list[str]:
    node = without_casts(node)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return [*_factors(node.left, names, depth), *_factors(node.right, names, depth)]
    made = names.made.get(node.value) if isinstance(node, cst.Name) and depth < MOST_SUBSTITUTIONS else None
    if made is not None and len(parts(without_casts(made))) == 1:
        return _factors(made, names, depth + 1)
    return [source.code(node)]


def terms(node: cst.BaseExpression, names: Names, depth: int = 0) -> list[Product]:
    """The terms of an address; a name that stands for something else is written out, also a pointer that was moved."""
    found: list[Product] = []
    for part in parts(without_casts(node)):
        part = without_casts(part)
        name = part.value if isinstance(part, cst.Name) else ""
        if name in names.made and depth < MOST_SUBSTITUTIONS:
            found += terms(names.made[name], names, depth + 1)
        elif name in names.moved and depth < MOST_SUBSTITUTIONS:
            found += [(name,), *terms(names.moved[name], names, depth + 1)]
        else:
            found.append(tuple(sorted(_factors(part, names))))
    return found


def derived(pointer: str, names: Names) -> frozenset[str]:
    """The pointer and the variables that are made of it."""
    known = {pointer}
    while True:
        more = {name for name, value in names.made.items() if any(source.loads(value, one) for one in known)} - known
        if not more:
            return frozenset(known)
        known |= more
