"""Reads how a kernel counts the places along one side of its tiles, and whether a mask ends all that it does there.

A tile may only be made larger where nothing relies on its end. So little is understood here, and anything else is
refused: places are a beginning and `tl.arange(0, size)`, in one sum; a mask asks whether such a place is before a
limit; and no call but the language's own, and few of those."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels
from bot.engine.addresses import names_of, without_casts
from bot.engine.bindings import ASSIGNMENT, made_of
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

MASK_AT = {"load": 1, "store": 2, "atomic_add": 2}
"""Where a mask stands that is not given by its name."""
PLAIN = frozenset(
    (
        *("load", "store", "atomic_add", "dot", "trans", "arange", "program_id", "zeros", "range", "static_range"),
        *("sigmoid", "exp", "exp2", "log", "sqrt", "rsqrt", "maximum", "minimum", "abs", "where", "cdiv"),
    )
)
"""What of the language a kernel may call: each of their elements is of one place."""
BUILTINS = frozenset(("min", "max", "range"))
ALONG = ("sum", "max", "min")
"""What adds a tile up, each row by itself where it is told to."""
SUM = m.BinaryOperation(operator=m.Add())
PROGRAM = m.Call(func=m.Attribute(m.Name("tl"), m.Name("program_id")))
LOADED = m.Call(func=m.Attribute(m.Name("tl"), m.Name("load")))
Test = Callable[[cst.BaseExpression], bool]


@dataclass(frozen=True, slots=True)
class Side:
    """The places of a tile along one side, in a kernel."""

    kernel: cst.FunctionDef
    names: frozenset[str]
    """Those that are a place and nothing else."""
    made: frozenset[str]
    """What is made of them, by whatever way."""
    is_place: Test

    def shows_in(self, node: cst.CSTNode) -> bool:
        if any(findall(node, m.Name(name)) for name in self.made):
            return True
        return any(isinstance(one, cst.BaseExpression) and self.is_place(one) for one in findall(node, SUM))


def sum_of(name: str) -> m.BaseMatcherNode:
    return m.BinaryOperation(left=m.Name(name), operator=m.Add()) | m.BinaryOperation(
        operator=m.Add(), right=m.Name(name)
    )


def following(kernel: cst.FunctionDef, begins: m.BaseMatcherNode, *, through_loads: bool = True) -> frozenset[str]:
    """Names of a kernel whose value is made of what matches."""
    lines = findall(kernel, ASSIGNMENT)
    return made_of([one for one in lines if through_loads or not kernels.calls(one, "load")], begins)


def side(kernel: cst.FunctionDef, size: str, is_begin: Test) -> Side:
    """Raises NotUnderstood unless the constant counts places, by sums of a beginning and all of them."""
    begins = kernels.arange_of(size)
    values = names_of(kernel).made
    counts = frozenset(name for name, value in values.items() if m.matches(value, begins))
    every = m.Name(value=m.MatchIfTrue(lambda name: name in counts)) | begins

    def is_sum(value: cst.BaseExpression) -> bool:
        if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
            return False
        sides = ((value.left, value.right), (value.right, value.left))
        return any(is_begin(one) and m.matches(other, every) for one, other in sides)

    sums = (one for one in findall(kernel.body, SUM) if isinstance(one, cst.BinaryOperation))
    counted = sum(is_sum(one) for one in sums)
    if not counted or len(findall(kernel.body, every)) != counted + 2 * len(counts):  # a line is its name and its value
        raise NotUnderstood(f"places by {size} are made in another way")
    names: frozenset[str] = frozenset()

    def is_place(value: cst.BaseExpression) -> bool:
        plain = without_casts(value)
        return is_sum(plain) or (isinstance(plain, cst.Name) and plain.value in names)

    for _ in values:
        names |= {name for name, value in values.items() if is_place(value)}
    return Side(kernel, names, following(kernel, begins), is_place)


def _guards(where: Side, is_limit: Test) -> Test:
    """Whether a mask is false behind the limit, whatever else it asks."""
    values = names_of(where.kernel).made

    def is_guard(mask: cst.BaseExpression) -> bool:
        match mask:
            case cst.Name():
                return mask.value in values and is_guard(values[mask.value])
            case cst.Subscript():
                return is_guard(mask.value)
            case cst.BinaryOperation(operator=cst.BitAnd()):
                return is_guard(mask.left) or is_guard(mask.right)
            case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.LessThan(), comparator=limit)]):
                return where.is_place(mask.left) and is_limit(limit)
        return False

    return is_guard


def touching(kernel: cst.FunctionDef) -> Iterator[tuple[cst.Call, cst.BaseExpression, cst.BaseExpression | None]]:
    """Each load, store and addition, with its place and its mask."""
    for call in kernels.calls(kernel.body):
        name = kernels.called_name(call)
        place = kernels.argument(call, 0, "pointer")
        if name in MASK_AT and place is not None:
            yield call, place, kernels.argument(call, MASK_AT[name], "mask")


def refuse_unguarded(where: Side, is_limit: Test) -> None:
    """Raises NotUnderstood unless every load, store and addition at these places has a mask that ends them."""
    is_guard = _guards(where, is_limit)
    for call, place, mask in touching(where.kernel):
        if where.shows_in(place) and (mask is None or not is_guard(mask)):
            raise NotUnderstood(f"a {kernels.called_name(call)} has no mask of its places")


def refuse_others(kernel: cst.FunctionDef, *, rows: bool = False) -> None:
    """Raises NotUnderstood where a kernel calls what nobody looks into, or works on several places together. `rows`: it
    may add up each row."""
    if findall(kernel.body, m.NamedExpr() | m.Attribute(attr=m.Name("shape")) | m.While() | m.Lambda()):
        raise NotUnderstood("it asks for the size of a tile, or does what nobody follows")
    for call in kernels.calls(kernel.body):
        name = kernels.called_name(call)
        builtin = isinstance(call.func, cst.Name) and name in BUILTINS
        if builtin or m.matches(call.func, m.Attribute(attr=m.Name("to"))):
            continue
        own = m.matches(call.func, m.Attribute(value=m.Name("tl")))
        by_row = rows and name in ALONG and kernels.integer(kernels.argument(call, 1, "axis")) == 1
        if not own or not (name in PLAIN or by_row):
            raise NotUnderstood(f"nobody looks into {name}")
