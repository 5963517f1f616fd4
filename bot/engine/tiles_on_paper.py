"""Plays on paper which tile each program of a launch takes, for tensors of a few sizes: with whole numbers, and with
what the grid and the kernel reckon with them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.addresses import without_casts
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

Numbers = dict[str, int]
Names = tuple[str, ...]
RETURN = m.SimpleStatementLine(body=[m.Return(value=m.DoNotCare())])
SIZES = (1, 256, 300, 2200)
"""Rows and columns: fewer than a tile has, whole ones, and several of which the last is none."""
OF_TILES = m.Attribute(attr=m.OneOf(*map(m.Name, ("load", "dot", "zeros", "reshape"))))
MOST_SETS = 8
"""Of the other numbers of a list."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a kernel finds its tile."""

    sides: tuple[str, str]
    """The constants that say how many rows and columns a tile has."""
    begins: tuple[str, str]
    """The names of its first row and of its first column."""
    axes: frozenset[int]
    """Axes of the grid that something else is counted by."""


def _counted(operator: cst.BaseBinaryOp, left: int, right: int) -> int:
    """A kernel rounds a quotient to zero, where Python rounds it down: what is less than zero is left alone."""
    if not isinstance(operator, cst.FloorDivide | cst.Modulo) or left >= 0 < right:
        found = left % right if isinstance(operator, cst.Modulo) else kernels.worked_out(operator, left, right)
        if found is not None:
            return found
    raise NotUnderstood("it reckons in another way")


def _called(call: cst.Call, known: Numbers, module: cst.Module) -> list[int]:
    if any(arg.star or arg.keyword is not None for arg in call.args):
        raise NotUnderstood("a call says more than numbers in their places")
    told = [worth(arg.value, known, module) for arg in call.args]
    match source.code(call.func), told:
        case (("tl.cdiv" | "triton.cdiv"), [left, right]) if left >= 0 < right:
            return [-(-left // right)]
        case ("tl.minimum", [left, right]):
            return [min(left, right)]
        case ("tl.maximum", [left, right]):
            return [max(left, right)]
    return _helped(call, told, module)


@lru_cache(maxsize=16)
def _helper(module: cst.Module, name: str) -> tuple[Names, Sequence[cst.CSTNode], Sequence[cst.BaseExpression]]:
    """What a function of the module is given, its lines, and what it gives back."""
    named = [one for one in findall(module, m.FunctionDef(name=m.Name(name))) if isinstance(one, cst.FunctionDef)]
    if len(named) != 1 or named[0] not in source.functions(module) or not kernels.is_kernel(named[0]):
        raise NotUnderstood(f"nobody can tell what {name} is")
    words = source.parameters(named[0])
    *lines, last = [one for one in source.statements(named[0]) if not m.matches(one, kernels.DOCSTRING)]
    if len(words) != len(findall(named[0].params, m.Param())) or not m.matches(last, RETURN):
        raise NotUnderstood(f"{name} is given more, or gives nothing back at its end")
    given = cst.ensure_type(cst.ensure_type(last, cst.SimpleStatementLine).body[0], cst.Return).value
    return words, lines, [one.value for one in given.elements] if isinstance(given, cst.Tuple) else [given]


def _helped(call: cst.Call, told: list[int], module: cst.Module) -> list[int]:
    """What a function of the module gives back, which reckons line by line."""
    words, lines, given = _helper(module, source.code(call.func))
    if len(words) != len(told):
        raise NotUnderstood("it is given less")
    known = dict(zip(words, told, strict=True))
    for line in lines:
        known |= _made(line, known, module)
    return [worth(one, known, module) for one in given]


def _made(line: cst.CSTNode, known: Numbers, module: cst.Module) -> Numbers:
    """What a line calls numbers."""
    names, value = source.targets(line), without_casts(source.value(line))
    several = isinstance(value, cst.Call) and not source.is_plain(line, names[0] if names else "")
    found = _called(value, known, module) if several else [worth(value, known, module)]
    if len(found) != len(names):
        raise NotUnderstood("a line gives other names than numbers")
    return dict(zip(names, found, strict=True))


def worth(node: cst.BaseExpression, known: Numbers, module: cst.Module) -> int:
    """What an expression comes to."""
    match without_casts(node):
        case cst.Integer(value=value):
            return int(value, 0)
        case cst.Name(value=name) if name in known:
            return known[name]
        case cst.BinaryOperation(left=left, right=right, operator=operator):
            return _counted(operator, worth(left, known, module), worth(right, known, module))
        case (cst.Call() | cst.Subscript()) as told if (word := source.code(told)) in known:
            return known[word]
        case cst.Call() as call if len(found := _called(call, known, module)) == 1:
            return found[0]
    raise NotUnderstood("nobody can tell what it comes to")


def _begin(lines: Sequence[cst.CSTNode], begins: Names, known: Numbers, module: cst.Module) -> tuple[int, ...]:
    """Where a program's tile begins, by those lines of its kernel that are numbers."""
    known = dict(known)
    for line in lines:
        try:
            known |= _made(line, known, module)
        except NotUnderstood:
            continue
    if not known.keys() >= set(begins):
        raise NotUnderstood("nobody can tell where a tile begins")
    return tuple(known[name] for name in begins)


def _grid(site: LaunchSite) -> tuple[str, tuple[cst.BaseExpression, ...]]:
    """The parameter of its function of the launch numbers, and what it says for each axis."""
    grid = site.grid
    if isinstance(grid, cst.Name):
        at = source.last_binding(site, grid.value)
        grid = source.value(source.statements(site.function)[at]) if at is not None else grid
    if not isinstance(grid, cst.Lambda) or not isinstance(grid.body, cst.Tuple):
        raise NotUnderstood("the grid is no function of the launch numbers")
    if len(grid.params.params) != 1 or len(findall(grid.params, m.Param())) != 1:
        raise NotUnderstood("the grid's function is given more")
    axes = tuple(one.value for one in grid.body.elements if isinstance(one, cst.Element))
    if len(axes) != len(grid.body.elements):
        raise NotUnderstood("nobody knows how many axes the grid has")
    return str(grid.params.params[0].name.value), axes


def _size(axes: Sequence[cst.BaseExpression], told: Names) -> str:
    """The host's name of what a grid counts tiles of, where a launch number is written in one of these ways."""
    division = m.Call(func=m.Attribute(m.Name("triton"), m.Name("cdiv")), args=[m.Arg(m.Name()), m.Arg()])
    found = [cst.ensure_type(one, cst.Call) for axis in axes for one in findall(axis, division)]
    mine = [one for one in found if source.code(one.args[1].value) in told]
    if len(mine) != 1:
        raise NotUnderstood("the grid does not count the tiles once")
    return source.code(mine[0].args[0].value)


def _programs(counts: Sequence[int | None]) -> Iterator[Numbers]:
    """Their places on the axes that count tiles."""
    counted = [(axis, many) for axis, many in enumerate(counts) if many is not None]
    for place in itertools.product(*(range(many) for _, many in counted)):
        yield {f"tl.program_id({axis})": at for (axis, _), at in zip(counted, place, strict=True)}


@dataclass(frozen=True, slots=True)
class _Launch:
    module: cst.Module
    kernel: cst.FunctionDef
    tiles: Tiles
    axes: tuple[cst.BaseExpression, ...]
    meta: str
    """The grid's name for the launch numbers."""
    sizes: Names
    """The host's names of what the tiles cut into pieces."""
    named: Mapping[str, str]
    """What each parameter of the kernel is there."""

    def refuse_missed(self, told: Numbers, host: Numbers) -> None:
        words = {word: number for name, number in told.items() for word in _words(self.meta, name)}
        counts = [self._count(axis, host | words) for axis in self.axes]
        if any(counts[axis] is not None for axis in self.tiles.axes if axis < len(counts)):
            raise NotUnderstood("an axis of the grid counts tiles and something else")
        known = {name: host[value] for name, value in self.named.items() if value in host} | told
        names, lines = self.tiles.begins, [one for one in source.statements(self.kernel) if _may_reckon(one)]
        found = Counter(_begin(lines, names, known | place, self.module) for place in _programs(counts))
        begins = [range(0, host[one], told[side]) for one, side in zip(self.sizes, self.tiles.sides, strict=True)]
        if found != Counter(itertools.product(*begins)):
            raise NotUnderstood("a tile is left out, or taken twice")

    def _count(self, axis: cst.BaseExpression, known: Numbers) -> int | None:
        return worth(axis, known, self.module) if findall(axis, m.Name(self.meta)) else None


def _words(meta: str, name: str) -> Names:
    return f'{meta}["{name}"]', f"{meta}['{name}']"


def _may_reckon(line: cst.CSTNode) -> bool:
    return bool(source.targets(line)) and not findall(line, OF_TILES)


def refuse_missed(
    module: cst.Module, kernel: cst.FunctionDef, site: LaunchSite, tiles: Tiles, numbers: Mapping[str, Sequence[int]]
) -> None:
    """Raises NotUnderstood unless each tile is taken by one program, with each set of these launch numbers."""
    given = {name: kernels.told(site.call, kernel, name) for name in source.parameters(kernel)}
    if any(given[name] is not None for name in numbers) or any(arg.star for arg in site.call.args):
        raise NotUnderstood("the launch says a number of the list, or nobody knows what it says")
    meta, axes = _grid(site)
    sizes = tuple(_size(axes, _words(meta, side)) for side in tiles.sides)
    if not {*sizes, meta}.isdisjoint({*numbers, "triton"}) or meta in sizes:
        raise NotUnderstood("a name of the host means two things")
    named = {name: source.code(value) for name, value in given.items() if value is not None}
    launch = _Launch(module, kernel, tiles, axes, meta, sizes, named)
    sets = list(itertools.product(*numbers.values()))
    if len(sets) > MOST_SETS:
        raise NotUnderstood("there are too many sets of numbers to play")
    names = tuple(dict.fromkeys(sizes))
    for chosen, lengths in itertools.product(sets, itertools.product(SIZES, repeat=len(names))):
        launch.refuse_missed(dict(zip(numbers, chosen, strict=True)), dict(zip(names, lengths, strict=True)))
