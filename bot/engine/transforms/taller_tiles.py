"""Twice the rows in each tile of a product, where a constant of the module says how many they are.

A kernel of matrix products that tunes itself chooses its columns, its steps and its warps from a list. How many rows a
tile has it cannot choose where the host sorts rows into tiles before it launches: Liger's fused_moe gives each expert
its tokens in tiles of `BLOCK_M_TOKEN = 64`, which its four products over tokens, the histogram and the lists of tiles
all read. A tile of 64 x 128 loads three numbers for every two that 128 x 128 loads for the same products, and 64 rows
are one warp group's, where a multiprocessor has four that may work.

Twice as many are half of the tiles, each of which reads its expert's weights once; the last tile of an expert may be
half empty, so an expert of few tokens pays for it. Up to 128 rows, since two sums of 128 x 128 in float32 are all that
eight warps hold.

Refused unless the constant is a power of two that is named nowhere but where a kernel is launched and where a parameter
that only reaches launches has it for its default; at least one of those launches has to be of a kernel that tunes
itself, whose sums of products are as many rows high.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import FilesRewrite

Modules = Mapping[str, cst.Module]
FEWEST, TALLEST = 16, 128
LAUNCH = m.Call(func=m.Subscript())
RANGES = m.Call(func=m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range") | m.Name("static_range")))
TITLE = "Taller tiles of products"
WHY = (
    "{name} says how many rows a tile of products has, which no list of launch numbers can: a tile of {new} rows loads "
    "its weights once where two of {old} load them twice, and gives two warp groups their work."
)
COMMENT = "Twice the rows for each tile of weights that is loaded."


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
        if rows is not None and FEWEST <= rows < TALLEST and rows & (rows - 1) == 0:
            yield Height(path, name, rows, line)


def _launches(tree: cst.CSTNode) -> list[cst.Call]:
    return [cst.ensure_type(call, cst.Call) for call in findall(tree, LAUNCH)]


def _given(tree: cst.CSTNode, name: str) -> list[tuple[cst.Call, cst.Arg]]:
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


def _defaults(module: cst.Module, name: str) -> list[tuple[cst.FunctionDef, cst.Param]]:
    return [
        (function, one)
        for function in source.functions(module)
        for one in (*function.params.params, *function.params.kwonly_params)
        if m.matches(one, m.Param(default=m.Name(name)))
    ]


def _only_launches(modules: Modules, function: cst.FunctionDef, parameter: str) -> None:
    """Raises NotUnderstood unless the parameter only reaches launches, and everybody leaves it at its default."""
    if _named(function, parameter) != 1 + len(_given(function, parameter)):
        raise NotUnderstood(f"{parameter} is more than what launches are given")
    place = source.parameters(function).index(parameter)
    for module in modules.values():
        for call in kernels.calls(module, str(function.name.value)):
            words = [arg.keyword.value for arg in call.args if arg.keyword is not None]
            if parameter in words or any(arg.star for arg in call.args) or len(call.args) - len(words) > place:
                raise NotUnderstood(f"somebody gives {parameter} another height")


def _kernel(modules: Modules, name: str) -> cst.FunctionDef | None:
    found = [one for module in modules.values() for one in source.functions(module) if one.name.value == name]
    return found[0] if len(found) == 1 else None


def _is_as_high(kernel: cst.FunctionDef, parameter: str) -> bool:
    """Whether it tunes itself and adds products up in rows that the parameter counts, and takes no steps of it."""
    if not kernels.is_tuned(kernel) or not kernels.calls(kernel, "dot"):
        return False
    shapes = [kernels.argument(call, 0, "shape") for call in kernels.calls(kernel, "zeros")]
    first = m.Element(m.Name(parameter))
    high = m.Tuple(elements=[first, m.Element()]) | m.List(elements=[first, m.Element()])
    steps = [arg.value for call in findall(kernel, RANGES) for arg in cst.ensure_type(call, cst.Call).args]
    stepped = any(findall(step, m.Name(parameter)) for step in steps)
    return bool(shapes) and all(m.matches(shape, high) for shape in shapes if shape is not None) and not stepped


def _tall(modules: Modules, height: Height) -> tuple[str, ...]:
    """The kernels that would have taller tiles."""
    module, name = modules[height.path], height.name
    given, defaults = _given(module, name), _defaults(module, name)
    if _named(module, name) != 1 + len(given) + len(defaults):
        raise NotUnderstood(f"{name} is read for something else too")
    elsewhere = m.ImportAlias(name=m.Name(name)) | m.Attribute(attr=m.Name(name))
    if any(findall(other, elsewhere) for other in modules.values()):
        raise NotUnderstood(f"another file reads {name}")
    for function, parameter in defaults:
        _only_launches(modules, function, str(parameter.name.value))
    tall = []
    for call, arg in given:
        launched = source.code(cst.ensure_type(call.func, cst.Subscript).value)
        kernel = _kernel(modules, launched)
        if kernel is not None and arg.keyword is not None and _is_as_high(kernel, str(arg.keyword.value)):
            tall.append(launched)
    if not tall:
        raise NotUnderstood(f"{name} is the height of no product")
    return tuple(dict.fromkeys(tall))


def _taller(module: cst.Module, height: Height) -> str:
    number = cst.ensure_type(source.value(height.line), cst.Integer)
    line = cst.ensure_type(height.line.deep_replace(number, cst.Integer(str(2 * height.rows))), cst.SimpleStatementLine)
    line = line.with_changes(leading_lines=source.commented(line.leading_lines, COMMENT))
    return str(source.spliced(module, [(height.line, [line])]).code)


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
        except NotUnderstood:
            continue
        why = WHY.format(name=height.name, old=height.rows, new=2 * height.rows)
        return FilesRewrite({height.path: _taller(modules[height.path], height)}, tall, TITLE, why)
    return None


def applies(files: Mapping[str, str]) -> bool:
    return rewrite(files) is not None
