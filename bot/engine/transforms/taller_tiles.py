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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import guarded, kernels, source, tuned_lists
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import FilesRewrite

Modules = Mapping[str, cst.Module]
Given = list[tuple[cst.Call, cst.Arg]]
FEWEST, TALLEST = 16, 128
SHORTEST_STEP = 16
"""What a product asks for."""
LAUNCH = m.Call(func=m.Subscript())
COUNTING = m.BinaryOperation(operator=m.Add() | m.Subtract() | m.FloorDivide() | m.Modulo())
TITLE = "Taller tiles of products"
WHY = (
    "{name} says how many rows a tile of products has, which no list of launch numbers can: a tile of {new} rows loads "
    "the other operand once where two of {old} load it twice."
)
COMMENT = "Twice the rows for each tile of the other operand that is loaded."
HALVED = "Half the step beside tiles of twice the rows, so that it fits where it did."


@dataclass(frozen=True, slots=True)
class Height:
    """`NAME = 64` of a module."""

    path: str
    name: str
    rows: int
    line: cst.SimpleStatementLine


def _heights(path: str, module: cst.Module) -> Iterator[Height]:
    for line in module.body:
        name = next(iter(source.targets(line)), "")
        if not name.isupper() or not isinstance(line, cst.SimpleStatementLine) or not source.is_plain(line, name):
            continue
        rows = kernels.integer(source.value(line))
        if rows is None or not FEWEST <= rows < TALLEST or rows & (rows - 1):
            continue
        said = line.trailing_whitespace.comment
        if said is None or str(rows) not in said.value:  # it would be said of another number
            yield Height(path, name, rows, line)


def _launches(tree: cst.CSTNode) -> list[cst.Call]:
    return [cst.ensure_type(call, cst.Call) for call in findall(tree, LAUNCH)]


def _launched(call: cst.Call) -> str:
    return source.code(cst.ensure_type(call.func, cst.Subscript).value)


def _given(tree: cst.CSTNode, name: str) -> Given:
    """Where launches are given it by another name."""
    return [
        (call, arg)
        for call in _launches(tree)
        for arg in call.args
        if arg.keyword is not None and m.matches(arg.value, m.Name(name))
    ]


def _named(tree: cst.CSTNode, name: str) -> int:
    """How often it is named: names of arguments are other functions' words."""
    words = [arg.keyword for arg in findall(tree, m.Arg()) if isinstance(arg, cst.Arg)]
    found = (node for node in nodes(tree, with_air=False) if isinstance(node, cst.Name) and node.value == name)
    return sum(not any(node is word for word in words) for node in found)


def _is_mentioned(module: cst.Module, name: str) -> bool:
    """Whether another file may know it: by an import, as a part of this module, or as a word."""
    word = m.SimpleString(value=m.MatchIfTrue(lambda said: said.strip("\"'") == name))
    return bool(findall(module, m.ImportAlias(name=m.Name(name)) | m.Attribute(attr=m.Name(name)) | word))


def _defaults(module: cst.Module, name: str) -> list[tuple[cst.FunctionDef, str]]:
    return [
        (function, str(one.name.value))
        for function in source.functions(module)
        for one in (*function.params.params, *function.params.kwonly_params)
        if m.matches(one, m.Param(default=m.Name(name)))
    ]


def _only_launches(modules: Modules, path: str, function: cst.FunctionDef, parameter: str) -> Given:
    """The launches that the parameter reaches. Raises NotUnderstood where it is more than what these are given, and
    where somebody may call the function with another one."""
    given, name = _given(function, parameter), str(function.name.value)
    if _named(function, parameter) != 1 + len(given) or function.decorators:
        raise NotUnderstood(f"{parameter} is more than what launches are given")
    calls = [one for one in kernels.calls(modules[path], name) if isinstance(one.func, cst.Name)]
    others = [module for other, module in modules.items() if other != path]
    if _named(modules[path], name) != 1 + len(calls) or any(_is_mentioned(module, name) for module in others):
        raise NotUnderstood(f"somebody may call {name} by another way")
    place = source.parameters(function).index(parameter)
    for call in calls:
        words = [arg.keyword.value for arg in call.args if arg.keyword is not None]
        if parameter in words or any(arg.star for arg in call.args) or len(call.args) - len(words) > place:
            raise NotUnderstood(f"somebody gives {parameter} another height")
    return given


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
    return _named(kernel, parameter) == 1 + len(sides)


def _refuse_other(kernel: cst.FunctionDef, parameter: str) -> None:
    """Raises NotUnderstood unless it tunes itself, adds products up in rows that the parameter counts, and has a mask
    for these rows wherever it reads or writes them."""
    if not kernels.is_tuned(kernel) or not kernels.calls(kernel.body, "dot"):
        raise NotUnderstood("it does not tune itself, or multiplies nothing")
    other = m.Element(value=~m.Name(parameter))
    first = m.Element(m.Name(parameter))
    high = m.Tuple(elements=[first, other]) | m.List(elements=[first, other])
    shapes = [kernels.argument(call, 0, "shape") for call in kernels.calls(kernel.body, "zeros")]
    if not shapes or not all(shape is not None and m.matches(shape, high) for shape in shapes):
        raise NotUnderstood("its sums are not as many rows high")
    counted = len(findall(kernel.body, kernels.arange_of(parameter)))
    place = m.Call(func=m.Attribute(m.Name("tl"), m.Name("program_id")))
    begin = m.BinaryOperation(left=place | m.Name(), operator=m.Multiply(), right=m.Name(parameter))
    programs = guarded.following(kernel, place, through_loads=False)
    begins = [cst.ensure_type(one, cst.BinaryOperation).left for one in findall(kernel.body, begin)]
    if any(isinstance(one, cst.Name) and one.value not in programs for one in begins):
        raise NotUnderstood("it is a stride as well")
    if _named(kernel, parameter) != 1 + len(shapes) + counted + len(begins):
        raise NotUnderstood("it is more than a height")
    guarded.refuse_unguarded(guarded.places(kernel, parameter))


def _refuse_literals(modules: Modules, rows: int) -> None:
    """Raises NotUnderstood where a launch says so many rows by itself: it may go through the same tiles."""
    for module in modules.values():
        for call in _launches(module):
            if any(kernels.integer(arg.value) == rows for arg in call.args):
                raise NotUnderstood("a launch says so many rows by itself")


def _tall(modules: Modules, height: Height) -> tuple[str, ...]:
    """The kernels that would have taller tiles."""
    module, name = modules[height.path], height.name
    given, defaults = _given(module, name), _defaults(module, name)
    if _named(module, name) != 1 + len(given) + len(defaults):
        raise NotUnderstood(f"{name} is read for something else too")
    if any(_is_mentioned(one, name) or findall(one, m.ImportFrom(names=m.ImportStar())) for one in modules.values()):
        raise NotUnderstood(f"another file may read {name}")
    _refuse_literals(modules, height.rows)
    for function, parameter in defaults:
        given = [*given, *_only_launches(modules, height.path, function, parameter)]
    tall: dict[str, str] = {}
    for call, arg in given:
        launched, parameter = _launched(call), source.code(cst.ensure_type(arg.keyword, cst.Name))
        _, kernel = _kernel(modules, launched)
        if not _counts(kernel, parameter):
            _refuse_other(kernel, parameter)
            tall[launched] = parameter
        mine = [one for other, one in given if _launched(other) == launched]
        every = sum(_launched(other) == launched for one in modules.values() for other in _launches(one))
        if len(mine) != every or {source.code(cst.ensure_type(one.keyword, cst.Name)) for one in mine} != {parameter}:
            raise NotUnderstood(f"{launched} is launched with another height as well")
    if not tall:
        raise NotUnderstood(f"{name} is the height of no product")
    return tuple(tall)


def _halved(modules: Modules, tall: tuple[str, ...]) -> dict[cst.CSTNode, cst.CSTNode]:
    """The steps of lists of one, each with half of it."""
    new: dict[cst.CSTNode, cst.CSTNode] = {}
    for name in tall:
        module, kernel = _kernel(modules, name)
        for written in tuned_lists.written(module, kernel):
            if not m.matches(written, tuned_lists.OF_ONE):
                continue
            config = cst.ensure_type(cst.ensure_type(written, cst.List).elements[0].value, cst.Call)
            step = tuned_lists.entry(kernels.argument(config, 0, "kwargs"), tuned_lists.loop_of(kernel)[2])
            length = kernels.integer(step)
            if length is None or length // 2 < SHORTEST_STEP or length % 2:
                raise NotUnderstood("a list of one cannot take half of its step")
            new[step] = cst.Integer(str(length // 2))
    return new


def _changed(module: cst.Module, height: Height, halved: Mapping[cst.CSTNode, cst.CSTNode], *, here: bool) -> str:
    class Taller(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
            if original_node in halved:
                return halved[original_node]
            if not isinstance(updated_node, cst.SimpleStatementLine | cst.Decorator):
                return updated_node
            if here and original_node is height.line:
                number = cst.ensure_type(source.value(updated_node), cst.Integer)
                taller = updated_node.deep_replace(number, cst.Integer(str(2 * height.rows)))
                return _told(cst.ensure_type(taller, cst.SimpleStatementLine), COMMENT)
            mine = any(node is one for node in nodes(original_node) for one in halved)
            return _told(updated_node, HALVED) if mine else updated_node

    return str(cst.ensure_type(module.visit(Taller()), cst.Module).code)


def _told(line: cst.SimpleStatementLine | cst.Decorator, why: str) -> cst.CSTNode:
    """With a line above it that says why, once."""
    above = [one for one in line.leading_lines if one.comment is None or one.comment.value != f"# {why}"]
    return line.with_changes(leading_lines=(*above, *source.comment_lines(why)))


def rewrite(files: Mapping[str, str]) -> FilesRewrite | None:
    """The first such constant of these files."""
    if not any("autotune" in text for text in files.values()):
        return None
    try:
        modules = {path: source.parse(text) for path, text in files.items()}
    except NotUnderstood:
        return None
    for height in [one for path, module in modules.items() for one in _heights(path, module)]:
        try:
            tall = _tall(modules, height)
            halved = _halved(modules, tall)
        except NotUnderstood:
            continue
        texts = {path: _changed(one, height, halved, here=path == height.path) for path, one in modules.items()}
        why = WHY.format(name=height.name, old=height.rows, new=2 * height.rows)
        return FilesRewrite({path: text for path, text in texts.items() if text != files[path]}, tall, TITLE, why)
    return None


def applies(files: Mapping[str, str]) -> bool:
    return rewrite(files) is not None
