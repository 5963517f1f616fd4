"""How many elements one program of a kernel holds at a time, read from the kernel: its largest tile.

A constant that is called a block says it where there is one and the tile is a row of it. A program may as well hold a
square of it, the product of several, or something of other constants (a head's columns times the heads), and then it
wants more warps than any one of them tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

Shape = tuple[int, ...]
REDUCING = frozenset(("sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum"))
MADE = frozenset(("zeros", "full", "reshape", "view", "broadcast_to"))
"""Calls that are told a shape."""
DEEPEST = 4
"""Calls of helpers inside of helpers."""


def _together(*shapes: Shape) -> Shape:
    """The shape of an operation between tiles."""
    longest = max(map(len, shapes), default=0)
    padded = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    found = tuple(max(sizes) for sizes in zip(*padded, strict=True))
    if any(size not in (1, wanted) for shape in padded for size, wanted in zip(shape, found, strict=True)):
        raise NotUnderstood("tiles that do not fit each other")
    return found


class _Kernel:
    """One walk through a kernel with the constants of a launch."""

    def __init__(self, module: cst.Module, numbers: Mapping[str, int], depth: int = 0) -> None:
        self.module, self.numbers, self.depth = module, dict(numbers), depth
        self.shapes: dict[str, Shape] = {}
        self.largest = 1
        self.returned: Shape = ()

    def walk(self, statements: Sequence[cst.CSTNode]) -> None:
        for statement in statements:
            if isinstance(statement, cst.SimpleStatementLine):
                for part in statement.body:
                    self._does(part)
                continue
            if isinstance(statement, cst.For | cst.While | cst.If | cst.Else | cst.With):
                self.walk(statement.body.body)
            if isinstance(statement, cst.If) and statement.orelse is not None:
                self.walk([statement.orelse])

    def _does(self, part: cst.CSTNode) -> None:
        if isinstance(part, cst.Assign):
            for target in part.targets:
                self._assigns(target.target, part.value)
        elif isinstance(part, cst.AnnAssign) and part.value is not None:
            self._binds(source.code(part.target), self.shape(part.value), part.value)
        elif isinstance(part, cst.AugAssign):
            name = source.code(part.target)
            self._binds(name, _together(self.shapes.get(name, ()), self.shape(part.value)), None)
        elif isinstance(part, cst.Return):
            self.returned = self.shape(part.value) if part.value is not None else ()
        elif isinstance(part, cst.Expr):
            self.shape(part.value)

    def _assigns(self, target: cst.CSTNode, value: cst.BaseExpression) -> None:
        if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
            for one, its in zip(target.elements, value.elements, strict=False):
                self._assigns(one.value, its.value)
            return
        shape = self.shape(value)
        for name in findall(target, m.Name()):
            self._binds(source.code(name), shape, value)

    def _binds(self, name: str, shape: Shape, value: cst.BaseExpression | None) -> None:
        self.shapes[name] = shape
        number = self.number(value) if value is not None and shape == () else None
        if number is None:
            self.numbers.pop(name, None)
        else:
            self.numbers[name] = number

    def number(self, node: cst.BaseExpression | None) -> int | None:
        """What an expression of constants comes to."""
        return kernels.number(node, self.numbers)

    def _sizes(self, node: cst.BaseExpression | None) -> Shape:
        if isinstance(node, cst.Attribute) and node.attr.value == "shape":
            return self.shape(node.value)
        parts = [e.value for e in node.elements] if isinstance(node, cst.Tuple | cst.List) else [node]
        sizes = [self.number(part) for part in parts]
        if any(size is None or size < 1 for size in sizes):
            raise NotUnderstood("a tile of a size that the constants do not say")
        return tuple(size for size in sizes if size is not None)

    def shape(self, node: cst.CSTNode) -> Shape:
        found = self._shape(node)
        self.largest = max(self.largest, math.prod(found))
        return found

    def _shape(self, node: cst.CSTNode) -> Shape:
        match node:
            case cst.Name():
                return self.shapes.get(node.value, ())
            case cst.Subscript():
                return self._expanded(self.shape(node.value), node)
            case cst.Call():
                return self._called(node)
            case cst.Attribute():
                return tuple(reversed(self.shape(node.value))) if node.attr.value == "T" else ()
            case cst.BaseNumber() | cst.BaseString():
                return ()
        return _together(*(self.shape(child) for child in node.children))

    def _expanded(self, shape: Shape, node: cst.Subscript) -> Shape:
        """`x[:, None]`; of anything else a part, which is no larger."""
        indices = [element.slice for element in node.slice]
        if not shape or not all(isinstance(one, cst.Slice) or _is_none(one) for one in indices):
            return ()
        left = iter(shape)
        return tuple(1 if _is_none(one) else next(left, 1) for one in indices)

    def _called(self, call: cst.Call) -> Shape:
        name = kernels.called_name(call)
        method = isinstance(call.func, cst.Attribute) and source.code(call.func.value) not in kernels.LANGUAGE
        base = [call.func.value] if method and isinstance(call.func, cst.Attribute) else []
        given = [*base, *(arg.value for arg in call.args)]
        shapes = [self.shape(node) for node in given] if name not in MADE else []
        if name == "arange":
            return self._arange(call)
        if name in MADE:
            shape = kernels.argument(call, 0 if name in ("zeros", "full") or base else 1, "shape")
            return self._sizes(shape)
        if name in REDUCING and shapes:
            return self._reduced(shapes[0], call, at=0 if base else 1)
        if name == "dot" and len(shapes) > 1:
            return (*shapes[0][:-1], *shapes[1][-1:])
        if name in ("trans", "split", "expand_dims", "join", "permute", "ravel", "cat", "interleave", "gather"):
            return self._moved(name, shapes, call)
        helper = source.kernel_named(self.module, name) if isinstance(call.func, cst.Name) else None
        return self._helped(helper, call) if helper is not None else _together(*shapes)

    def _arange(self, call: cst.Call) -> Shape:
        start, end = (self.number(kernels.argument(call, at, said)) for at, said in enumerate(("start", "end")))
        if start is None or end is None or end <= start:
            raise NotUnderstood("a tile of a size that the constants do not say")
        return (end - start,)

    def _reduced(self, shape: Shape, call: cst.Call, at: int) -> Shape:
        axis = self.number(kernels.argument(call, at, "axis"))
        kept = kernels.argument(call, len(call.args), "keep_dims") is not None
        if axis is None or not -len(shape) <= axis < len(shape):
            return ()
        axis %= len(shape)
        return (*shape[:axis], *((1,) if kept else ()), *shape[axis + 1 :])

    def _moved(self, name: str, shapes: Sequence[Shape], call: cst.Call) -> Shape:
        match name:
            case "trans" if len(call.args) < 2:
                return tuple(reversed(shapes[0]))
            case "split":
                return shapes[0][:-1]
            case "expand_dims" if (axis := self.number(call.args[-1].value)) is not None and axis >= 0:
                return (*shapes[0][:axis], 1, *shapes[0][axis:])
            case "join":
                return (*_together(*shapes), 2)
        raise NotUnderstood("a tile that is turned")

    def _helped(self, helper: cst.FunctionDef, call: cst.Call) -> Shape:
        """A jitted function of the module, with what it is given."""
        if self.depth >= DEEPEST:
            raise NotUnderstood("helpers that call each other")
        inner = _Kernel(self.module, {}, self.depth + 1)
        for at, name in enumerate(source.parameters(helper)):
            value = kernels.argument(call, at, name)
            if value is not None:
                inner._binds(name, self.shape(value), None)
                number = self.number(value)
                if number is not None:
                    inner.numbers[name] = number
        inner.walk(source.statements(helper))
        self.largest = max(self.largest, inner.largest)
        return inner.returned


def _is_none(node: cst.BaseSlice) -> bool:
    return isinstance(node, cst.Index) and isinstance(node.value, cst.Name) and node.value.value == "None"


def _number_of(value: str) -> int | None:
    return int(value) if value.removeprefix("-").isdecimal() else None


PRIMES = [one for one in range(31, 400) if all(one % less for less in range(2, one))]
"""Sizes whose products differ, and that no source has."""


class _Sums(_Kernel):
    """Also what each `tl.sum` is of."""

    def __init__(self, module: cst.Module, numbers: Mapping[str, int]) -> None:
        super().__init__(module, numbers)
        self.summed: dict[cst.Call, Shape] = {}

    def _called(self, call: cst.Call) -> Shape:
        if kernels.called_name(call) == "sum" and call.args:
            self.summed[call] = self.shape(call.args[0].value)
        return super()._called(call)


def summed(module: cst.Module, kernel: cst.FunctionDef) -> Mapping[cst.Call, Shape]:
    """What each `tl.sum` of a kernel is of, where each constant stands for a size that no other has; nothing where the
    source does not say."""
    walk = _Sums(module, dict(zip(sorted(kernels.constants(kernel)), PRIMES, strict=False)))
    try:
        walk.walk(source.statements(kernel))
    except (NotUnderstood, RecursionError):
        return {}
    return walk.summed


@lru_cache(maxsize=256)
def elements(text: str, kernel: str, constants: tuple[tuple[str, str], ...]) -> int | None:
    """Of the largest tile, for a launch with these constants; None where the source does not say."""
    try:
        module = source.parse(text)
        definition = source.kernel_named(module, kernel)
        if definition is None:
            return None
        numbers = {name: number for name, value in constants if (number := _number_of(value)) is not None}
        walk = _Kernel(module, numbers)
        walk.walk(source.statements(definition))
    except (NotUnderstood, RecursionError):
        return None
    return walk.largest if walk.largest > 1 else None


def reads(text: str, kernel: str, name: str) -> bool:
    """Whether a kernel reads one of its parameters. One whose source is elsewhere is taken to."""
    try:
        definition = source.kernel_named(source.parse(text), kernel)
    except NotUnderstood:
        return True
    return definition is None or source.loads(definition.body, name) > 0
