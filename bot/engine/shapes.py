"""What each value of a loop over rows has an element for: every row, every column, both, or neither. And each value of
a kernel with a program for each row.

With that known the loop, or the program, can take several rows at once: a number of one row becomes a column of
numbers, everything else spreads by itself, and only loads, stores, reductions and running sums have to be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.runs import Run
from bot.engine.source import NotUnderstood

NUMBER, PER_ROW, PER_COLUMN, BLOCK = 0, 1, 2, 3
"""Bits: one for rows, two for columns."""
REDUCTIONS = ("sum", "max", "min")
SHAPING = ("arange", "program_id", "zeros", "full", "broadcast_to", "multiple_of", "max_contiguous", "load", "store")
SPREADING = kernels.ELEMENTWISE - set(SHAPING)
"""Calls whose result has an element wherever one of their arguments has."""
BEFORE = {"arange": PER_COLUMN, "zeros": PER_COLUMN, "full": PER_COLUMN, "program_id": NUMBER, "num_programs": NUMBER}
Binding: TypeAlias = cst.Assign | cst.AugAssign
Holds = Callable[[cst.BaseExpression], bool]


@dataclass(slots=True)
class Shapes:
    """The values of a kernel with one loop over rows, or with a program for each row."""

    row: str
    """The variable that holds the row."""
    loads: list[cst.Call] = field(default_factory=list)
    """Where the row is known, of something that differs from row to row."""
    blocks: list[cst.Call] = field(default_factory=list)
    """Of these, the loads of rows."""
    stores: list[cst.Call] = field(default_factory=list)
    reductions: list[cst.Call] = field(default_factory=list)
    """Where the row is known, of blocks over their columns."""
    sums: dict[str, int] = field(default_factory=dict)
    """Names that grow from turn to turn by `+=`, with what they had an element for before the loop."""
    grown: list[cst.AugAssign] = field(default_factory=list)
    made: dict[str, list[Binding]] = field(default_factory=dict)
    """How the loop makes each of its own names."""


def _lines(body: cst.BaseSuite) -> Iterator[tuple[cst.BaseSmallStatement, tuple[cst.If, ...]]]:
    """Every statement of a block with the `if`s around it. Raises NotUnderstood at anything else."""
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from ((small, ()) for small in statement.body)
        elif isinstance(statement, cst.If):
            branches: cst.If | cst.Else | None = statement
            test = statement
            while branches is not None:
                test = branches if isinstance(branches, cst.If) else test
                yield from ((small, (test, *more)) for small, more in _lines(branches.body))
                branches = branches.orelse if isinstance(branches, cst.If) else None
        else:
            raise NotUnderstood("it does more than compute, load and store")


def _spreads(shape: int, over: int) -> bool:
    """Whether a value becomes one of another shape by itself. A store and a load spread no columns over rows."""
    return not shape & ~over and shape in (NUMBER, PER_ROW, over)


def names(node: cst.CSTNode) -> set[str]:
    return {found.value for found in findall(node, m.Name()) if isinstance(found, cst.Name)}


def _target(small: cst.BaseSmallStatement) -> str:
    """The one name that a statement makes or changes; empty for a call that makes none."""
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        return str(small.targets[0].target.value)
    if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
        return str(small.target.value)
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call | cst.SimpleString):
        return ""
    raise NotUnderstood(f"it does more than compute, load and store: {source.code(small)[:40]}")


class _Reader:
    """Goes through the kernel in order and keeps what is known of each name."""

    def __init__(self, kernel: cst.FunctionDef, row: str) -> None:
        self.kernel, self.inside = kernel, False
        self.found = Shapes(row)
        self.known: dict[str, int] = dict.fromkeys(source.parameters(kernel), NUMBER)
        self.constants = kernels.constants(kernel)

    def read(self, run: Run) -> Shapes:
        body = list(source.statements(self.kernel))
        at = next(i for i, statement in enumerate(body) if statement is run.loop)
        self._block(cst.IndentedBlock(body=body[:at]))
        self._sums(run)
        self.inside = True
        self.known[run.row] = PER_ROW
        self._block(run.loop.body)
        after = cst.IndentedBlock(body=body[at + 1 :])
        gone = (set(self.found.made) | {run.row}) & names(after)
        if gone or any(_target(small) for small, _ in _lines(after)):
            raise NotUnderstood("something of the last row is used behind the loop")
        return self.found

    def _sums(self, run: Run) -> None:
        """Running sums: made before the loop, and in it only ever grown."""
        grown = {_target(small) for small, _ in _lines(run.loop.body) if isinstance(small, cst.AugAssign)}
        self.found.sums = {name: self.known[name] for name in grown & set(self.known)}
        for small, _ in _lines(run.loop.body):
            name = _target(small)
            if name in self.found.sums and isinstance(small, cst.AugAssign):
                read = source.loads(small.value, name)
                if read or not isinstance(small.operator, cst.AddAssign):
                    raise NotUnderstood(f"{name} is more than a running sum")
            elif name in self.known or any(source.loads(small, known) for known in self.found.sums):
                raise NotUnderstood(f"{name or 'a running sum'} is carried from row to row")

    def _block(self, body: cst.BaseSuite) -> None:
        for small, around in _lines(body):
            for test in (one.test for one in around):
                used = names(test)
                if kernels.calls(test) or used & (set(self.known) - self.constants):
                    raise NotUnderstood("a branch depends on more than constants")
            self._statement(small, always=not around)

    def _statement(self, small: cst.BaseSmallStatement, *, always: bool) -> None:
        name = _target(small)
        if isinstance(small, cst.Expr):
            if isinstance(small.value, cst.Call):
                self._store(small.value)
            return
        assert isinstance(small, cst.Assign | cst.AugAssign)
        shape = self.shape(small.value)
        if self.inside and name in self.found.sums:
            if shape != self.found.sums[name] | PER_ROW:
                raise NotUnderstood(f"{name} does not grow by rows")
            self.found.grown.append(cst.ensure_type(small, cst.AugAssign))
            return
        if isinstance(small, cst.AugAssign):
            shape |= self.known.get(name, NUMBER)
        if self.inside:
            if self.known.get(name, shape) != shape and not self._may_change(name, always=always):
                raise NotUnderstood(f"{name} stands for two things")
            self.found.made.setdefault(name, []).append(small)
        self.known[name] = shape

    def _may_change(self, name: str, *, always: bool) -> bool:
        """Whether a name may stand for something else from here on. In a loop it does not: there is a turn before."""
        return False

    def _store(self, call: cst.Call) -> None:
        if kernels.called_name(call) != "store" or len(call.args) < 2:
            raise NotUnderstood(f"{kernels.called_name(call)} is called for what it does")
        where = self.shape(call.args[0].value)
        if self.inside:
            if not where & PER_ROW or not _spreads(self.shape(call.args[1].value), where):
                raise NotUnderstood("a store is not of its row")
            self._all(call.args[2:])
            self.found.stores.append(call)

    def _all(self, arguments: Iterable[cst.Arg]) -> int:
        shape = NUMBER
        for arg in arguments:
            shape |= self.shape(arg.value)
        return shape

    def shape(self, node: cst.BaseExpression) -> int:
        if isinstance(node, cst.Name):
            return self.known.get(node.value, NUMBER)
        if isinstance(node, cst.BaseNumber | cst.SimpleString) or (
            isinstance(node, cst.Attribute) and not isinstance(node.value, cst.Call)
        ):
            return NUMBER
        if isinstance(node, cst.BinaryOperation | cst.BooleanOperation):
            return self.shape(node.left) | self.shape(node.right)
        if isinstance(node, cst.UnaryOperation):
            return self.shape(node.expression)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self.shape(node.left) | self.shape(node.comparisons[0].comparator)
        if isinstance(node, cst.Call):
            return self._call(node)
        if not self.inside and isinstance(node, cst.Tuple | cst.List):
            return NUMBER
        raise NotUnderstood(f"it reads {source.code(node)[:40]}")

    def _call(self, call: cst.Call) -> int:
        name = kernels.called_name(call)
        method = isinstance(call.func, cst.Attribute) and source.code(call.func.value) not in ("tl", "tl.math")
        if method and name in ("to", "cast"):
            return self.shape(cst.ensure_type(call.func, cst.Attribute).value)
        if not self.inside and name in BEFORE:
            return BEFORE[name]
        if name == "load" and call.args:
            shape = self.shape(call.args[0].value)
            if self.inside and self._all(call.args[1:]) & ~shape:
                raise NotUnderstood("a mask says more than the address")
            if self.inside and shape & PER_ROW:
                self._loaded(call, shape)
            return shape
        if name in REDUCTIONS and not isinstance(call.func, cst.Name):
            return self._reduction(call)
        if name in SPREADING | {"min", "max"} and not method:
            return self._all(call.args)
        raise NotUnderstood(f"{name} may look at other elements")

    def _loaded(self, call: cst.Call, shape: int) -> None:
        other = kernels.argument(call, 2, "other")
        if other is not None and not _spreads(self.shape(other), shape):
            raise NotUnderstood("what stands behind the last column is a column itself")
        if m.matches(kernels.argument(call, 1, "mask"), m.Name("None")):
            raise NotUnderstood("a mask that is none")
        self.found.loads.append(call)
        if shape == BLOCK:
            self.found.blocks.append(call)

    def _reduction(self, call: cst.Call) -> int:
        axis = kernels.argument(call, 1, "axis")
        if (axis is not None and kernels.integer(axis) != 0) or len(call.args) != 1 + (axis is not None):
            raise NotUnderstood("a reduction is not over the columns alone")
        if call.args[0].keyword is not None or call.args[0].star:
            raise NotUnderstood("what is reduced does not stand first")
        shape = self.shape(call.args[0].value)
        if not shape & PER_COLUMN:
            raise NotUnderstood("a reduction is not over columns")
        if shape == BLOCK:
            self.found.reductions.append(call)
        return shape & ~PER_COLUMN


def shapes_of(kernel: cst.FunctionDef, run: Run) -> Shapes:
    """Raises NotUnderstood unless every statement of the kernel is understood."""
    if len(kernels.calls(kernel, "arange")) != 1:
        raise NotUnderstood("it has not one block of columns")
    return _Reader(kernel, run.row).read(run)


class _OfPrograms(_Reader):
    """A kernel whose programs take a row each, straight through."""

    def __init__(self, kernel: cst.FunctionDef, row: str, helpers: Mapping[str, bool]) -> None:
        super().__init__(kernel, row)
        self.inside, self.helpers = True, helpers

    def read_rows(self, line: cst.CSTNode) -> Shapes:
        """`line` says which row it is."""
        body = list(source.statements(self.kernel))
        at = next(i for i, statement in enumerate(body) if statement is line)
        self._block(cst.IndentedBlock(body=body[:at]))
        self.known[self.found.row] = PER_ROW
        self._block(cst.IndentedBlock(body=body[at + 1 :]))
        return self.found

    def _may_change(self, name: str, *, always: bool) -> bool:
        return always

    def _call(self, call: cst.Call) -> int:
        name, is_name = kernels.called_name(call), isinstance(call.func, cst.Name)
        if is_name and name in self.helpers:
            if not self.helpers[name]:
                raise NotUnderstood(f"{name} may look at other elements")
            return self._all(call.args)
        if is_name and name == "float":
            return NUMBER
        return BEFORE[name] if name in ("arange", "program_id") else super()._call(call)


def shapes_of_rows(
    kernel: cst.FunctionDef, row: str, line: cst.SimpleStatementLine, helpers: Mapping[str, bool]
) -> Shapes:
    """Of a kernel with a program for each row, in which `row = tl.program_id(0)` is a line of its own.
    `helpers`: functions of the module, and whether they work on each element alone.
    Raises NotUnderstood unless every statement of the kernel is understood."""
    if len(kernels.calls(kernel, "arange")) != 1:
        raise NotUnderstood("it has not one block of columns")
    return _OfPrograms(kernel, row, helpers).read_rows(line)


class Nothing:
    """Which values are zero for a row whose loads gave zeros, so that it adds nothing to a running sum."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.tame = self._names(self.is_tame)
        self.zero = self._names(self.is_zero)

    def _names(self, holds: Holds) -> set[str]:
        """All names of the loop, less those that are made in a way that does not hold, until none has to go."""
        found = set(self.shapes.made)
        attribute = "tame" if holds == self.is_tame else "zero"
        while True:
            setattr(self, attribute, found)
            gone = {n for n in found if not all(self._holds(one, holds) for one in self.shapes.made[n])}
            if not gone:
                return found
            found = found - gone

    def _holds(self, binding: Binding, holds: Holds) -> bool:
        plain = isinstance(binding, cst.Assign) or isinstance(
            binding.operator, cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign
        )
        return plain and bool(holds(binding.value))

    def _loaded(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a row that is not there is said to hold; zero where nothing was masked before."""
        masked = kernels.argument(call, 1, "mask") is not None
        return kernels.argument(call, 2, "other") or (None if masked else cst.Integer("0"))

    def is_tame(self, node: cst.BaseExpression) -> bool:
        """Finite where the kernel's numbers are: made of zeros by sums and products."""
        if isinstance(node, cst.Name):
            return node.value not in self.shapes.made or node.value in self.tame
        if isinstance(node, cst.BaseNumber):
            return True
        if isinstance(node, cst.UnaryOperation):
            return self.is_tame(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self._operands(node, self.is_tame)
        if isinstance(node, cst.Call):
            if any(node is call for call in self.shapes.loads):
                return isinstance(self._loaded(node), cst.BaseNumber)
            return self._inner(node) is not None and self.is_tame(self._inner(node) or node)
        return False

    def is_zero(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            return node.value in self.zero
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.Minus) and self.is_zero(node.expression)
        if isinstance(node, cst.BinaryOperation):
            sides = (node.left, node.right)
            if isinstance(node.operator, cst.Multiply):
                return any(map(self.is_zero, sides)) and all(map(self.is_tame, sides))
            return self._operands(node, self.is_zero)
        if isinstance(node, cst.Call):
            if any(node is call for call in self.shapes.loads):
                other = self._loaded(node)
                return isinstance(other, cst.BaseNumber) and float(other.evaluated_value) == 0
            return self._inner(node) is not None and self.is_zero(self._inner(node) or node)
        return False

    def _operands(self, node: cst.BinaryOperation, holds: Holds) -> bool:
        if isinstance(node.operator, cst.Divide):
            same = not names(node.right) & {*self.shapes.made, self.shapes.row} and not kernels.calls(node.right)
            return same and bool(holds(node.left))
        known = isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply)
        return known and bool(holds(node.left)) and bool(holds(node.right))

    def _inner(self, call: cst.Call) -> cst.BaseExpression | None:
        """What a cast or a sum is of."""
        if kernels.called_name(call) in ("to", "cast") and isinstance(call.func, cst.Attribute):
            return call.args[0].value if m.matches(call.func.value, m.Name("tl")) else call.func.value
        return call.args[0].value if kernels.called_name(call) == "sum" else None
