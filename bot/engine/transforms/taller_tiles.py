"""Twice the rows in each tile of a product, where a constant of the module says how many they are.

A kernel of matrix products that tunes itself chooses its columns, its steps and its warps from a list. How many rows a
tile has it cannot choose where the host sorts rows into tiles before it launches: Liger's fused_moe gives each expert
its tokens in tiles of `BLOCK_M_TOKEN = 64`, which its four products over tokens and the lists of tiles all read. A tile
of 64 x 128 loads three numbers for every two that 128 x 128 loads for the same products.

Twice as many are half of the tiles, each of which reads the other operand once; the last tile of an expert may be half
empty, so an expert of few tokens pays for it. Up to 128 rows. A list of one, which nobody tunes, takes half of its step
besides, so that it still fits where it did: fused_moe has one for those who switch its tuning off.

Refused unless the constant is a power of two that is named nowhere but where kernels are launched and where a parameter
that only reaches launches has it for its default, of a function that these files only call, and call without it. Who is
launched with it is always launched with it, and does one of two things: it counts with it, or it is a product that
tunes itself, whose sums are as many rows high, which is asked for its rows by nothing else, and whose every load and
store has a mask for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import guarded, heights, kernels, source, tuned_lists
from bot.engine.addresses import names_of, without_casts
from bot.engine.finding import findall
from bot.engine.guarded import LOADED, PROGRAM
from bot.engine.heights import Given, Height, Modules
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import FilesRewrite, with_numbers

COUNTING = m.BinaryOperation(operator=m.Add() | m.Subtract() | m.FloorDivide() | m.Modulo())
TITLE = "Taller tiles of products"
WHY = (
    "{name} says how many rows a tile of products has, which no list of launch numbers can: a tile of {new} rows loads "
    "the other operand once where two of {old} load it twice."
)
COMMENT = "Twice the rows for each tile of the other operand that is loaded."
HALVED = "Half the step beside tiles of twice the rows, so that it fits where it did."


def _kernel(modules: Modules, name: str) -> tuple[cst.Module, cst.FunctionDef]:
    found = [(one, f) for one in modules.values() for f in source.functions(one) if f.name.value == name]
    if len(found) != 1 or not (kernels.is_kernel(found[0][1]) or kernels.is_tuned(found[0][1])):
        raise NotUnderstood(f"{name} is no kernel of these files, or several")
    return found[0]


def _counts(kernel: cst.FunctionDef, parameter: str) -> bool:
    """Whether it only counts with it: how many tiles, and which row of one."""
    sides = [
        side
        for one in findall(kernel.body, COUNTING)
        for side in (cst.ensure_type(one, cst.BinaryOperation).left, cst.ensure_type(one, cst.BinaryOperation).right)
        if m.matches(side, m.Name(parameter))
    ]
    return heights.named(kernel, parameter) == 1 + len(sides)


def _refuse_other(kernel: cst.FunctionDef, parameter: str) -> frozenset[str]:
    """The pointers to what belongs to one tile. Raises NotUnderstood unless it tunes itself, adds products up in rows
    that the parameter counts, and has a mask for these rows wherever it reads or writes them."""
    if not kernels.is_tuned(kernel) or not kernels.calls(kernel.body, "dot"):
        raise NotUnderstood("it does not tune itself, or multiplies nothing")
    guarded.refuse_others(kernel, rows=True)
    other = m.Element(value=~m.Name(parameter))
    first = m.Element(m.Name(parameter))
    high = m.Tuple(elements=[first, other]) | m.List(elements=[first, other])
    shapes = [kernels.argument(call, 0, "shape") for call in kernels.calls(kernel.body, "zeros")]
    if not shapes or not all(shape is not None and m.matches(shape, high) for shape in shapes):
        raise NotUnderstood("its sums are not as many rows high")
    values = names_of(kernel).made
    begins = _Begins(values, parameter)
    rows = guarded.side(kernel, parameter, begins.is_begin)
    counted = len(findall(kernel.body, kernels.arange_of(parameter)))
    by_number = [one for one in findall(kernel.body, m.BinaryOperation()) if begins.is_of_program(one)]
    if heights.named(kernel, parameter) != 1 + len(shapes) + counted + len(by_number):
        raise NotUnderstood("it is more than a height")
    guarded.refuse_unguarded(rows, lambda limit: begins.is_limit(limit, loaded=not by_number))
    return _of_a_tile(kernel, rows, values, by_number)


@dataclass(frozen=True, slots=True)
class _Begins:
    """Where the rows of a tile may begin: at so many a program, or where a list says."""

    values: Mapping[str, cst.BaseExpression]
    parameter: str

    def is_begin(self, node: cst.BaseExpression) -> bool:
        return self.is_of_program(node) or self._is_loaded(node)

    def is_of_program(self, node: cst.CSTNode) -> bool:
        """`tl.program_id(0) * SIZE`."""
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            return False
        said = self.values.get(node.left.value, node.left) if isinstance(node.left, cst.Name) else node.left
        return bool(m.matches(said, PROGRAM) and m.matches(node.right, m.Name(self.parameter)))

    def _is_loaded(self, node: cst.BaseExpression) -> bool:
        said = self.values.get(node.value) if isinstance(node, cst.Name) else None
        return said is not None and m.matches(without_casts(said), LOADED)

    def is_limit(self, node: cst.BaseExpression, *, loaded: bool) -> bool:
        """What a list says where a list says the beginning, and else a number of the launch: a limit behind all tiles
        of a group is none."""
        return self._is_loaded(node) if loaded else isinstance(node, cst.Name) and node.value not in self.values


def _of_a_tile(
    kernel: cst.FunctionDef,
    rows: guarded.Side,
    values: Mapping[str, cst.BaseExpression],
    by_number: Collection[cst.CSTNode],
) -> frozenset[str]:
    """What is read and written at the number of a tile, and at none of its rows."""
    said = [one for one in by_number if isinstance(one, cst.BinaryOperation)]
    begins = [values.get(one.left.value, one.left) if isinstance(one.left, cst.Name) else one.left for one in said]
    if not begins:
        begun = {name for name, value in values.items() if m.matches(without_casts(value), LOADED)}
        sums = {name: findall(kernel.body, guarded.sum_of(name)) for name in begun}
        begins = [values[name] for name, found in sums.items() if any(map(rows.is_place, found))]
    told = [_programs(begin, values) for begin in begins]
    numbers = [number for every in told for number in every]
    if not begins or not all(told) or not all(number.isdigit() for number in numbers):
        raise NotUnderstood("nobody can tell which number a tile has")
    number = m.OneOf(*(m.Call(func=PROGRAM.func, args=[m.Arg(m.Integer(one))]) for one in dict.fromkeys(numbers)))
    made = guarded.following(kernel, number, through_loads=False)
    found = set[str]()
    for _, place, _ in guarded.touching(kernel):
        if rows.shows_in(place) or not (findall(place, number) or any(findall(place, m.Name(one)) for one in made)):
            continue
        pointer = place
        while isinstance(pointer, cst.BinaryOperation):
            pointer = pointer.left
        if not isinstance(pointer, cst.Name) or pointer.value not in source.parameters(kernel):
            raise NotUnderstood("what belongs to a tile does not begin with a pointer")
        found.add(str(pointer.value))
    return frozenset(found)


def _programs(node: cst.CSTNode, values: Mapping[str, cst.BaseExpression]) -> list[str]:
    """The axes of the grid that something is made of, by its own words and names that are bound once."""
    found = [cst.ensure_type(one, cst.Call) for one in findall(node, PROGRAM)]
    axes = [source.code(one.args[0].value) for one in found if len(one.args) == 1]
    for name in {cst.ensure_type(one, cst.Name).value for one in findall(node, m.Name())}:
        if name in values and m.matches(values[name], PROGRAM):
            axes += _programs(values[name], {})
    return axes


def _host(call: cst.Call, kernel: cst.FunctionDef, pointer: str) -> str:
    """What a launch gives a pointer, by its name."""
    said = kernels.told(call, kernel, pointer)
    if not isinstance(said, cst.Name) or any(arg.star for arg in call.args):
        raise NotUnderstood("nobody can tell what a tile's own list is")
    return str(said.value)


def _tall(modules: Modules, height: Height) -> tuple[str, ...]:
    """The kernels that would have taller tiles."""
    given = heights.given_everywhere(modules, height)
    heights.refuse_numbers(modules, height)
    tall, own, counting = dict[str, None](), set[str](), list[cst.Call]()
    for call, arg in given:
        launched, parameter = heights.launched(call), source.code(cst.ensure_type(arg.keyword, cst.Name))
        kernel = _kernel(modules, launched)[1]
        if _counts(kernel, parameter):
            counting.append(call)
            continue
        own |= {_host(call, kernel, pointer) for pointer in _refuse_other(kernel, parameter)}
        tall[launched] = None
    if not tall:
        raise NotUnderstood(f"{height.name} is the height of no product")
    _refuse_own(modules, height, given, counting, own)
    return tuple(tall)


def _refuse_own(
    modules: Modules, height: Height, given: Given, counting: Collection[cst.Call], own: Collection[str]
) -> None:
    """Raises NotUnderstood unless what belongs to one tile is made by those who count them, and read by nobody else."""
    known = [call for call, _ in given]
    for name in own:
        if not any(m.matches(arg.value, m.Name(name)) for call in counting for arg in call.args):
            raise NotUnderstood(f"nobody knows how many rows a tile of {name} has")
        launches = (call for module in modules.values() for call in heights.launches(module))
        if any(findall(call, m.Name(name)) and not any(call is one for one in known) for call in launches):
            raise NotUnderstood(f"somebody else goes through {name}")
    counts = heights.counts(modules, height, own)
    for module in modules.values():
        for call in heights.launches(module):
            if counts(call.func) and not any(call is one for one in known):
                raise NotUnderstood("somebody else has a program for each tile")


def _halved(modules: Modules, tall: tuple[str, ...]) -> dict[cst.CSTNode, tuple[int, str]]:
    """The steps of lists of one, each with half of it."""
    new: dict[cst.CSTNode, tuple[int, str]] = {}
    for name in tall:
        module, kernel = _kernel(modules, name)
        for written in tuned_lists.written(module, kernel):
            if not m.matches(written, tuned_lists.OF_ONE):
                _refuse_unknown(module, written)
                continue
            config = cst.ensure_type(cst.ensure_type(written, cst.List).elements[0].value, cst.Call)
            step = tuned_lists.entry(kernels.argument(config, 0, "kwargs"), tuned_lists.loop_of(kernel)[2])
            length = kernels.integer(step)
            if length is None or length // 2 < tuned_lists.SHORTEST_STEP or length % 2:
                raise NotUnderstood("a list of one cannot take half of its step")
            new[step] = (length // 2, HALVED)
    return new


def _refuse_unknown(module: cst.Module, written: cst.BaseExpression) -> None:
    """Raises NotUnderstood where nobody can tell that a list has several entries, of which small ones still fit: it is
    written as a whole, or added to in a loop."""
    if m.matches(written, m.ListComp() | m.List(elements=[m.Element(), m.AtLeastN(m.Element(), n=1)])):
        return
    added = m.Call(func=m.Attribute(value=m.Name(source.code(written)), attr=m.Name("append")))
    if not isinstance(written, cst.Name) or not any(findall(loop, added) for loop in findall(module, m.For())):
        raise NotUnderstood("nobody can tell how many a list has")


def rewrite(files: Mapping[str, str]) -> FilesRewrite | None:
    """The first such constant of these files."""
    if not any("autotune" in text for text in files.values()):
        return None
    try:
        modules = {path: source.parse(text) for path, text in files.items()}
    except NotUnderstood:
        return None
    for height in [one for path, module in modules.items() for one in heights.constants(path, module)]:
        try:
            tall = _tall(modules, height)
            new = {source.value(height.line): (2 * height.rows, COMMENT), **_halved(modules, tall)}
        except NotUnderstood:
            continue
        texts = {path: source.written(with_numbers(module, new)) for path, module in modules.items()}
        why = WHY.format(name=height.name, old=height.rows, new=2 * height.rows)
        return FilesRewrite({path: text for path, text in texts.items() if text != files[path]}, tall, TITLE, why)
    return None


def applies(files: Mapping[str, str]) -> bool:
    return rewrite(files) is not None
