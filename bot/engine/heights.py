"""Who knows how many rows a tile has, where a constant of a module says it: the launches that are given it, and nobody
else in these files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source, tuned_lists
from bot.engine.bindings import bound_in
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood

Modules = Mapping[str, cst.Module]
Given = list[tuple[cst.Call, cst.Arg]]
FEWEST, TALLEST = 16, 128
LAUNCH = m.Call(func=m.Subscript())


@dataclass(frozen=True, slots=True)
class Height:
    """`NAME = 64` of a module."""

    path: str
    name: str
    rows: int
    line: cst.SimpleStatementLine


def constants(path: str, module: cst.Module) -> Iterator[Height]:
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


def launches(tree: cst.CSTNode) -> list[cst.Call]:
    return [cst.ensure_type(call, cst.Call) for call in findall(tree, LAUNCH)]


def launched(call: cst.Call) -> str:
    return source.code(cst.ensure_type(call.func, cst.Subscript).value)


def _given(tree: cst.CSTNode, name: str) -> Given:
    """Where launches are given it by another name."""
    return [
        (call, arg)
        for call in launches(tree)
        for arg in call.args
        if arg.keyword is not None and m.matches(arg.value, m.Name(name))
    ]


def named(tree: cst.CSTNode, name: str) -> int:
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
    if named(function, parameter) != 1 + len(given) or function.decorators:
        raise NotUnderstood(f"{parameter} is more than what launches are given")
    calls = [one for one in kernels.calls(modules[path], name) if isinstance(one.func, cst.Name)]
    others = [module for other, module in modules.items() if other != path]
    if named(modules[path], name) != 1 + len(calls) or any(_is_mentioned(module, name) for module in others):
        raise NotUnderstood(f"somebody may call {name} by another way")
    place = source.parameters(function).index(parameter)
    for call in calls:
        words = [arg.keyword.value for arg in call.args if arg.keyword is not None]
        if parameter in words or any(arg.star for arg in call.args) or len(call.args) - len(words) > place:
            raise NotUnderstood(f"somebody gives {parameter} another height")
    return given


def refuse_numbers(modules: Modules, height: Height) -> None:
    """Raises NotUnderstood where the number stands elsewhere, but in lists of launch numbers: somebody may go through
    the same tiles by it."""
    for path, module in modules.items():
        lists = [one for one in source.functions(module) if findall(one, tuned_lists.CONFIG)]
        every = [one for one in findall(module, m.Integer()) if kernels.integer(one) == height.rows]
        known = [one for each in lists for one in findall(each, m.Integer()) if kernels.integer(one) == height.rows]
        if len(every) != len(known) + (path == height.path):
            raise NotUnderstood("somebody says so many rows by itself")


def _refuse_parts(modules: Modules, names: Collection[str]) -> None:
    """Raises NotUnderstood where a kernel is more than imported by its name and launched."""
    for name in names:
        for module in modules.values():
            mine = sum(launched(one) == name for one in launches(module))
            imports = len(findall(module, m.ImportAlias(name=m.Name(name), asname=None)))
            defined = source.kernel_named(module, name) is not None
            if len(findall(module, m.Name(name))) != mine + imports + defined:
                raise NotUnderstood(f"{name} is launched in another way, or has another name")


def given_everywhere(modules: Modules, height: Height) -> Given:
    """All launches that are given the constant. Raises NotUnderstood where it is read for anything else."""
    module, name = modules[height.path], height.name
    given, defaults = _given(module, name), _defaults(module, name)
    if named(module, name) != 1 + len(given) + len(defaults):
        raise NotUnderstood(f"{name} is read for something else too")
    if any(_is_mentioned(one, name) or findall(one, m.ImportFrom(names=m.ImportStar())) for one in modules.values()):
        raise NotUnderstood(f"another file may read {name}")
    for function, parameter in defaults:
        given = [*given, *_only_launches(modules, height.path, function, parameter)]
    _refuse_parts(modules, {launched(call) for call, _ in given})
    for call, arg in given:
        kernel = launched(call)
        mine = [one for other, one in given if launched(other) == kernel]
        every = sum(launched(other) == kernel for one in modules.values() for other in launches(one))
        words = {source.code(cst.ensure_type(one.keyword, cst.Name)) for one in mine}
        if len(mine) != every or words != {source.code(cst.ensure_type(arg.keyword, cst.Name))}:
            raise NotUnderstood(f"{kernel} is launched with another height as well")
    return given


def counts(modules: Modules, height: Height, own: Collection[str]) -> Callable[[cst.CSTNode], bool]:
    """Whether an expression of the host is made of how many tiles there are: of what belongs to one tile each, or of
    what a function returns that has the constant for a default."""
    module = modules[height.path]
    counting = {str(one.name.value) for one, _ in _defaults(module, height.name)}
    calls = m.Call(func=m.Name(value=m.MatchIfTrue(lambda name: name in counting)))
    lines = findall(module, m.Assign(targets=[m.AssignTarget(target=m.Name())]))
    names = set(own)
    while True:
        more = {name for line in lines if _is_made_of(line, names, calls) for name in bound_in(line)}
        if more <= names:
            break
        names |= more
    return lambda node: bool(findall(node, calls)) or any(findall(node, m.Name(one)) for one in names)


def _is_made_of(line: cst.CSTNode, names: Collection[str], calls: m.BaseMatcherNode) -> bool:
    """Of these names, or of what such a call returns as a whole: one of several is taken for a list of rows."""
    value = cst.ensure_type(line, cst.Assign).value
    if any(findall(value, m.Name(one)) for one in names) or m.matches(value, calls):
        return True
    return isinstance(value, cst.Lambda | cst.Tuple) and bool(findall(value, calls))
