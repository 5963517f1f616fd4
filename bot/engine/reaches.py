"""How far from its row a column may lie to count for a kernel: what it stores farther away is minus infinity.

    start = tl.maximum(0, rows[:, None] - reach)
    end = tl.minimum(size, rows[:, None] + reach + 1)
    counts = (cols[None, :] >= start) & (cols[None, :] < end)
    tl.store(..., tl.where(counts, acc, float("-inf")), ...)

The reach is made of constants by products and quotients. All of a mask has to be understood: a row of which not even
the column of its own number counts would have no softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, imports, kernels, reckoning, source
from bot.engine.bindings import ASSIGNMENT, bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.masks import ALONG, DOWN
from bot.engine.source import NotUnderstood

WHERE = m.Call(m.Attribute(m.Name("tl"), m.Name("where")), [m.Arg(keyword=None, star="")] * 3)
SIGNS = {cst.Multiply: "*", cst.FloorDivide: "//"}
ZERO = m.Integer("0")


@dataclass(frozen=True, slots=True)
class Reach:
    kernel: cst.FunctionDef
    pointer: str
    """The parameter that gets the matrix."""
    far: str
    """How far a column may lie, in the kernel's constants."""
    constants: tuple[str, ...]
    sides: frozenset[str]
    """`rows[:, None]` and `cols[None, :]` of a place."""
    ends: frozenset[str]
    """Parameters that say how many rows and columns there are."""


@dataclass(slots=True)
class _Mask:
    """What the kernel's names stand for, and what is known of its mask so far."""

    kernel: cst.FunctionDef
    rows: str
    columns: str
    below: set[str] = field(default_factory=set)
    above: set[str] = field(default_factory=set)
    """How far columns may lie on either side, where the mask says so of all that counts."""
    ends: set[str] = field(default_factory=set)

    def plain(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """What a name stands for, without brackets around it."""
        made = addresses.names_of(self.kernel).made
        for _ in range(addresses.MOST_SUBSTITUTIONS):
            node = made.get(node.value, node) if isinstance(node, cst.Name) else node
        return node.with_changes(lpar=(), rpar=())

    def told(self, node: cst.BaseExpression) -> str:
        return source.code(self.plain(node))

    def product(self, node: cst.BaseExpression) -> str:
        """A product or quotient of constants, all names written out."""
        node = self.plain(node)
        if isinstance(node, cst.BinaryOperation) and type(node.operator) in SIGNS:
            right = self.product(node.right)
            right = right if right.isalnum() or right.isidentifier() else f"({right})"
            return f"{self.product(node.left)} {SIGNS[type(node.operator)]} {right}"
        if isinstance(node, cst.Integer):
            return str(node.value)
        name = source.code(node)
        if name not in kernels.constants(self.kernel) or times_bound(self.kernel, name):
            raise NotUnderstood("how far a column may lie is no constant")
        return name

    def asked(self, node: cst.BaseExpression, *, surely: bool) -> Iterator[tuple[cst.Comparison, bool]]:
        """The comparisons that all have to hold, and whether each is asked for certain."""
        if isinstance(node, cst.Name) and node.value not in addresses.names_of(self.kernel).made:
            yield from self._narrowed(node.value, surely=surely)
            return
        node = self.plain(node)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd):
            yield from self.asked(node.left, surely=surely)
            yield from self.asked(node.right, surely=surely)
        elif isinstance(node, cst.Name):
            yield from self._narrowed(node.value, surely=surely)
        elif not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
            raise NotUnderstood("a mask is no comparison")
        elif m.matches(node.comparisons[0].operator, m.GreaterThan()) and _is_zero(node.comparisons[0].comparator):
            yield from self._chosen(node.left, surely=surely)
        else:
            yield node, surely

    def _chosen(self, node: cst.BaseExpression, *, surely: bool) -> Iterator[tuple[cst.Comparison, bool]]:
        """Of `tl.where(mask, number, 0.0)` that is above zero."""
        node = self.plain(node)
        if isinstance(node, cst.Float | cst.Integer) and node.evaluated_value >= 1:
            return
        if not isinstance(node, cst.Call) or not m.matches(node, WHERE) or not _is_zero(node.args[2].value):
            raise NotUnderstood("nobody knows what is above zero")
        yield from self.asked(node.args[0].value, surely=surely)
        yield from self._chosen(node.args[1].value, surely=surely)

    def _narrowed(self, name: str, *, surely: bool) -> Iterator[tuple[cst.Comparison, bool]]:
        """Of a name that is made once, in the kernel's own lines, and then only narrowed: `name = name & ...`."""
        lines = [one for one in findall(self.kernel.body, ASSIGNMENT) if bound_in(one)[name]]
        plain = [line for line in source.statements(self.kernel) if isinstance(line, cst.SimpleStatementLine)]
        own = [part for line in plain for part in line.body]
        if not lines or times_bound(self.kernel, name) != len(lines) or name in source.parameters(self.kernel):
            raise NotUnderstood(f"nobody knows what {name} is")
        first, *others = lines
        both = m.BinaryOperation(m.Name(name), m.BitAnd())
        if not m.matches(first, m.Assign([m.AssignTarget(m.Name())])) or not any(first is one for one in own):
            raise NotUnderstood(f"{name} is not made once")
        if not all(m.matches(one, m.Assign([m.AssignTarget(m.Name())], both)) for one in others):
            raise NotUnderstood(f"{name} is more than narrowed")
        yield from self.asked(cst.ensure_type(first, cst.Assign).value, surely=surely)
        for one in others:
            yield from self.asked(cst.ensure_type(one, cst.Assign).value.right, surely=False)

    def read(self, asked: cst.Comparison, *, surely: bool) -> None:
        """Raises NotUnderstood unless it holds of a column with the number of its row, in the matrix."""
        left, (target,) = asked.left, asked.comparisons
        operator, right = type(target.operator), target.comparator
        if operator is cst.LessThan and self.told(left) in (self.rows, self.columns) and self._is_end(right):
            self.ends.add(source.code(right))
        elif operator is cst.Equal and m.matches(right, ZERO) and self._is_step(self.plain(left)):
            return
        elif self.told(left) != self.columns:
            raise NotUnderstood("a mask asks for something else")
        elif operator is cst.GreaterThanEqual:
            far = self._before(self._end(right, "maximum"))
            self.below |= {far} if surely else set()
        elif operator in (cst.LessThan, cst.LessThanEqual):
            beyond = ("1",) if operator is cst.LessThan else ()
            far = self._behind(self._end(right, "minimum"), beyond)
            self.above |= {far} if surely else set()
        else:
            raise NotUnderstood("a mask asks for something else")

    def _is_end(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name) and kernels.is_handed(self.kernel, node.value)

    def _is_step(self, node: cst.BaseExpression) -> bool:
        """`(column - row) % constant`."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
            return False
        apart = self.plain(node.left)
        if not isinstance(apart, cst.BinaryOperation) or not isinstance(apart.operator, cst.Subtract):
            return False
        sides = {self.told(apart.left), self.told(apart.right)}
        return sides == {self.rows, self.columns} and bool(self.product(node.right))

    def _end(self, node: cst.BaseExpression, what: str) -> cst.BaseExpression:
        """What `tl.maximum(0, ...)` or `tl.minimum(size, ...)` ends, if one does."""
        node = self.plain(node)
        if not m.matches(node, m.Call(m.Attribute(m.Name("tl"), m.Name(what)), [m.Arg(keyword=None, star="")] * 2)):
            return node
        end, rest = (arg.value for arg in cst.ensure_type(node, cst.Call).args)
        if what == "minimum" and self._is_end(end):
            self.ends.add(source.code(end))
        elif what != "maximum" or not m.matches(end, ZERO):
            raise NotUnderstood("nobody knows where columns end")
        return self.plain(rest)

    def _before(self, node: cst.BaseExpression) -> str:
        """The reach of `row - reach`."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
            raise NotUnderstood("columns do not begin before their row")
        if self.told(node.left) != self.rows:
            raise NotUnderstood("columns do not begin before their row")
        return self.product(node.right)

    def _behind(self, node: cst.BaseExpression, beyond: tuple[str, ...]) -> str:
        """The reach of `row + reach + 1`, which is the first one behind, or of `row + reach`, the last."""
        parts = addresses.parts(node)
        rest = [part for part in parts if self.told(part) not in (self.rows, *beyond)]
        known = sorted(self.told(part) for part in parts if part not in rest)
        if len(rest) != 1 or known != sorted((self.rows, *beyond)):
            raise NotUnderstood("columns do not end behind their row")
        return self.product(rest[0])


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Float | cst.Integer) and node.evaluated_value == 0


def _stored(kernel: cst.FunctionDef) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """The place of the kernel's only store, and the mask behind which all of it is minus infinity."""
    stores = kernels.calls(kernel, "store")
    value = kernels.argument(stores[0], 1, "value") if len(stores) == 1 else None
    if not isinstance(value, cst.Name) or source.code(stores[0].func) != "tl.store":
        raise NotUnderstood("it has not one store, of a name")
    lines = [one for one in findall(kernel.body, ASSIGNMENT) if bound_in(one)[value.value]]
    body = source.statements(kernel)
    own = [at for at, line in enumerate(body) if source.is_plain(line, value.value)]
    at = next(
        (at for at, line in enumerate(body) if findall(line, m.Call()) and stores[0] in findall(line, m.Call())), 0
    )
    again = any(bound_in(line)[value.value] for line in body[own[-1] + 1 :]) if own else True
    if again or not lines or lines[-1] not in body[own[-1]].body or own[-1] >= at:
        raise NotUnderstood("what is stored is not made in the kernel's own lines")
    chosen = source.value(body[own[-1]])
    if not isinstance(chosen, cst.Call) or not m.matches(chosen, WHERE):
        raise NotUnderstood("what is stored is not chosen by a mask")
    if source.code(chosen.args[2].value) not in kernels.MINUS_INFINITY:
        raise NotUnderstood("what the mask leaves out is not minus infinity")
    return stores[0].args[0].value, chosen.args[0].value


def reach_of(module: cst.Module, kernel: cst.FunctionDef) -> Reach:
    """Raises NotUnderstood unless all that a kernel stores beyond a reach is minus infinity, and it stores no row
    without a number."""
    reckoning.refuse_other_meanings(module, kernel)
    if imports.mentions(module, kernel.name.value) != 2:
        raise NotUnderstood("nobody knows which kernel is launched by its name")
    address, chosen = _stored(kernel)
    terms = addresses.terms(address, addresses.names_of(kernel))
    pointers = [one for (one, *others) in terms if not others and one in source.parameters(kernel)]
    factors = [source.expression(factor) for term in terms for factor in term]
    (down, across) = ([source.code(one) for one in factors if m.matches(one, side)] for side in (DOWN, ALONG))
    if (len(pointers), len(down), len(across)) != (1, 1, 1):
        raise NotUnderstood("a place is not found by its row and its column")
    mask = _Mask(kernel, down[0], across[0])
    for asked, surely in mask.asked(chosen, surely=True):
        mask.read(asked, surely=surely)
    if len(mask.below) != 1 or mask.below != mask.above:
        raise NotUnderstood("columns do not reach as far on both sides")
    (far,) = mask.below
    named = {name.value for name in findall(source.expression(far), m.Name()) if isinstance(name, cst.Name)}
    constants = tuple(one for one in source.parameters(kernel) if one in named)
    sides = frozenset((down[0], across[0]))
    return Reach(kernel, pointers[0], far, constants, sides, frozenset(mask.ends))
