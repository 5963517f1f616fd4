"""Reads a kernel that adds up one product in each of its tiles, and meets memory through tensor descriptors alone.

What such a kernel does with a tile is the same for a tile of any size: a descriptor ends at its tensor, whatever the
block, and each number of the sum is of its own row and column. So little is understood here, line by line, and anything
else is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, ranges, reckoning, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.descriptors import Shape, sides_of, without_ones
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.tiles_on_paper import Tiles

ZEROS = m.Call(func=m.Attribute(m.Name("tl"), m.Name("zeros")))
DOT = m.Call(func=m.Attribute(m.Name("tl"), m.Name("dot")))
FLOAT32 = m.Attribute(m.Name("tl"), m.Name("float32"))
ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
OF_A_DOT = frozenset(("acc", "input_precision", "allow_tf32"))
MEETS_MEMORY = ("load", "store", "gather", "scatter", "dot")


@dataclass(frozen=True, slots=True)
class Product:
    tiles: Tiles
    step: str
    """The constant that its loops go by."""


@dataclass(slots=True)
class _Reader:
    """Goes through the lines of a kernel, in their order."""

    module: cst.Module
    kernel: cst.FunctionDef
    blocks: Mapping[str, Shape]
    constants: frozenset[str]
    """Those that the list gives."""
    sides: Shape = ()
    sum: str = ""
    step: str = ""
    turn: str = ""
    """What the loop counts that it is in."""
    stored: int = 0
    shapes: dict[str, Shape] = field(default_factory=dict)
    """Of the tiles that are there."""
    types: set[str] = field(default_factory=set)
    """Names of types of numbers."""
    begins: dict[str, str] = field(default_factory=dict)
    """By its side, where a tile begins."""
    axes: set[int] = field(default_factory=set)

    def read(self) -> Product:
        for line in source.statements(self.kernel):
            if m.matches(line, kernels.DOCSTRING):
                continue
            self._loop(line) if isinstance(line, cst.For) else self._line(line)
        if not self.step or not self.stored or set(self.begins) != set(self.sides):
            raise NotUnderstood("it adds nothing up, or stores nothing")
        rows, columns = self.sides
        begins = self.begins[rows], self.begins[columns]
        return Product(Tiles((rows, columns), begins, frozenset(self.axes)), self.step)

    def _line(self, line: cst.CSTNode) -> None:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            raise NotUnderstood("nobody follows what it does")
        match line.body[0]:
            case cst.Expr(value=cst.Call() as call):
                self._store(call)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                self._assign(line, name, value)
            case cst.Assign():
                self._reckon(line)
            case cst.AugAssign(target=cst.Name(value=name), operator=cst.AddAssign(), value=cst.Call() as call):
                if name != self.sum or kernels.argument(call, 2, "acc") is not None:
                    raise NotUnderstood("something else is added up")
                self._multiply(call)
            case _:
                raise NotUnderstood("nobody follows what it does")

    def _assign(self, line: cst.CSTNode, name: str, value: cst.BaseExpression) -> None:
        if name in source.parameters(self.kernel) or name in self.types or name == self.turn:
            raise NotUnderstood("a name means two things")
        if m.matches(value, ZEROS):
            self._begin_sum(name, cst.ensure_type(value, cst.Call))
        elif name == self.sum and m.matches(value, DOT):
            call = cst.ensure_type(value, cst.Call)
            if source.code(kernels.argument(call, 2, "acc") or cst.Ellipsis()) != self.sum:
                raise NotUnderstood("it is not added to the sum")
            self._multiply(call)
        elif m.matches(value, m.Attribute(m.Name(), m.Name("dtype"))) and self._is_descriptor(value.value):
            if times_bound(self.kernel, name) != 1:
                raise NotUnderstood("a name means two things")
            self.types.add(name)
        elif (shape := self._shape(value)) is not None:
            if name == self.sum and self.turn:
                raise NotUnderstood("the sum is more than a sum")
            self.shapes[name] = shape
        else:
            self._reckon(line)

    def _reckon(self, line: cst.CSTNode) -> None:
        """Numbers, which no tile is made of: whoever asks for places follows them."""
        names = bound_in(line)
        parameters = source.parameters(self.kernel)
        if self.turn or any(times_bound(self.kernel, name) != 1 or name in parameters for name in names):
            raise NotUnderstood("a number is another one later")
        called = kernels.calls(line)
        if any(kernels.called_name(one) in MEETS_MEMORY for one in called) or self._mentions_tiles(line):
            raise NotUnderstood("it does more with a tile")
        if not all(reckoning.reckons(one, self.module, self.kernel) for one in called) or findall(line, m.NamedExpr()):
            raise NotUnderstood("nobody can tell what it calls")

    def _mentions_tiles(self, node: cst.CSTNode) -> bool:
        return any(findall(node, m.Name(name)) for name in (*self.shapes, *self.blocks))

    def _is_descriptor(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Name) and node.value in self.blocks and node.value in source.parameters(self.kernel)

    def _begin_sum(self, name: str, call: cst.Call) -> None:
        shape, kind = sides_of(kernels.argument(call, 0, "shape")), kernels.argument(call, 1, "dtype")
        if self.sum or self.turn or len(shape) != 2 or len({*shape}) != 2 or not self.constants >= {*shape}:
            raise NotUnderstood("there are several sums, or one of another shape")
        if kind is None or not m.matches(kind, FLOAT32) or self.shapes:
            raise NotUnderstood("it adds up in another type, or what was loaded is there meanwhile")
        self.sum, self.sides, self.shapes[name] = name, shape, shape

    def _loop(self, loop: cst.For) -> None:
        walk = ranges.walk_of(loop)
        if walk is None or walk.counts or len(cst.ensure_type(loop.iter, cst.Call).args) != 3 or loop.orelse:
            raise NotUnderstood("a loop goes in another way")
        end = walk.end in source.parameters(self.kernel) and walk.end not in self.constants
        if not end or times_bound(self.kernel, walk.end) or self.step not in ("", walk.block) or self.stored:
            raise NotUnderstood("loops go by other steps, to another end, or behind what is stored")
        if walk.block not in self.constants - {*self.sides} or self.shapes != {self.sum: self.sides}:
            raise NotUnderstood("its step is no constant, or a tile is there meanwhile")
        others = findall(self.kernel.body, m.For(target=m.Name(walk.target)))
        if times_bound(self.kernel, walk.target) != len(others) or len(kernels.calls(loop.body, "dot")) != 1:
            raise NotUnderstood("it counts something else too, or makes several products a turn")
        self.step, self.turn = walk.block, walk.target
        for line in loop.body.body:
            self._line(line)
        self.turn, self.shapes = "", {self.sum: self.sides}

    def _multiply(self, call: cst.Call) -> None:
        words = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        plain = len(call.args) - len(words)
        if not m.matches(call, DOT) or any(arg.star for arg in call.args) or not words <= OF_A_DOT:
            raise NotUnderstood("a product says more")
        if any(findall(call, m.Name(name)) for name in self.constants):
            raise NotUnderstood("how it multiplies depends on the tile")
        if not self.turn or plain not in (2, 3):
            raise NotUnderstood("a product is no turn's, or is given in another way")
        rows, columns = self.sides
        wanted = (rows, self.step), (self.step, columns)
        if tuple(self._shape(arg.value) for arg in call.args[:2]) != wanted:
            raise NotUnderstood("something else is multiplied")

    def _shape(self, node: cst.BaseExpression) -> Shape | None:
        """Of a tile, as the lines before it made it; None of what is no tile."""
        match node:
            case cst.Name(value=name):
                return self.shapes.get(name)
            case cst.BinaryOperation(left=left, right=right, operator=operator):
                return self._scaled(left, right, operator) or self._scaled(right, left, operator)
            case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value="reshape")), args=[x, to]):
                shape, new = self._shape(x.value), sides_of(to.value)
                if shape is None or without_ones(shape) != without_ones(new):
                    raise NotUnderstood("a tile is put into another shape")
                return new
            case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value="trans")), args=[x]):
                shape = self._shape(x.value)
                return shape[::-1] if shape is not None and len(shape) == 2 else None
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="load")), args=[places]):
                if not self._is_descriptor(owner) or not self.turn:
                    raise NotUnderstood("something is loaded in another way, or outside of the loops")
                return self._block(owner, places.value)
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="to")), args=[kind]):
                return self._shape(inner) if self._is_type(kind.value) else None
        return None

    def _scaled(self, tile: cst.BaseExpression, by: cst.BaseExpression, operator: cst.BaseBinaryOp) -> Shape | None:
        """Of a tile times a number that is the same for all tiles."""
        given = isinstance(by, cst.Name) and by.value in source.parameters(self.kernel) and by.value not in self.blocks
        told = given and not times_bound(self.kernel, source.code(by)) and source.code(by) not in self.constants
        plain = isinstance(by, cst.Integer | cst.Float) or told
        return self._shape(tile) if plain and isinstance(operator, ARITHMETIC) else None

    def _is_type(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Attribute) and m.matches(node, m.Attribute(m.Name(), m.Name("dtype"))):
            return self._is_descriptor(node.value)
        language = m.matches(node, m.Attribute(m.Name("tl"), m.Name()))
        return language or (isinstance(node, cst.Name) and node.value in self.types)

    def _block(self, descriptor: cst.BaseExpression, places: cst.BaseExpression) -> Shape:
        """The block of a descriptor at places that are those of its sides."""
        block = self.blocks[source.code(descriptor)]
        said = [one.value for one in places.elements] if isinstance(places, cst.List | cst.Tuple) else []
        if len(said) != len(block):
            raise NotUnderstood("nobody can tell where a block is")
        for place, side in zip(said, block, strict=True):
            if side == "1":
                self._refuse_moving(place)
            elif side in self.sides:
                self._begin(place, side)
            elif side != self.step or not self.turn or source.code(place) != self.turn:
                raise NotUnderstood("a block is none of the turn's")
        return block

    def _begin(self, place: cst.BaseExpression, side: str) -> None:
        """A place that is so many a tile."""
        name = source.code(place)
        made = addresses.names_of(self.kernel).made.get(name)
        if self.begins.setdefault(side, name) != name or not isinstance(made, cst.BinaryOperation):
            raise NotUnderstood("a tile begins in several places")
        if not isinstance(made.operator, cst.Multiply) or side not in map(source.code, (made.left, made.right)):
            raise NotUnderstood("a tile does not begin at so many of its sides")

    def _refuse_moving(self, place: cst.BaseExpression) -> None:
        """Raises NotUnderstood unless it is a number, or a place on an axis of the grid."""
        if isinstance(place, cst.Integer):
            return
        made = addresses.names_of(self.kernel).made
        told = source.code(addresses.without_casts(made.get(source.code(place), place)))
        if told not in kernels.PROGRAMS:
            raise NotUnderstood("where a block is nobody can tell")
        self.axes.add(kernels.PROGRAMS[told])

    def _store(self, call: cst.Call) -> None:
        args = call.args
        if not m.matches(call.func, m.Attribute(m.Name(), m.Name("store"))) or len(args) != 2 or self.turn:
            raise NotUnderstood("it does something else, or stores in a loop")
        owner = cst.ensure_type(call.func, cst.Attribute).value
        if not self._is_descriptor(owner) or any(arg.keyword is not None or arg.star for arg in args):
            raise NotUnderstood("it stores in another way")
        shape = self._shape(args[1].value)
        if shape != self._block(owner, args[0].value) or without_ones(shape) != self.sides:
            raise NotUnderstood("something else is stored")
        self.stored += 1


def read(
    module: cst.Module, kernel: cst.FunctionDef, shapes: Mapping[str, Shape], constants: frozenset[str]
) -> Product:
    """Raises NotUnderstood unless it is such a kernel."""
    return _Reader(module, kernel, shapes, constants).read()
