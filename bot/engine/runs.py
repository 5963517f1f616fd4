"""Recognises a kernel whose programs each take a run of neighbouring rows, and the host's share of that bargain.

In the kernel: first = program * each, last = min(first + each, n_rows), for row in range(first, last).
In the host: each = cdiv(n_rows, programs) and kernel[(programs,)].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, source
from bot.engine.addresses import Names
from bot.engine.source import LaunchSite, NotUnderstood

PROGRAM = "tl.program_id(0)"
RANGES = ("range", "static_range")


@dataclass(frozen=True, slots=True)
class Run:
    """The loop over the rows of one program, with the parameters it speaks of."""

    loop: cst.For
    row: str
    call: cst.Call
    """`range(first, last)`."""
    each: str
    """The parameter with the rows of a program."""
    rows: str
    """The parameter with the number of rows."""


def _bound(node: cst.BaseExpression, names: Names) -> cst.BaseExpression:
    """What a bound of the loop stands for."""
    node = addresses.without_casts(node)
    if isinstance(node, cst.Name) and node.value in names.made:
        return addresses.without_casts(names.made[node.value])
    return node


def _first(node: cst.BaseExpression, names: Names) -> str:
    """The parameter R of `program * R`."""
    found = addresses.terms(node, names)
    if len(found) != 1 or len(found[0]) != 2 or PROGRAM not in found[0]:
        raise NotUnderstood("the first row is not the program times its rows")
    return next(factor for factor in found[0] if factor != PROGRAM)


def _one_more(node: cst.BaseExpression, each: str, names: Names) -> bool:
    """`first + R` or `(program + 1) * R`."""
    found = sorted(addresses.terms(node, names))
    if found == sorted([tuple(sorted((PROGRAM, each))), (each,)]):
        return True
    factors = [node.left, node.right] if isinstance(node, cst.BinaryOperation) else []
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return False
    sides = [sorted(addresses.terms(side, names)) for side in factors]
    return sorted(sides) == sorted([[(each,)], sorted([(PROGRAM,), ("1",)])])


def _last(node: cst.BaseExpression, each: str, names: Names) -> str:
    """The parameter N of `min(first + R, N)`."""
    if not isinstance(node, cst.Call) or kernels.called_name(node) not in ("min", "minimum") or len(node.args) != 2:
        raise NotUnderstood("the last row is not bounded by the number of rows")
    sides = [arg.value for arg in node.args]
    for end, rows in (sides, sides[::-1]):
        if isinstance(rows, cst.Name) and _one_more(_bound(end, names), each, names):
            return str(rows.value)
    raise NotUnderstood("the last row is not that of this program")


@lru_cache(maxsize=16)
def run_of(kernel: cst.FunctionDef) -> Run:
    """The one loop over rows in the kernel's own body. Raises NotUnderstood where there is none."""
    names = addresses.names_of(kernel)
    loops = [statement for statement in source.statements(kernel) if isinstance(statement, cst.For)]
    if len(loops) != 1 or kernels.program_axes(kernel) != [0]:
        raise NotUnderstood("it has not one loop over the rows of its program")
    (loop,) = loops
    call = loop.iter
    if not isinstance(call, cst.Call) or not m.matches(call, m.Call(func=m.Name("range"))) or len(call.args) != 2:
        raise NotUnderstood("the loop is not a plain range of rows")
    if not isinstance(loop.target, cst.Name) or loop.orelse is not None:
        raise NotUnderstood("the loop has no row")
    each = _first(_bound(call.args[0].value, names), names)
    rows = _last(_bound(call.args[1].value, names), each, names)
    known = source.parameters(kernel)
    if each not in known or rows not in known:
        raise NotUnderstood("the bounds of the loop are no parameters")
    return Run(loop, loop.target.value, call, each, rows)


def given(site: LaunchSite, kernel: cst.FunctionDef, parameter: str) -> cst.BaseExpression:
    """What a launch hands over for a parameter."""
    value = kernels.argument(site.call, source.parameters(kernel).index(parameter), parameter)
    if value is None:
        raise NotUnderstood(f"the launch says nothing of {parameter}")
    return value


def value_of(site: LaunchSite, node: cst.BaseExpression) -> cst.BaseExpression:
    """What a variable of the host stands for at the launch, where one statement makes it alone."""
    if not isinstance(node, cst.Name):
        return node
    at = source.last_binding(site, node.value)
    if at is None or not source.is_plain(source.statements(site.function)[at], node.value):
        return node
    line = cst.ensure_type(source.statements(site.function)[at], cst.SimpleStatementLine)
    return cst.ensure_type(line.body[0], cst.Assign).value


def grid_of(site: LaunchSite) -> tuple[str, ...]:
    grid = value_of(site, site.grid)
    if not isinstance(grid, cst.Tuple):
        raise NotUnderstood("the grid is not written as a tuple")
    return tuple(source.code(element.value) for element in grid.elements)


def shares_all_rows(site: LaunchSite, kernel: cst.FunctionDef, run: Run) -> str:
    """The host's expression for the number of rows, once it is sure that the runs of all programs make up all rows."""
    rows = source.code(given(site, kernel, run.rows))
    share = value_of(site, given(site, kernel, run.each))
    grid = grid_of(site)
    divides = isinstance(share, cst.Call) and kernels.called_name(share) == "cdiv" and len(share.args) == 2
    if isinstance(share, cst.Call) and divides:
        parts = tuple(source.code(arg.value) for arg in share.args)
    elif m.matches(share, m.Call(func=m.Attribute(attr=m.Name("ceil")))):
        inner = cst.ensure_type(share, cst.Call).args[0].value
        if not m.matches(inner, m.BinaryOperation(operator=m.Divide())):
            raise NotUnderstood("the rows of a program are not a share of all rows")
        product = cst.ensure_type(inner, cst.BinaryOperation)
        parts = source.code(product.left), source.code(product.right)
    else:
        raise NotUnderstood("the rows of a program are not a share of all rows")
    if parts != (rows, grid[0]) or len(grid) != 1:
        raise NotUnderstood("the rows are not shared among the programs of the grid")
    return rows
