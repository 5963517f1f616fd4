"""Which loads and stores of a kernel ask a mask before they touch the places of a tile.

A tile may only be made larger where nothing relies on its end: a place behind the last one has to be masked in whatever
reads or writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

MASK_AT = {"load": 1, "store": 2}
"""Where a mask stands that is not given by its name."""
BLIND = m.Attribute(attr=m.Name("make_block_ptr") | m.Name("make_tensor_descriptor") | m.Name("advance"))
"""Reads and writes whole tiles without a mask that could be seen."""
LANGUAGE = m.Attribute(value=m.Name("tl"))
PLAIN_CALLS = frozenset(("min", "max", "range", "int", "float"))


@dataclass(frozen=True, slots=True)
class Places:
    """`tl.arange(0, size)` of a kernel, and what is made of it."""

    kernel: cst.FunctionDef
    begins: m.Call
    names: frozenset[str]

    def shows_in(self, node: cst.CSTNode | None) -> bool:
        if node is None:
            return False
        return bool(findall(node, self.begins)) or any(findall(node, m.Name(name)) for name in self.names)


def made(kernel: cst.FunctionDef) -> Iterator[tuple[tuple[str, ...], cst.BaseExpression]]:
    """What each line of a kernel binds, and to what."""
    for line in findall(kernel.body, m.Assign() | m.AugAssign() | m.AnnAssign()):
        if isinstance(line, cst.Assign | cst.AugAssign | cst.AnnAssign) and line.value is not None:
            yield tuple(bound_in(line)), line.value


def following(kernel: cst.FunctionDef, begins: m.BaseMatcherNode, *, through_loads: bool = True) -> frozenset[str]:
    """Names whose value is made of what matches, by whatever way."""
    lines = [(names, value) for names, value in made(kernel) if through_loads or not kernels.calls(value, "load")]
    found: set[str] = set()
    while True:
        more = {
            name
            for names, value in lines
            if findall(value, begins) or any(findall(value, m.Name(one)) for one in found)
            for name in names
        }
        if more <= found:
            return frozenset(found)
        found |= more


def places(kernel: cst.FunctionDef, size: str) -> Places:
    begins = kernels.arange_of(size)
    if not findall(kernel, begins):
        raise NotUnderstood(f"nothing is counted by {size}")
    return Places(kernel, begins, following(kernel, begins))


def _is_guard(mask: cst.BaseExpression | None, where: Places, known: frozenset[str], end: str) -> bool:
    """Whether a mask is false behind the end, whatever else it asks."""
    match mask:
        case cst.Name():
            return mask.value in known
        case cst.Subscript():
            return _is_guard(mask.value, where, known, end)
        case cst.BinaryOperation(operator=cst.BitAnd()):
            return any(_is_guard(side, where, known, end) for side in (mask.left, mask.right))
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.LessThan(), comparator=limit)]):
            return where.shows_in(mask.left) and (not end or source.code(limit) == end)
    return False


def _guards(where: Places, end: str) -> frozenset[str]:
    """Names that are bound once, to such a mask."""
    lines = [(names[0], value) for names, value in made(where.kernel) if len(names) == 1]
    once = [(name, value) for name, value in lines if sum(name == other for other, _ in lines) == 1]
    known: frozenset[str] = frozenset()
    for _ in once:
        more = frozenset(name for name, value in once if _is_guard(value, where, known, end))
        if more == known:
            break
        known = more
    return known


def refuse_unguarded(where: Places, end: str = "") -> None:
    """Raises NotUnderstood unless every load, store and addition at these places has a mask that ends them: at `end`,
    where that is given."""
    if findall(where.kernel, BLIND | m.NamedExpr()):
        raise NotUnderstood("tiles are read without a mask, or a name is bound in the middle of a line")
    known = _guards(where, end)
    for call in kernels.calls(where.kernel.body):
        name = kernels.called_name(call)
        if isinstance(call.func, cst.Name) and name not in PLAIN_CALLS:
            raise NotUnderstood(f"nobody looks into {name}")
        if not (name in MASK_AT or name.startswith("atomic_")) or not call.args:
            continue
        mask = kernels.argument(call, MASK_AT.get(name, len(call.args)), "mask")
        place = kernels.argument(call, 0, "pointer")
        if not m.matches(call.func, LANGUAGE) or place is None:
            raise NotUnderstood(f"a {name} is not the language's own, or of no place")
        if where.shows_in(place) and not _is_guard(mask, where, known, end):
            raise NotUnderstood(f"a {name} has no mask of its places")
