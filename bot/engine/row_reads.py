"""Which rows a kernel reads, in what order, and which of them it reads again: argued from the address of each access.

An address is a sum. Names are written out as far as they are known at that line, so that `X_ptr + X_offsets` in two
loops over the same range is the same place, whatever was done to the names in between. A row is a place with columns
(`tl.arange`) that depends on every axis of the grid: what it leaves out, other programs read too. Of a name made in two
ways nothing is known but what it was made of. What is not understood is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, ranges, source
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood

LOAD, STORE, ATOMIC = "load", "store", "atomic_"
MOST_TERMS = 64
"""Of a sum: names that are made of names may stand for thousands."""
COLUMNS, AXIS = "columns", "axis "
BINDS = m.Assign() | m.AnnAssign() | m.AugAssign() | m.For()
STRANGE = (
    m.While() | m.Try() | m.With() | m.FunctionDef() | m.NamedExpr() | m.Lambda() | m.Match() | m.Break() | m.Continue()
)
LEAVES = m.SimpleStatementLine(body=[m.ZeroOrMore(), m.Return()])
OPTIONS = frozenset(("num_stages", "loop_unroll_factor", "flatten", "warp_specialize", "disallow_acc_multi_buffer"))
"""What a loop may say beside its range: none of it changes what its turns are."""
Arm = tuple[str, int]
"""A branch, by its condition and the side of it: two that ask the same are taken together."""


@dataclass(frozen=True, slots=True)
class At:
    """Where a line stands."""

    loops: tuple[str, ...] = ()
    arms: tuple[Arm, ...] = ()
    leaving: frozenset[Arm] = frozenset()
    """Of its branches, those behind which the kernel is over."""
    ahead: bool = False
    """Whether a loop around it is told to load ahead."""


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression stands for: the terms of a sum, and what they are made of."""

    terms: tuple[str, ...]
    base: str = ""
    """The parameter that the sum begins with."""
    made_of: frozenset[str] = frozenset()
    """Axes of the grid, columns, and loops whose turns change it."""
    lanes: bool = False
    """Whether neighbours in it are neighbours in memory: a term is the columns themselves."""
    mixed: bool = False
    """Whether it adds up several that begin with a parameter: which of those is the pointer nobody knows."""


@dataclass(frozen=True, slots=True)
class Access:
    kind: str
    call: cst.Call
    place: Value
    mask: Value
    at: At

    @property
    def has_columns(self) -> bool:
        return COLUMNS in self.place.made_of

    @property
    def walk(self) -> frozenset[str]:
        """The loops around it that it goes on with."""
        return frozenset(self.at.loops) & self.place.made_of

    def may_come_before(self, other: Access) -> bool:
        """Whether one program may do both; the other stands behind it."""
        sides = dict(other.at.arms)
        apart = any(sides.get(asked, side) != side for asked, side in self.at.arms)
        return not apart and self.at.leaving <= set(other.at.arms)

    def in_branches_of_their_own(self, other: Access) -> bool:
        mine, others = set(self.at.arms), set(other.at.arms)
        return bool(mine - others) and bool(others - mine)


def _bound(node: cst.CSTNode) -> Iterator[tuple[str, bool]]:
    """Names that get a value in it, and whether it is the old one with something added."""
    for found in findall(node, BINDS):
        targets = [one.target for one in found.targets] if isinstance(found, cst.Assign) else [found.target]
        for name in (name for target in targets for name in findall(target, m.Name())):
            yield cst.ensure_type(name, cst.Name).value, isinstance(found, cst.AugAssign)


class _Reader:
    """Goes through a kernel's statements in order and knows at each what the names stand for."""

    def __init__(self, kernel: cst.FunctionDef) -> None:
        self.kernel = kernel
        self.known = {name: Value((name,), name) for name in source.parameters(kernel)}
        self.numbers: dict[object, str] = {}
        self.accesses: list[Access] = []
        self.handed_on: set[str] = set()

    def read(self) -> None:
        if findall(self.kernel.body, STRANGE):
            raise NotUnderstood("the kernel holds more than loops over ranges, branches and assignments")
        self._block(self.kernel.body, At())

    def axes(self) -> frozenset[str]:
        return frozenset(mark for call in kernels.calls(self.kernel, "program_id") for mark in _asks(call))

    def _new(self, key: object = None) -> str:
        """A word for something: the same for the same key."""
        return self.numbers.setdefault(object() if key is None else key, f"#{len(self.numbers)}")

    def _value(self, node: cst.BaseExpression) -> Value:
        node = addresses.without_casts(node)
        if isinstance(node, cst.Name):
            return self.known.get(node.value, Value((node.value,)))
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return _sum(self._value(node.left), self._value(node.right))
        return self._other(node)

    def _other(self, node: cst.BaseExpression) -> Value:
        """One term, the same wherever the same words stand for the same; what is loaded may have changed since."""
        calls = kernels.calls(node)
        names = {found.value for found in nodes(node, with_air=False) if isinstance(found, cst.Name)} & set(self.known)
        made_of = frozenset[str]().union(*(self.known[name].made_of for name in names), *map(_asks, calls))
        if any(_kind(call) for call in calls):
            return Value((self._new(),), made_of=made_of)
        key = (source.code(node), tuple(sorted((name, self.known[name].terms) for name in names)))
        inner = self._value(node.value) if isinstance(node, cst.Subscript) else None
        arange = isinstance(node, cst.Call) and kernels.called_name(node) == "arange"
        lanes = arange or (inner is not None and inner.lanes)
        return Value((self._new(key),), made_of=made_of, lanes=lanes)

    def _block(self, body: cst.BaseSuite, at: At) -> None:
        for statement in body.body:
            if isinstance(statement, cst.If):
                self._branches(statement, at)
            elif isinstance(statement, cst.For):
                self._loop(statement, at)
            else:
                self._accesses(statement, at)
                self._assign(statement)

    def _branches(self, node: cst.If, at: At) -> None:
        self._accesses(node.test, at)
        asked, before, ends = self._asked(node.test), self.known, []
        for side, branch in enumerate((node, node.orelse)):
            self.known, arm = dict(before), (asked, side)
            mine = node.body if branch is node else branch.body if isinstance(branch, cst.Else) else None
            leaves = mine is not None and m.matches(mine.body[-1], LEAVES)
            inside = replace(at, arms=(*at.arms, arm), leaving=at.leaving | {arm} if leaves else at.leaving)
            if mine is not None:
                self._block(mine, inside)
            elif isinstance(branch, cst.If):
                self._branches(branch, inside)
            ends += [] if leaves else [self.known]
        self.known = self._either(ends) if ends else before

    def _asked(self, test: cst.BaseExpression) -> str:
        value = self._value(test)
        return self._new(("asked", value.terms))

    def _either(self, ends: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name in {name for end in ends for name in end}:
            values = [end.get(name, Value((name,))) for end in ends]
            found[name] = values[0] if len(set(values)) == 1 else self._unknown(values)
        return found

    def _unknown(self, values: Sequence[Value], *more: str) -> Value:
        """One of these, or what a loop makes of them."""
        bases = {value.base for value in values}
        made_of = frozenset(more).union(*(value.made_of for value in values))
        base = bases.pop() if len(bases) == 1 else ""
        return Value((self._new(),), base, made_of, any(v.lanes for v in values), any(v.mixed for v in values))

    def _loop(self, node: cst.For, at: At) -> None:
        call = node.iter
        if not isinstance(call, cst.Call) or kernels.called_name(call) not in ranges.NAMES or node.orelse is not None:
            raise NotUnderstood("a loop is not over a range")
        said = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if not said <= OPTIONS or any(arg.star for arg in call.args) or not isinstance(node.target, cst.Name):
            raise NotUnderstood("a loop is not over a plain range")
        self._accesses(call, at)
        told = [self._value(arg.value) for arg in call.args if arg.keyword is None]
        turn = self._new(("turn", tuple(value.terms for value in told), len(at.loops)))
        made_of = frozenset((turn,)).union(*(value.made_of for value in told))
        self._change(node, turn)
        straight = ranges.straight_loop(node)
        self.known[cst.ensure_type(straight.target, cst.Name).value] = Value((turn,), made_of=made_of)
        ahead = any(arg.keyword is not None and arg.keyword.value == source.STAGES for arg in call.args)
        self._block(straight.body, replace(at, loops=(*at.loops, turn), ahead=at.ahead or ahead))
        self._change(node, turn)

    def _change(self, node: cst.For, turn: str) -> None:
        """Of what a loop gives a value, it is not known how often it did."""
        bound: dict[str, bool] = {}
        for name, grown in _bound(node):
            bound[name] = bound.get(name, True) and grown
        for name, grown in bound.items():
            old = self.known.get(name, Value((name,)))
            self.known[name] = self._unknown([old if grown else replace(old, base="")], turn)

    def _assign(self, statement: cst.BaseStatement | cst.BaseSmallStatement) -> None:
        for line in statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,):
            if isinstance(line, cst.AugAssign) and isinstance(line.target, cst.Name):
                old, more = self._value(line.target), self._value(line.value)
                if isinstance(line.operator, cst.AddAssign):
                    self.known[line.target.value] = _sum(old, more)
                else:
                    self.known[line.target.value] = Value((self._new(),), made_of=old.made_of | more.made_of)
            elif isinstance(line, cst.Assign | cst.AnnAssign) and line.value is not None:
                value, names = self._value(line.value), [name for name, _ in _bound(line)]
                alone = len(names) == 1
                for name in names:
                    self.known[name] = value if alone else Value((self._new(),), made_of=value.made_of)

    def _accesses(self, node: cst.CSTNode, at: At) -> None:
        """Those of a line or a condition, what it reads first."""
        calls = kernels.calls(node)
        if any(_kind(call) for one in findall(node, m.IfExp()) for call in kernels.calls(one)):
            raise NotUnderstood("a choice within a line decides what is read")
        for call in sorted(calls, key=lambda call: _kind(call) != LOAD):
            kind = _kind(call)
            if not kind:
                self.handed_on |= {self._value(arg.value).base for arg in call.args}
                continue
            if not call.args or call.args[0].keyword is not None or call.args[0].star:
                raise NotUnderstood("an access without an address")
            place = self._value(call.args[0].value)
            if not place.base:
                raise NotUnderstood("an address does not begin with a pointer of the kernel's")
            mask = kernels.argument(call, 1 if kind == LOAD else 2, "mask")
            self.accesses.append(Access(kind, call, place, Value(()) if mask is None else self._value(mask), at))


def _sum(left: Value, right: Value) -> Value:
    terms = tuple(sorted((*left.terms, *right.terms)))
    if len(terms) > MOST_TERMS:
        raise NotUnderstood("an address adds up too much")
    mixed = left.mixed or right.mixed or bool(left.base and right.base)
    return Value(terms, left.base, left.made_of | right.made_of, left.lanes or right.lanes, mixed)


def _asks(call: cst.Call) -> frozenset[str]:
    """What a call makes a value of."""
    name = kernels.called_name(call)
    if name == "program_id":
        axis = kernels.argument(call, 0, "axis")
        return frozenset((AXIS + (source.code(axis) if axis is not None else ""),))
    return frozenset((COLUMNS,)) if name == "arange" else frozenset()


def _kind(call: cst.Call) -> str:
    name = kernels.called_name(call)
    if name.startswith(ATOMIC):
        return ATOMIC
    return name if name in (LOAD, STORE) else ""


@dataclass(frozen=True, slots=True)
class RowReads:
    """Loads and stores of rows, each in the order of the text."""

    again: tuple[cst.Call, ...]
    """Loads of a row that is loaded again behind them."""
    last: tuple[cst.Call, ...]
    """The last loads of such rows."""
    once: tuple[cst.Call, ...]
    """Loads of rows that are loaded once."""
    stores: tuple[cst.Call, ...]
    """Stores of rows, by the walk over a row that is loaded again; none of them is read behind."""
    ahead: tuple[cst.Call, ...]
    """Of the loads, those in a loop that is told to load ahead."""


def _is_of_its_own(access: Access, axes: frozenset[str]) -> bool:
    """Whether no other program has these columns."""
    return access.has_columns and bool(axes) and axes <= access.place.made_of


def _is_same(one: Access, other: Access) -> bool:
    """Whether two loads, one behind the other, are of the same row."""
    if one.place.base != other.place.base or not one.may_come_before(other):
        return False
    if (one.place.terms, one.mask.terms) != (other.place.terms, other.mask.terms):
        raise NotUnderstood("two loads through a pointer may be of one row, or share what the cache holds of it")
    if one.in_branches_of_their_own(other):
        raise NotUnderstood("two loads of a row are in branches of which a program may take one or both")
    return True


def _refuse_written(loads: Sequence[Access], accesses: Sequence[Access]) -> None:
    """Raises NotUnderstood where a row may be read that the kernel has written."""
    places = {id(access): at for at, access in enumerate(accesses)}
    for load in loads:
        for other in accesses:
            if other.kind == LOAD or other.place.base != load.place.base:
                continue
            around = set(other.at.loops) & set(load.at.loops) and other.place.terms != load.place.terms
            if other.kind == ATOMIC or around or (places[id(other)] < places[id(load)] and other.may_come_before(load)):
                raise NotUnderstood("a row is written and then read")


def accesses(kernel: cst.FunctionDef) -> tuple[Access, ...]:
    """Every load, store and atomic, in the order of the text. Raises NotUnderstood as `row_reads` does."""
    reader = _Reader(kernel)
    reader.read()
    return tuple(reader.accesses)


def row_reads(kernel: cst.FunctionDef) -> RowReads:
    """Raises NotUnderstood where it is not sure which rows are read once and which again."""
    reader = _Reader(kernel)
    reader.read()
    own = [access for access in reader.accesses if _is_of_its_own(access, reader.axes())]
    if any(access.place.base in reader.handed_on for access in own):
        raise NotUnderstood("a pointer is handed on to a function")
    loads = [access for access in own if access.kind == LOAD]
    pairs = [(one, other) for at, one in enumerate(loads) for other in loads[at + 1 :] if _is_same(one, other)]
    rows = [load for load in loads if load.place.lanes]
    if any(set(load.at.loops) - load.place.made_of for load in rows):
        raise NotUnderstood("every turn of a loop reads the same row")
    _refuse_written(rows, reader.accesses)
    again = [load for load in rows if any(load is one for one, _ in pairs)]
    last = [load for load in rows if load not in again and any(load is other for _, other in pairs)]
    walks = {load.walk for load in last}
    return RowReads(
        again=tuple(load.call for load in again),
        last=tuple(load.call for load in last),
        once=tuple(load.call for load in rows if load not in again and load not in last),
        stores=tuple(one.call for one in own if one.kind == STORE and one.place.lanes and one.walk in walks),
        ahead=tuple(load.call for load in rows if load.at.ahead),
    )
