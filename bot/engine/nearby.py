"""Numbers that a rewrite of ours chose for a launch, one of them at a time as its neighbours are: half and twice as
much, a stage more and one less.

A rewrite brings numbers with it: rows a turn, rows ahead, shares a step, the width up to which each holds. They were
chosen on some kernels of some library, and nobody knows that they suit this one. Lines that the rewrite left as they
were are not looked at: those numbers are the library's own, for whatever GPU it runs on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from bot.engine import gates, kernels, source
from bot.engine.finding import findall, nodes
from bot.engine.processors import COUNT
from bot.engine.source import STAGES, WARPS

MOST = 32
"""Of one source. Each costs a compilation and a dozen blocks of the cases that launch it."""
MOST_WARPS, MOST_STAGES, MOST_HELD = 32, 5, 65536
ORDERED = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
OF_ITS_KIND = ("capability", "stride(", ".dtype", ".dim()", ".ndim", "version")
"""Words of a question that is not about how much there is."""
DEPTH = 4
"""From a launch to what its numbers are made of, and of what those are."""
SHAPES = {"arange": 2, "zeros": 1, "full": 1}
"""How many of what a call is given say how much there is of it."""
EACH = re.compile(r"\b(\d+)( elements a thread)")
"""A block by 512 is 16 of them on 32 threads of a warp."""
STEP = 2
"""Where a range is given its step."""
Values = frozenset[int] | None
"""What a launch may be given; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Nearby:
    """A source with one number changed."""

    place: int
    """Which of the numbers of the source, counted from its beginning."""
    was: int
    now: int
    name: str
    """What it is a number of, as the source calls it."""
    line: int
    kernels: tuple[str, ...]
    """Whose launches it may change."""
    text: str
    given: str = ""
    values: Values = None
    """Only launches that are given one of these values by that name can be others then."""

    @property
    def slug(self) -> str:
        return f"n{self.place}_{self.now}"

    @property
    def says(self) -> str:
        return f"{self.now} in place of {self.was} for {self.name} (line {self.line})"


@dataclass(frozen=True, slots=True)
class _Place:
    node: cst.Integer
    name: str
    """Of the variable that it makes, or of what the launch is given."""
    kind: str
    """`warps`, `stages`, `size`, or `bound`."""
    given: str = ""
    less: Values = None
    """Of what is given by that name, the values that a smaller number may change."""
    more: Values = None
    """And a larger one."""
    is_divisor: bool = False
    is_made: bool = False
    """Whether a variable holds it, or what it is a part of."""

    @property
    def says(self) -> str:
        part = "the bound of " if self.kind == "bound" else "the divisor of " if self.is_divisor else ""
        return f"{part}{self.name}"


@dataclass(frozen=True, slots=True)
class _Path:
    """How a number was come to."""

    given: str
    """The parameter of the launch; empty for its grid."""
    kind: str
    new: bool
    """Whether the line is one of ours."""
    is_whole: bool = True
    """Whether the number, where it is taken, is what the launch is given."""
    depth: int = 0

    @property
    def is_part(self) -> bool:
        """Whether it is one of several that make a size, and the largest or smallest of them counts: half of a row that
        is given as half of a row is no size to choose."""
        return bool(self.kind) and not self.is_whole


def _asks_what_it_is(test: cst.BaseExpression) -> bool:
    """Whether a comparison is about the kind of a thing, and not about how much there is."""
    return any(word in source.code(test) for word in OF_ITS_KIND)


def _grows_with(test: cst.BaseExpression, target: cst.ComparisonTarget) -> bool:
    """Whether what holds of a comparison holds of the whole: it is that, or one of several below `and` and `or`."""
    if isinstance(test, cst.BooleanOperation):
        return _grows_with(test.left, target) or _grows_with(test.right, target)
    return isinstance(test, cst.Comparison) and [target] == list(test.comparisons)


def _lines(text: str) -> frozenset[str]:
    return frozenset(line.strip().removesuffix(",") for line in text.splitlines())


def _sized(kernel: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """What says how much a program holds, or how far a loop steps."""
    for call in kernels.calls(kernel):
        name = kernels.called_name(call)
        if name in SHAPES:
            yield from (argument.value for argument in call.args[: SHAPES[name]])
        elif name == "range" and len(call.args) > STEP and call.args[STEP].keyword is None:
            yield call.args[STEP].value


def _extents(kernel: cst.FunctionDef, module: cst.Module, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Constants that are sizes, here or in what the kernel calls."""
    names = {node.value for part in _sized(kernel) for node in nodes(part) if isinstance(node, cst.Name)}
    for call in kernels.calls(kernel):
        name = kernels.called_name(call)
        helper = source.kernel_named(module, name) if isinstance(call.func, cst.Name) and name not in seen else None
        if helper is None:
            continue
        told = [kernels.told(call, helper, size) for size in _extents(helper, module, seen | {name})]
        names |= {given.value for given in told if isinstance(given, cst.Name)}
    return frozenset(names & kernels.constants(kernel))


def _ahead(kernel: cst.FunctionDef) -> frozenset[str]:
    """Constants that say how many steps of a loop are under way."""
    given = findall(kernel, m.Arg(keyword=m.Name(STAGES), value=m.Name()))
    return frozenset(cst.ensure_type(cst.ensure_type(arg, cst.Arg).value, cst.Name).value for arg in given)


def _kind(name: str, kernel: cst.FunctionDef, module: cst.Module) -> str:
    if name in (WARPS, STAGES):
        return "warps" if name == WARPS else "stages"
    if name in _ahead(kernel):
        return "stages"
    return "size" if name in _extents(kernel, module) else ""


class _Reader:
    """Follows what a launch is given to the numbers it is made of, in lines that the source before has not."""

    def __init__(self, function: cst.FunctionDef, before: str) -> None:
        self._before, self._known = before, _lines(before)
        self._given: dict[str, list[tuple[cst.BaseExpression, bool]]] = {}
        for line in findall(function, m.SimpleStatementLine(body=[m.Assign()])):
            for name, value in self._pairs(cst.ensure_type(line, cst.SimpleStatementLine)):
                self._given.setdefault(name, []).append((value, self.is_new(line)))
        asked = [line for line in findall(function, m.SimpleStatementLine()) if findall(line, COUNT)]
        self._counts_once = sum(map(self.is_new, asked)) == 1
        """Whoever counts twice has made room for so many programs elsewhere."""
        left = [*findall(function, m.Return()), *findall(function, m.Assign(targets=[m.AssignTarget(m.Attribute())]))]
        self.leaving = frozenset(node.value for one in left for node in nodes(one) if isinstance(node, cst.Name))
        """Names whose values go on to other functions."""

    def is_new(self, node: cst.CSTNode) -> bool:
        bare = node.with_changes(leading_lines=()) if isinstance(node, cst.SimpleStatementLine) else node
        return not _lines(source.code(bare)) <= self._known | {""}

    def was_said(self, argument: cst.Arg) -> bool:
        """Whether somebody gave it to a launch before, be it another: what stands in one line with others is no line
        that is known."""
        return source.code(argument) in self._before

    def _pairs(self, line: cst.SimpleStatementLine) -> Iterator[tuple[str, cst.BaseExpression]]:
        names, value = source.targets(line), source.value(line)
        if len(names) == 1 and source.is_plain(line, names[0]):
            yield names[0], value
        elif isinstance(value, cst.Tuple) and len(value.elements) == len(names):
            yield from zip(names, (element.value for element in value.elements), strict=True)

    def places(self, name: str, value: cst.BaseExpression, path: _Path) -> Iterator[_Place]:
        """Nothing of a number without a kind: of a grid, those alone that a count of multiprocessors is taken by."""
        match value:
            case cst.Integer() if path.new and path.kind:
                mine = frozenset({int(value.value, 0)}) if path.is_whole and path.given else None
                yield _Place(value, name, path.kind, path.given, mine, mine, is_made=path.depth > 0)
            case cst.IfExp():
                yield from self._bounds(name, value, path)
                for side in gates.sides(value):
                    yield from self.places(name, side, path)
            case cst.Call(func=cst.Name(value="min" | "max")):
                for argument in value.args:
                    yield from self.places(name, argument.value, replace(path, is_whole=False))
            case cst.Tuple():
                for element in value.elements:
                    yield from self.places(name, element.value, path)
            case cst.BinaryOperation(operator=cst.FloorDivide(), right=cst.Integer()) if path.new and path.is_part:
                yield _Place(value.right, name, "size", is_divisor=True, is_made=path.depth > 0)
            case cst.BinaryOperation(operator=cst.Multiply()) if findall(value, COUNT) and self._counts_once:
                for side in (value.left, value.right):
                    yield from self.places(name, side, replace(path, given="", kind="size"))
            case cst.Name() if path.depth < DEPTH:
                for given, is_new in self._given.get(value.value, ()):
                    yield from self.places(value.value, given, replace(path, new=is_new, depth=path.depth + 1))

    def _bounds(self, name: str, choice: cst.IfExp, path: _Path) -> Iterator[_Place]:
        """The numbers up to which something holds, where a line of ours says so."""
        test = choice.test
        tests = self._given.get(test.value, ()) if isinstance(test, cst.Name) else ((test, path.new),)
        for one in (one for one, is_new in tests if is_new and path.kind and not _asks_what_it_is(one)):
            for found in findall(one, m.ComparisonTarget(comparator=m.Integer())):
                target = cst.ensure_type(found, cst.ComparisonTarget)
                number = cst.ensure_type(target.comparator, cst.Integer)
                place = _Place(number, name, "bound", is_made=path.depth > 0)
                if not isinstance(target.operator, ORDERED):
                    continue
                known = _grows_with(one, target) and path.is_whole and path.given
                yield self._told(place, choice, target, path) if known else place

    def _told(self, place: _Place, choice: cst.IfExp, target: cst.ComparisonTarget, path: _Path) -> _Place:
        """With a smaller bound less of what holds holds, and with a larger one more: who is another then was given this
        or that side of the choice."""
        sides = [self._values(side, path.depth) for side in (choice.body, choice.orelse)]
        if isinstance(target.operator, cst.GreaterThan | cst.GreaterThanEqual):
            sides.reverse()
        return replace(place, given=path.given, less=sides[0], more=sides[1])

    def _values(self, value: cst.BaseExpression, depth: int) -> Values:
        """All that an expression may come to."""
        match value:
            case cst.Integer():
                return frozenset({int(value.value, 0)})
            case cst.IfExp():
                parts = [self._values(side, depth) for side in gates.sides(value)]
            case cst.Name() if depth < DEPTH and value.value in self._given:
                parts = [self._values(given, depth + 1) for given, _ in self._given[value.value]]
            case _:
                return None
        known = [part for part in parts if part is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None

    def kernels(self, name: str) -> Iterator[str]:
        """Whatever may be launched by a name: a kernel by its own, or the one that the function chose."""
        chosen = [given for given, _ in self._given.get(name, ()) if isinstance(given, cst.IfExp)]
        sides = [side.value for one in chosen for side in (one.body, one.orelse) if isinstance(side, cst.Name)]
        yield from sides or (name,)


@dataclass(frozen=True, slots=True)
class _Launch:
    call: cst.Call
    kernels: tuple[cst.FunctionDef, ...]

    @property
    def grid(self) -> cst.BaseExpression:
        index = cst.ensure_type(self.call.func, cst.Subscript).slice[0].slice
        return cst.ensure_type(index, cst.Index).value

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(kernel.name.value) for kernel in self.kernels)


def _launches(function: cst.FunctionDef, module: cst.Module, reader: _Reader) -> Iterator[_Launch]:
    """Those of kernels that say nothing of how they are launched themselves."""
    known = {str(kernel.name.value): kernel for kernel in kernels.kernels(module)}
    for found in findall(function, source.LAUNCH):
        call = cst.ensure_type(found, cst.Call)
        name = source.launched(call)
        of = tuple(known[one] for one in reader.kernels(name) if one in known)
        if of:
            yield _Launch(call, of)


def _of_launch(launch: _Launch, module: cst.Module, reader: _Reader, *, new: bool) -> Iterator[_Place]:
    for argument in launch.call.args:
        name = argument.keyword.value if argument.keyword is not None else ""
        if kind := next(filter(None, (_kind(name, kernel, module) for kernel in launch.kernels)), ""):
            told = new or not reader.was_said(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            if isinstance(argument.value, cst.Integer) and argument.value.value in source.code(launch.grid):
                continue  # the grid is made of it as well
            yield from reader.places(name, argument.value, _Path(name, kind, told))
    yield from reader.places("programs", launch.grid, _Path("", "", new))


def _others(place: _Place) -> tuple[int, ...]:
    """The nearest two that such a number may be."""
    was = int(place.node.value, 0)
    if place.kind == "stages":
        return tuple(now for now in (was + 1, was - 1) if 1 <= now <= MOST_STAGES and was)
    most = {"warps": MOST_WARPS, "size": MOST_HELD}.get(place.kind, 2 * was)
    halves = (was // 2,) if was > 1 and was % 2 == 0 else ()
    return tuple(now for now in (*halves, 2 * was) if 1 <= now <= most)


def _places(module: cst.Module, before: str, launched: frozenset[str]) -> dict[cst.Integer, tuple[_Place, list[str]]]:
    """Each number with the kernels whose launches are given it."""
    found: dict[cst.Integer, tuple[_Place, list[str]]] = {}
    every = tuple(str(kernel.name.value) for kernel in kernels.kernels(module))
    for function in source.all_functions(module):
        reader = _Reader(function, before)
        for launch in _launches(function, module, reader):
            new = not any(f"def {name}(" in before for name in launch.names)
            for place in _of_launch(launch, module, reader, new=new) if launched & {*launch.names} else ():
                goes_on = place.is_made and place.name in reader.leaving
                first, names = found.get(place.node, (place, []))
                found[place.node] = _of_both(first, place), [*names, *(every if goes_on else launch.names)]
    return found


def _of_both(first: _Place, place: _Place) -> _Place:
    """One that two launches are given: who may be another is known where that is the same of both."""
    is_same = (first.given, first.less, first.more) == (place.given, place.less, place.more)
    return first if is_same else replace(first, given="", less=None, more=None)


@lru_cache(maxsize=8)
def _numbers(module: cst.Module) -> tuple[tuple[cst.Integer, CodeRange], ...]:
    """Every whole number of a source, and where it stands."""
    where = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    return tuple((cst.ensure_type(node, cst.Integer), where[node]) for node in findall(module, m.Integer()))


def _retold(lines: list[str], at: int, was: str, now: int) -> None:
    """What is said of a line above it, with its number as it is now: it was said of the one that a rewrite chose."""
    number = re.compile(rf"(?<![\w.]){was}(?![\w.])")
    if len(number.findall(lines[at])) != 1:
        return  # one of several, and nobody knows which of them is meant
    divides = f"// {was}" in lines[at]
    above = at - 1
    while above >= 0 and lines[above].lstrip().startswith("#"):
        told = EACH.sub(lambda each: f"{int(each[1]) * now // int(was)}{each[2]}", lines[above])
        lines[above] = told if divides else number.sub(str(now), lines[above])
        above -= 1


def with_numbers(text: str, numbers: Mapping[int, int]) -> str:
    """The source with these numbers at these places, in what is said of them too, and nothing else changed."""
    lines, known = text.split("\n"), _numbers(source.parse(text))
    for place, now in sorted(numbers.items(), reverse=True):
        node, at = known[place]
        _retold(lines, at.start.line - 1, node.value, now)
        line = lines[at.start.line - 1]
        lines[at.start.line - 1] = f"{line[: at.start.column]}{now}{line[at.end.column :]}"
    return "\n".join(lines)


def _in_turn(columns: Iterable[Iterable[Nearby]]) -> Iterator[Nearby]:
    """The first of each, then the second of each."""
    for row in zip_longest(*columns):
        yield from (one for one in row if one is not None)


@lru_cache(maxsize=16)
def nearby(before: str, text: str, launched: frozenset[str]) -> tuple[Nearby, ...]:
    """What is near a source that was made of another, in the launches of these kernels."""
    module = source.parse(text)
    order = {node: place for place, (node, _) in enumerate(_numbers(module))}
    lines = {node: at.start.line for node, at in _numbers(module)}
    found = _places(module, before, launched)
    columns = [
        [
            Nearby(
                order[node],
                int(node.value, 0),
                now,
                place.says,
                lines[node],
                tuple(dict.fromkeys(of)),
                with_numbers(text, {order[node]: now}),
                place.given,
                place.less if now < int(node.value, 0) else place.more,
            )
            for now in _others(place)
        ]
        for node, (place, of) in found.items()
    ]
    return tuple(_in_turn(columns))[:MOST]
