"""Which variables of a kernel are made of something, as the columns of a row are made of `tl.arange`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.addresses import CASTS
from bot.engine.finding import findall

REDUCTIONS = ("sum", "max", "min")
"""They make one number of many: what they hand back has no columns."""
MADE = m.Assign(targets=[m.AssignTarget(target=m.Name())]) | m.AugAssign(target=m.Name())


def made(kernel: cst.FunctionDef) -> Iterator[tuple[str, cst.BaseExpression]]:
    for found in findall(kernel, MADE):
        if isinstance(found, cst.Assign):
            yield cst.ensure_type(found.targets[0].target, cst.Name).value, found.value
        elif isinstance(found, cst.AugAssign):
            yield cst.ensure_type(found.target, cst.Name).value, found.value


def spread(kernel: cst.FunctionDef, is_made: Callable[[cst.BaseExpression, set[str]], bool]) -> set[str]:
    """Every variable that is once given such a value, where values made of such variables may be such values too."""
    every = list(made(kernel))
    known: set[str] = set()
    while True:
        found = {name for name, value in every if is_made(value, known)}
        if found <= known:
            return known
        known |= found


def holds(
    node: cst.CSTNode, is_one: Callable[[cst.Call], bool], known: set[str], *, through_sums: bool = False
) -> bool:
    """Whether it makes such a call or reads one of the variables; for a number made of all elements only if asked."""
    if isinstance(node, cst.Name):
        return node.value in known
    if isinstance(node, cst.Attribute | cst.Arg):
        return holds(node.value, is_one, known, through_sums=through_sums)
    if isinstance(node, cst.Call) and is_one(node):
        return True
    if isinstance(node, cst.Call) and kernels.called_name(node) in REDUCTIONS and not through_sums:
        return False
    return any(holds(child, is_one, known, through_sums=through_sums) for child in node.children)


def is_arange(call: cst.Call) -> bool:
    return kernels.called_name(call) == "arange"


def of_rows(kernel: cst.FunctionDef) -> set[str]:
    """Variables with an element for each column."""
    return spread(kernel, lambda value, known: holds(value, is_arange, known))


def is_place(value: cst.BaseExpression, known: set[str]) -> bool:
    """Whether it is made of the places of columns alone: of nothing that was loaded or added up."""
    called = {kernels.called_name(call) for call in kernels.calls(value)}
    return called <= {"arange", *CASTS} and ("arange" in called or any(source.loads(value, name) for name in known))
