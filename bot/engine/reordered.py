"""Which kernels a change of files makes add up in another order: those whose own lines are others, or whose launch has
another grid, other warps, or another block. A launch that only gets other tensors adds up as before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NUMBERS, LaunchSite, NotUnderstood
from bot.model.variant import SourceFile

Told = tuple[str, ...]
"""What is said of the numbers of a launch, in the order of the text."""


def _given(site: LaunchSite, kernel: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """The grid, and what the launch says of warps, stages and constants."""
    yield site.grid
    names, wanted = source.parameters(kernel), {*NUMBERS, *kernels.constants(kernel)}
    for at, arg in enumerate(site.call.args):
        said = arg.keyword.value if arg.keyword is not None else names[at] if at < len(names) else ""
        if arg.star or said in wanted:
            yield arg.value


def _names(nodes: Iterable[cst.CSTNode]) -> set[str]:
    return {cst.ensure_type(name, cst.Name).value for node in nodes for name in findall(node, m.Name())}


def _lines_behind(function: cst.FunctionDef, names: set[str]) -> Told:
    """The lines of a function that make these names, and what those are made of."""
    lines = [cst.ensure_type(line, cst.SimpleStatementLine) for line in findall(function, m.SimpleStatementLine())]
    made = [(line, _names(findall(line, m.AssignTarget())) | _grown(line)) for line in lines]
    known = set(names)
    while more := {name for line, bound in made if bound & known for name in _names(line.body)} - known:
        known |= more
    return tuple(source.code(one) for line, bound in made if bound & known for one in line.body)


def _grown(line: cst.SimpleStatementLine) -> set[str]:
    return _names(cst.ensure_type(found, cst.AugAssign).target for found in findall(line, m.AugAssign()))


def _launched(text: str, kernel: cst.FunctionDef) -> Told:
    name = str(kernel.name.value)
    try:
        sites = source.sites(source.parse(text), name)
    except NotUnderstood:  # launched where nobody looks: the whole file may be about its numbers
        return (text,)
    told: list[str] = []
    for site in sites:
        given = list(_given(site, kernel))
        told += [*map(source.code, given), *_lines_behind(site.function, _names(given))]
    return tuple(told)


def _relaunched(before: str, after: str, kernel: cst.FunctionDef) -> bool:
    """A kernel that is launched by another name from now on is the one half of a choice: what it gets, it gets as
    before."""
    now = _launched(after, kernel)
    return bool(now) and now != _launched(before, kernel)


def _kernels(files: tuple[SourceFile, ...]) -> dict[tuple[str, str], cst.FunctionDef]:
    """By the file and the name."""
    found = {}
    for file in files:
        for function in source.functions(source.parse(file.text)):
            if kernels.is_kernel(function) or kernels.is_tuned(function):
                found[file.path, str(function.name.value)] = function
    return found


def reordered(before: tuple[SourceFile, ...], after: tuple[SourceFile, ...]) -> tuple[tuple[str, str], ...]:
    """Path and name of each such kernel. Raises NotUnderstood for a file that does not parse."""
    old, texts = _kernels(before), {file.path: file.text for file in before}
    differ = [(texts.get(file.path, ""), file.text) for file in after if texts.get(file.path) != file.text]
    found = []
    for place, kernel in _kernels(after).items():
        was = old.get(place)
        same = was is not None and source.code(was) == source.code(kernel)
        if not same or any(_relaunched(one, other, kernel) for one, other in differ):
            found.append(place)
    return tuple(found)
