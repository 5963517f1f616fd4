"""Where a kernel stores all columns of its row through a pointer, step by step, and does nothing else with it.

    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + row * y_stride + cols, y, mask=cols < n_cols)

All programs come to one such loop, but for those that return before it, in a branch that may hold another. What is not
understood is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, ranges, runs, source
from bot.engine.addresses import Names, Product
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

PROGRAM = "tl.program_id(0)"
LANES = "tl.arange(0, "
STORE = m.SimpleStatementLine(body=[m.Expr(value=m.Call(func=m.Attribute(value=m.Name("tl"), attr=m.Name("store"))))])
LEAVES = m.SimpleStatementLine(body=[m.ZeroOrMore(), m.Return(value=None)])


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor of the host that a launch gets, with its sizes in the host's words."""

    site: LaunchSite
    kernel: cst.FunctionDef
    pointer: str
    name: str
    rows: str
    columns: str

    def told(self, parameter: str) -> str:
        """What the launch hands over for a parameter; empty where it says nothing."""
        try:
            return source.code(runs.given(self.site, self.kernel, parameter))
        except NotUnderstood:
            return ""

    @property
    def stride(self) -> str:
        """The parameter that is told how far the rows lie from each other."""
        said = (f"{self.name}.stride(0)", f"{self.name}.stride(-2)")
        known = [parameter for parameter in source.parameters(self.kernel) if self.told(parameter) in said]
        if len(known) != 1:
            raise NotUnderstood("the stride of the rows is not handed over once")
        return known[0]


@dataclass(frozen=True, slots=True)
class Stored:
    """`tl.store(address, value, mask=mask)` in a line of a loop over the columns."""

    loop: cst.For
    line: cst.SimpleStatementLine
    call: cst.Call
    base: str = ""
    """Where the row begins, in words that mean the same behind the loop."""

    @property
    def address(self) -> cst.BaseExpression:
        return self.call.args[0].value

    @property
    def value(self) -> cst.BaseExpression:
        return self.call.args[1].value

    @property
    def mask(self) -> cst.BaseExpression | None:
        return kernels.argument(self.call, 2, "mask")


def _blocks(body: cst.BaseSuite) -> Iterator[cst.BaseSuite]:
    """The kernel's own statements, and those of every branch."""
    yield body
    for statement in body.body:
        branch: cst.CSTNode | None = statement
        while isinstance(branch, cst.If | cst.Else):
            yield from _blocks(branch.body)
            branch = branch.orelse if isinstance(branch, cst.If) else None


def _stores_in(loop: cst.For, pointers: frozenset[str]) -> Iterator[Stored]:
    for line in loop.body.body:
        if isinstance(line, cst.SimpleStatementLine) and m.matches(line, STORE):
            call = kernels.calls(line, "store")[0]
            if len(call.args) == 3 and any(source.loads(call, pointer) for pointer in pointers):
                yield Stored(loop, line, call)


def _stores(kernel: cst.FunctionDef, pointers: frozenset[str]) -> list[Stored]:
    """One in the loop that programs come to at last, and at most one in a branch that returns."""
    found = []
    for block in _blocks(kernel.body):
        loops = [statement for statement in block.body if isinstance(statement, cst.For)]
        mine = [one for loop in loops for one in _stores_in(loop, pointers)]
        is_last, returns = block is kernel.body, m.matches(block.body[-1], LEAVES)
        if len(mine) > 1 or (is_last and not mine) or (mine and is_last == returns):
            raise NotUnderstood("a row is stored twice, or not by all programs that come to the end")
        found += mine
    return found


def _bound(loop: cst.For) -> list[str]:
    """The names that a turn of the loop gives a value, as often as it does."""
    targets: list[cst.CSTNode] = [loop.target, *findall(loop.body, m.AssignTarget())]
    targets += [cst.ensure_type(found, cst.AugAssign).target for found in findall(loop.body, m.AugAssign())]
    return [found.value for one in targets for found in findall(one, m.Name()) if isinstance(found, cst.Name)]


def _at(one: Stored, names: Names) -> Names:
    """What names stand for where the store is: what the loop made of them, if it did so once and before."""
    if findall(one.loop.body, m.For() | m.NamedExpr() | m.AnnAssign()):
        raise NotUnderstood("the loop over the columns holds more than assignments and branches")
    bound, made = _bound(one.loop), {}
    for line in one.loop.body.body:
        if line is one.line:
            break
        name = next(iter(source.targets(line)), "")
        if source.is_plain(line, name) and bound.count(name) == 1:
            made[name] = source.value(line)
    kept = {name: value for name, value in names.made.items() if name not in bound}
    return Names({**kept, **made}, names.moved, names.unknown)


class _Row:
    """One pointer of a kernel with a row a program."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix, self.kernel = matrix, matrix.kernel
        self.names = addresses.names_of(matrix.kernel)
        self.pointers = addresses.derived(matrix.pointer, self.names)
        self.row = tuple(sorted((PROGRAM, matrix.stride)))

    def stores(self) -> list[Stored]:
        if kernels.program_axes(self.kernel) != [0] or runs.grid_of(self.matrix.site) != (self.matrix.rows,):
            raise NotUnderstood("it is not one program a row")
        if findall(self.kernel, m.While() | m.Break() | m.Continue()):
            raise NotUnderstood("it may end early")
        found = [replace(one, base=self._base(one)) for one in _stores(self.kernel, self.pointers)]
        self._serve_alone(found)
        return found

    def _serve_alone(self, found: list[Stored]) -> None:
        """Raises NotUnderstood where pointer or stride are read for anything but these stores."""
        names, pointers = self.names, self.pointers
        moved = [names.moved[pointer] for pointer in pointers if pointer in names.moved]
        made = [names.made[pointer] for pointer in pointers if pointer in names.made]
        body, lines = source.statements(self.kernel), {id(one.line) for one in found}
        begins = min(at for at, one in enumerate(body) if any(id(line) in lines for line in findall(one, STORE)))
        first = {name for statement in body[:begins] for name in source.targets(statement)}
        moves = m.AugAssign(target=m.Name(self.matrix.pointer))
        if not pointers - {self.matrix.pointer} <= first or any(findall(one, moves) for one in body[begins:]):
            raise NotUnderstood("the pointer goes on in a branch or a loop, or behind a store")
        places = [*made, *moved, *(one.address for one in found)]
        known = sum(source.loads(place, pointer) for place in places for pointer in pointers) + len(moved)
        if sum(source.loads(self.kernel, pointer) for pointer in pointers) != known:
            raise NotUnderstood("the pointer serves for more than the stores of a row")
        stride = self.matrix.stride
        if source.loads(self.kernel, stride) != sum(source.loads(place, stride) for place in places):
            raise NotUnderstood("the stride serves for more than the pointer")

    def _base(self, one: Stored) -> str:
        """Where the row begins, once it is sure that the loop stores all columns of it."""
        names, loop = _at(one, self.names), one.loop
        if findall(loop, m.Return()) or loop.orelse is not None or not isinstance(loop.iter, cst.Call):
            raise NotUnderstood("the loop over the columns may end early")
        width, block, columns = self._columns(one, names)
        if sorted(addresses.terms(one.address, names)) != sorted([(self.matrix.pointer,), self.row, *columns]):
            raise NotUnderstood("the store is not of a column of its row")
        steps = [source.code(arg.value) for arg in loop.iter.args]
        if kernels.called_name(loop.iter) not in ranges.NAMES:
            raise NotUnderstood("the loop over the columns is no range")
        if steps != ["0", width, block] or self.matrix.told(width) != self.matrix.columns:
            raise NotUnderstood("the loop is not over all columns")
        if {width, block} & self.names.unknown or not {width, block} <= set(source.parameters(self.kernel)):
            raise NotUnderstood("width and block are not the launch's")
        return self._without(one, columns, names)

    def _columns(self, one: Stored, names: Names) -> tuple[str, str, list[Product]]:
        """Width and block of the mask `start + tl.arange(0, block) < width`, and the terms of its columns."""
        mask = names.made.get(one.mask.value) if isinstance(one.mask, cst.Name) else one.mask
        below = m.Comparison(comparisons=[m.ComparisonTarget(operator=m.LessThan(), comparator=m.Name())])
        if not isinstance(mask, cst.Comparison) or not m.matches(mask, below):
            raise NotUnderstood("the store is not masked by its columns")
        terms = addresses.terms(mask.left, names)
        start = [term for term in terms if term == (source.code(one.loop.target),)]
        lanes = [term for term in terms if len(term) == 1 and term[0].startswith(LANES)]
        if len(terms) != 2 or len(start) != 1 or len(lanes) != 1:
            raise NotUnderstood("the columns are not those of the loop")
        block = lanes[0][0].removeprefix(LANES).removesuffix(")")
        return source.code(mask.comparisons[0].comparator), block, [start[0], lanes[0]]

    def _without(self, one: Stored, columns: list[Product], names: Names) -> str:
        """The address without the columns, in names that the loop leaves as they are."""
        rest = [p for p in addresses.parts(one.address) if not set(addresses.terms(p, names)) & set(columns)]
        if not rest or any(findall(part, m.Name(name)) for part in rest for name in _bound(one.loop)):
            raise NotUnderstood("where the row begins has no name behind the loop")
        return " + ".join(map(source.code, rest))


def stores_of(matrix: Matrix) -> list[Stored]:
    """Raises NotUnderstood unless each program stores its row through the pointer, and nothing reads it. Those of the
    kernel's own body come before those of its branches."""
    return _Row(matrix).stores()
