"""Whether what a kernel holds behind the last column of its row counts in the row's sums, maxima and minima.

A block is a power of two of columns, and most rows are shorter. `tl.sum((x - mean) * (x - mean))` adds the square of
the mean for each column that is not there, of which a block of another size has more or fewer. What a load does not say
of such columns, nobody knows in either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import libcst as cst

from bot.engine import kernels, source
from bot.engine.rows import Row, Step
from bot.engine.source import NotUnderstood

HIGHEST = ('float("inf")',)
KEEPS = cst.MultiplyAssign | cst.DivideAssign
Holds = Callable[[cst.BaseExpression], bool]


def _number(node: cst.BaseExpression) -> float | None:
    return float(node.evaluated_value) if isinstance(node, cst.Float | cst.Integer) else None


def _says(words: Collection[str]) -> Holds:
    """Whether a number is one of these, in whatever quotes."""
    return lambda node: source.code(node).replace("'", '"') in words


class Padding:
    """What is known of a row's values behind its last column."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self._asked: set[tuple[str, str]] = set()

    def _is_number(self, node: cst.BaseExpression) -> bool:
        return not any(source.loads(node, step.binds) for step in self.row.steps if step.is_row and step.binds)

    def _name(self, name: str, kind: str, holds: Holds) -> bool:
        """Whether it holds of all that a name ever stands for. What a name is made of itself does not change that."""
        made = [step.node for step in self.row.steps if step.binds == name and step.is_row]
        if (name, kind) in self._asked:
            return True
        self._asked.add((name, kind))
        found = bool(made) and all(self._made(node, kind, holds) for node in made)
        self._asked.discard((name, kind))
        return found

    def _made(self, node: cst.BaseSmallStatement, kind: str, holds: Holds) -> bool:
        if isinstance(node, cst.AugAssign):
            adds = isinstance(node.operator, cst.AddAssign | cst.SubtractAssign) and holds(node.value)
            return kind == "zero" and (isinstance(node.operator, KEEPS) or adds)
        return holds(cst.ensure_type(node, cst.Assign).value)

    def _called(self, call: cst.Call, holds: Holds, worst: Holds) -> bool | None:
        """Of a load what it says of other columns, of a choice by the mask its last part, and what a cast is of."""
        name = kernels.called_name(call)
        if name == "load":
            other = kernels.argument(call, 2, "other")
            return other is None or worst(other)
        if name == "where" and len(call.args) == 3:
            masked = source.code(call.args[0].value) == self.row.mask and worst(call.args[2].value)
            return masked or all(holds(arg.value) for arg in call.args[1:])
        if name in ("to", "cast") and isinstance(call.func, cst.Attribute):
            return holds(call.args[0].value if source.code(call.func.value) == "tl" else call.func.value)
        return None

    def is_zero(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            return self._name(str(node.value), "zero", self.is_zero)
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.Minus) and self.is_zero(node.expression)
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.Multiply):
                return self.is_zero(node.left) or self.is_zero(node.right)
            both = isinstance(node.operator, cst.Add | cst.Subtract)
            divided = isinstance(node.operator, cst.Divide) and self._is_number(node.right)
            return self.is_zero(node.left) and (divided or (both and self.is_zero(node.right)))
        if not isinstance(node, cst.Call):
            return False
        known = self._called(node, self.is_zero, lambda other: _number(other) == 0)
        if known is not None or not node.args:
            return bool(known)
        name, first = kernels.called_name(node), node.args[0].value
        return (name in ("exp", "exp2") and self.is_low(first)) or (name in ("abs", "sqrt") and self.is_zero(first))

    def is_low(self, node: cst.BaseExpression) -> bool:
        """Minus infinity, whatever number was taken off."""
        if isinstance(node, cst.Name):
            return self._name(str(node.value), "low", self.is_low)
        if isinstance(node, cst.BinaryOperation):
            less = isinstance(node.operator, cst.Subtract | cst.Add) and self._is_number(node.right)
            scaled = isinstance(node.operator, cst.Multiply) and (_number(node.right) or 0) > 0
            return (less or scaled) and self.is_low(node.left)
        return isinstance(node, cst.Call) and bool(self._called(node, self.is_low, _says(kernels.MINUS_INFINITY)))

    def is_high(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            return self._name(str(node.value), "high", self.is_high)
        return isinstance(node, cst.Call) and bool(self._called(node, self.is_high, _says(HIGHEST)))

    def counts(self, step: Step) -> bool:
        """Whether the reduction of a step may see it."""
        assert step.reduced is not None
        value, kind = step.reduced.args[0].value, kernels.called_name(step.reduced)
        if kind == "sum":
            return not self.is_zero(value)
        if kind == "min":
            return not self.is_high(value)
        size = isinstance(value, cst.Call) and kernels.called_name(value) == "abs"
        return not (self.is_low(value) or (size and self.is_zero(value)))


def refuse_counted(row: Row) -> None:
    """Raises NotUnderstood unless every reduction is the same in blocks of any size."""
    padding = Padding(row)
    if any(padding.counts(step) for step in row.steps if step.reduced is not None):
        raise NotUnderstood("a reduction may count what stands behind the last column")
