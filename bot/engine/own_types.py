"""In which type a kernel's values are: in float32 for certain, or in the type of the rows that were loaded.

Triton's `tl.sum` adds up in the type that it is given. Of two types it takes float32 before float16, so that what is in
the rows' own type stays in it until it meets float32, is divided, or is told its type. An assignment is followed in the
order of the text, through branches and loops, for a name may stand for something else later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.addresses import CASTS
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

FLOAT32 = "tl.float32"
ADDS = ("sum", "cumsum")
"""Reductions in which the order of adding shows."""
ORDERLESS = ("max", "min")
SAME = ("abs", "trans", "permute", "reshape", "view", "ravel", "expand_dims", "broadcast_to", "zeros_like")
"""The type of the first argument."""
TOGETHER = ("maximum", "minimum", "fma", "clamp", "where")
"""The type that the arguments have together."""
ONLY_WIDE = (
    *("exp", "exp2", "log", "log2", "log1p", "sqrt", "sqrt_rn", "rsqrt", "sigmoid", "sin", "cos", "tanh", "erf"),
    *("floor", "ceil", "div_rn", "fdiv", "pow"),
)
"""They take no half precision."""
WITHOUT = (
    *("store", "arange", "program_id", "num_programs", "cdiv", "range", "static_range", "static_assert", "multiple_of"),
    *("max_contiguous", "debug_barrier", "constexpr", "atomic_add", "atomic_max", "atomic_min", "full", "zeros"),
)
"""What they hand back is no row. A store and an atomic addition round to the type of what they write to."""
ARITHMETIC = m.Add() | m.Subtract() | m.Multiply() | m.AddAssign() | m.SubtractAssign() | m.MultiplyAssign()
DIVISION = m.Divide() | m.DivideAssign()
MOST_TURNS = 9
"""A loop is gone through until nothing changes any more; there are so few kinds that this is soon."""


class Kind(Enum):
    WIDE = "float32 for certain"
    OWN = "the type of what was loaded"
    REAL = "a number with a point, which takes the type of what it meets"
    NUMBER = "a number of the text"
    OTHER = "no row, or of a type that the author named"
    UNKNOWN = "what something unknown made"


@dataclass(frozen=True, slots=True)
class Value:
    kind: Kind
    loads: frozenset[cst.Call] = frozenset()
    """Whose type it has."""
    fresh: frozenset[cst.Call] = frozenset()
    """Those of them that it has an element of, and no sum or largest element."""


Drawn = tuple[frozenset[cst.Call], frozenset[cst.Call]]
"""Any of the first draws in all of the second."""


def _drawn_in(some: set[cst.Call], pairs: Sequence[Drawn]) -> set[cst.Call]:
    known = set(some)
    while more := {load for these, those in pairs if these & known for load in those} - known:
        known |= more
    return known


@dataclass(slots=True)
class Found:
    """What the loads of a kernel come to."""

    added: set[cst.Call] = field(default_factory=set)
    """Those that running sums add up in their own type."""
    fixed: set[cst.Call] = field(default_factory=set)
    """Those whose type somebody asks for, or who may be no floating-point numbers."""
    floats: set[cst.Call] = field(default_factory=set)
    """Those that are floating-point numbers by what the text says."""
    met: list[Drawn] = field(default_factory=list)
    """In a sum, difference or product one of floats makes the others floats as well."""
    tied: list[Drawn] = field(default_factory=list)
    """A variable that may be either of two rows has one type."""

    def in_float32(self) -> set[cst.Call]:
        """The loads to take as float32, so that nothing is added up in another type. Raises NotUnderstood."""
        wanted = _drawn_in(self.added, self.tied)
        if wanted & self.fixed:
            raise NotUnderstood("the type of what is added up is asked for")
        if not wanted <= _drawn_in(self.floats, self.met):
            raise NotUnderstood("what is added up may be whole numbers")
        return wanted


Names = dict[str, Value]


class Reader:
    """Goes through a kernel once, with what each name stands for."""

    def __init__(self, module: cst.Module, kernel: cst.FunctionDef) -> None:
        self.module, self.kernel, self.found = module, kernel, Found()
        self.known: Names = {p.name.value: Value(_of_parameter(p)) for p in kernel.params.params}
        self.carried: frozenset[str] = frozenset()
        """Names that the loop around hands from turn to turn."""
        self.runs = False
        """Whether what is read grows from turn to turn: a running sum."""

    def read(self) -> Found:
        self._block(self.kernel.body)
        return self.found

    def _block(self, body: cst.BaseSuite) -> None:
        for statement in body.body:
            if isinstance(statement, cst.If):
                self._branches(statement)
            elif isinstance(statement, cst.For):
                self._loop(statement)
            elif isinstance(statement, cst.SimpleStatementLine):
                for line in statement.body:
                    self._line(line)
            elif isinstance(statement, cst.BaseSmallStatement):
                self._line(statement)
            else:
                raise NotUnderstood("it holds more than loops over ranges and branches")

    def _line(self, line: cst.BaseSmallStatement) -> None:
        if isinstance(line, cst.Assign) and len(line.targets) == 1:
            self._assign(line.targets[0].target, line.value)
        elif isinstance(line, cst.AnnAssign) and line.value is not None:
            self._assign(line.target, line.value)
        elif isinstance(line, cst.AugAssign) and isinstance(line.target, cst.Name):
            self._grow(line, line.target.value)
        elif isinstance(line, cst.Expr):
            self._value(line.value)
        elif not isinstance(line, cst.Pass | cst.Assert) and not m.matches(line, m.Return(value=None)):
            raise NotUnderstood("a statement is not known")

    def _grow(self, line: cst.AugAssign, name: str) -> None:
        self.runs = name in self.carried and m.matches(line.operator, m.AddAssign())
        more = self._value(line.value)
        value = self._both(line.operator, self._value(line.target), more)
        if self.runs:  # a sum of the row, or the row itself in its own type from turn to turn
            self.found.added |= (more.loads - more.fresh) | value.loads
        self.known[name], self.runs = value, False

    def _assign(self, target: cst.BaseAssignTargetExpression, value: cst.BaseExpression) -> None:
        if isinstance(target, cst.Name):
            self.runs = target.value in self.carried and source.loads(value, target.value) > 0
            self.known[target.value], self.runs = self._value(value), False
            return
        self._fix(self._value(value))
        for name in findall(target, m.Name()):
            self.known[cst.ensure_type(name, cst.Name).value] = Value(Kind.UNKNOWN)

    def _branches(self, node: cst.If) -> None:
        self._fix(self._value(node.test))
        before, ends = self.known, []
        for side in (node, node.orelse):
            self.known = dict(before)
            if isinstance(side, cst.If) and side is not node:
                self._branches(side)
            elif side is not None:
                self._block(side.body)
            ends.append(self.known)
        one, other = ends
        both = {name: self._either(one[name], other[name]) for name in one.keys() & other.keys()}
        self.known = {**one, **other, **both}

    def _loop(self, node: cst.For) -> None:
        call, target = node.iter, node.target
        if not isinstance(call, cst.Call) or not isinstance(target, cst.Name) or node.orelse is not None:
            raise NotUnderstood("a loop is not over a range")
        if kernels.called_name(call) not in ("range", "static_range"):
            raise NotUnderstood("a loop is not over a range")
        for arg in call.args:
            self._fix(self._value(arg.value))
        before, outside = self.known, self.carried
        names = frozenset(_bound(node)) & frozenset(before)
        entry = {name: _carried(value) if name in names else value for name, value in before.items()}
        self.carried = names
        for _ in range(MOST_TURNS):
            self.known = {**entry, target.value: Value(Kind.OTHER)}
            self._block(node.body)
            after = {name: self._either(entry[name], self.known[name]) for name in entry}
            if after == entry:
                break
            entry = after
        else:
            raise NotUnderstood("a loop does not come to an end")
        # What a loop makes is gone behind it, but for the one that is written out.
        unrolled = self.known if kernels.called_name(call) == "static_range" else {}
        self.known, self.carried = {**unrolled, **entry}, outside

    def _either(self, one: Value, other: Value) -> Value:
        """What a name stands for that is given the one value here and the other there."""
        if one == other:
            return one
        loads, kinds = one.loads | other.loads, {one.kind, other.kind}
        if not loads:
            return Value(kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN)
        if kinds & {Kind.OTHER, Kind.UNKNOWN}:
            self.found.fixed |= loads
        self.found.tied.append((loads, loads))
        return Value(Kind.OWN, loads, one.fresh | other.fresh)

    def _fix(self, value: Value) -> None:
        self.found.fixed |= value.loads

    def _both(self, operator: cst.CSTNode, left: Value, right: Value) -> Value:
        if m.matches(operator, DIVISION):
            return Value(Kind.WIDE) if Kind.UNKNOWN not in (left.kind, right.kind) else Value(Kind.UNKNOWN)
        if m.matches(operator, ARITHMETIC):
            return self._together(left, right)
        self._fix(left)
        self._fix(right)
        return Value(Kind.OTHER)

    def _together(self, *values: Value) -> Value:
        """The type of what they make: each meets the others."""
        loads = frozenset(load for value in values for load in value.loads)
        fresh = frozenset(load for value in values for load in value.fresh)
        kinds = {value.kind for value in values}
        if kinds & {Kind.WIDE, Kind.REAL}:
            self.found.floats |= fresh
        if Kind.UNKNOWN in kinds and Kind.WIDE not in kinds:
            self.found.fixed |= loads
        self.found.met.append((loads, fresh))
        for kind in (Kind.WIDE, Kind.UNKNOWN, Kind.OWN, Kind.OTHER, Kind.REAL):
            if kind in kinds:
                return Value(kind, loads, fresh) if kind is Kind.OWN else Value(kind)
        return Value(Kind.NUMBER)

    def _value(self, node: cst.BaseExpression) -> Value:
        if isinstance(node, cst.Name):
            return self.known.get(node.value, Value(Kind.OTHER))
        if isinstance(node, cst.Float):
            return Value(Kind.REAL)
        if isinstance(node, cst.Integer):
            return Value(Kind.NUMBER)
        if isinstance(node, cst.BinaryOperation):
            return self._both(node.operator, self._value(node.left), self._value(node.right))
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.Plus):
            return self._value(node.expression)
        if isinstance(node, cst.IfExp):
            self._fix(self._value(node.test))
            return self._either(self._value(node.body), self._value(node.orelse))
        if isinstance(node, cst.Comparison):
            for part in (node.left, *(target.comparator for target in node.comparisons)):
                self._value(part)
            return Value(Kind.OTHER)
        if isinstance(node, cst.Subscript):
            return self._value(node.value)
        if isinstance(node, cst.Attribute):
            self._fix(self._value(node.value))  # `x.dtype`
            return Value(Kind.OTHER)
        return self._call(node) if isinstance(node, cst.Call) else self._unknown(node)

    def _unknown(self, node: cst.CSTNode) -> Value:
        for part in node.children:
            for inner in _outermost(part):
                self._fix(self._value(inner))
        return Value(Kind.UNKNOWN if isinstance(node, cst.Call) else Kind.OTHER)

    def _call(self, call: cst.Call) -> Value:
        name, func = kernels.called_name(call), call.func
        if any(arg.star for arg in call.args):
            return self._unknown(call)
        if isinstance(func, cst.Name) and name not in ("min", "max", "float"):
            imported = source.kernel_named(self.module, name) is None and name in ONLY_WIDE
            return self._pointwise(call) if imported else self._unknown(call)
        if name in CASTS and isinstance(func, cst.Attribute):
            return self._cast(call, func)
        if name == "float" or source.code(func) == FLOAT32:
            return Value(Kind.REAL if name == "float" else Kind.WIDE)
        if name == "load" and _is_triton(func):
            return self._load(call)
        if isinstance(func, cst.Attribute) and name in (*ADDS, *ORDERLESS):
            return self._reduced(call, func)
        if name in ORDERLESS:  # Python's own, of two numbers
            return self._together(*(self._value(arg.value) for arg in call.args))
        return self._of_triton(call, name) if _is_triton(func) else self._unknown(call)

    def _of_triton(self, call: cst.Call, name: str) -> Value:
        if name in ONLY_WIDE:
            return self._pointwise(call)
        values = [self._value(arg.value) for arg in call.args]
        if name in SAME and values:
            return values[0]
        if name in TOGETHER and all(arg.keyword is None for arg in call.args):
            return self._together(*values[name == "where" :])
        if name in WITHOUT:
            places = values[:1] if name.startswith(("store", "atomic")) else values
            for value in places:
                self._fix(value)
            typed = kernels.argument(call, 1 if name == "zeros" else 2, "dtype") if name in ("zeros", "full") else None
            return Value(Kind.WIDE if typed is not None and source.code(typed) == FLOAT32 else Kind.OTHER)
        for value in values:
            self._fix(value)
        return Value(Kind.UNKNOWN)

    def _pointwise(self, call: cst.Call) -> Value:
        for arg in call.args:
            self._value(arg.value)
        return Value(Kind.WIDE)

    def _cast(self, call: cst.Call, func: cst.Attribute) -> Value:
        given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "dtype"]
        rows = given[:1] if _is_triton(func) else [func.value]
        types = given[1:] if _is_triton(func) else given
        if len(rows) != 1 or len(types) != 1 or len(given) != len(call.args):
            return self._unknown(call)
        for value in (self._value(rows[0]), self._value(types[0])):
            self._fix(value)  # who says the type of a row once has thought of it
        return Value(Kind.WIDE if source.code(types[0]) == FLOAT32 else Kind.OTHER)

    def _load(self, call: cst.Call) -> Value:
        if not call.args:
            return Value(Kind.UNKNOWN)
        other = kernels.argument(call, 2, "other")
        if other is not None and self._value(other).kind in (Kind.REAL, Kind.WIDE):
            self.found.floats.add(call)
        for arg in call.args:
            value = self._value(arg.value)
            if arg.value is not other:
                self._fix(value)
        itself = frozenset({call})
        return Value(Kind.OWN, itself, itself)

    def _reduced(self, call: cst.Call, func: cst.Attribute) -> Value:
        name = kernels.called_name(call)
        if not _is_triton(func):
            value = self._value(func.value)
        elif call.args and call.args[0].keyword is None:
            value = self._value(call.args[0].value)
        else:
            return self._unknown(call)
        said = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        if not said.keys() <= {"axis", "dtype", "keep_dims", "reverse"}:
            self._fix(value)
            return Value(Kind.UNKNOWN)
        if "dtype" in said:
            return Value(Kind.WIDE if source.code(said["dtype"]) == FLOAT32 else Kind.OTHER)
        if self.runs and name in ADDS:
            if value.kind is Kind.UNKNOWN:
                raise NotUnderstood("it is not known what is added up")
            self.found.added |= value.loads
        return Value(value.kind, value.loads)


def _of_parameter(parameter: cst.Param) -> Kind:
    return Kind.NUMBER if kernels.is_constant(parameter) else Kind.OTHER


def _is_triton(func: cst.BaseExpression) -> bool:
    """`tl.x` and `tl.math.x`."""
    words = source.code(func).split(".")
    return words[0] == "tl" and len(words) in (2, 3) and words[1:-1] in ([], ["math"])


def _carried(value: Value) -> Value:
    """A number that a loop hands on has a type from the start: `0.0` is a float32."""
    return Value(Kind.WIDE) if value.kind is Kind.REAL else value


def _bound(node: cst.For) -> Iterator[str]:
    for found in findall(node.body, m.AssignTarget() | m.AugAssign() | m.AnnAssign()):
        target = found.target if isinstance(found, cst.AssignTarget | cst.AugAssign | cst.AnnAssign) else found
        yield from (cst.ensure_type(name, cst.Name).value for name in findall(target, m.Name()))


def _outermost(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Arg):
        yield node.value
    elif isinstance(node, cst.BaseExpression):
        yield node
    else:
        for child in node.children:
            yield from _outermost(child)


def added_in_their_own_type(module: cst.Module, kernel: cst.FunctionDef) -> set[cst.Call]:
    """The loads to take as float32, so that no sum is made in the type of a row. Raises NotUnderstood."""
    return Reader(module, kernel).read().in_float32()
