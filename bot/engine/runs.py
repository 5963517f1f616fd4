"""Recognises a kernel whose programs each take a run of neighbouring rows, and the host's share of that bargain.

In the kernel: first = program * each, last = min(first + each, n_rows), for row in range(first, last).
In the host: each = cdiv(n_rows, programs) and kernel[(programs,)].
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, columns, host_tensors, kernels, source
from bot.engine.addresses import Names
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

PROGRAM = "tl.program_id(0)"
ADDS = "atomic_add"
ROWS = m.Arg(keyword=None, star="")
STAGED = m.Call(
    func=m.Attribute(value=m.Name("tl"), attr=m.Name("range")), args=[ROWS, ROWS, m.Arg(keyword=m.Name("num_stages"))]
)
ONE_BY_ONE = m.Call(func=m.Name("range"), args=[ROWS, ROWS]) | STAGED
"""`range(first, last)`, and the same with its loads under way ahead of time."""
STAGED_STEPS = m.Call(
    func=m.Attribute(value=m.Name("tl"), attr=m.Name("range")),
    args=[ROWS, ROWS, ROWS, m.Arg(keyword=m.Name("num_stages"))],
)
BY_STEPS = m.Call(func=m.Name("range"), args=[ROWS, ROWS, ROWS]) | STAGED_STEPS


@dataclass(frozen=True, slots=True)
class Run:
    """The loop over the rows of one program, with the parameters it speaks of."""

    loop: cst.For
    row: str
    call: cst.Call
    """`range(first, last)`, perhaps with stages."""
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


def one_more(node: cst.BaseExpression, each: str, names: Names, program: str = PROGRAM) -> bool:
    """`first + R` or `(program + 1) * R`."""
    found = sorted(addresses.terms(node, names))
    if found == sorted([tuple(sorted((program, each))), (each,)]):
        return True
    factors = [node.left, node.right] if isinstance(node, cst.BinaryOperation) else []
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return False
    sides = [sorted(addresses.terms(side, names)) for side in factors]
    return sorted(sides) == sorted([[(each,)], sorted([(program,), ("1",)])])


def _last(node: cst.BaseExpression, each: str, names: Names) -> str:
    """The parameter N of `min(first + R, N)`."""
    if not isinstance(node, cst.Call) or kernels.called_name(node) not in ("min", "minimum") or len(node.args) != 2:
        raise NotUnderstood("the last row is not bounded by the number of rows")
    sides = [arg.value for arg in node.args]
    for end, rows in (sides, sides[::-1]):
        if isinstance(rows, cst.Name) and one_more(_bound(end, names), each, names):
            return str(rows.value)
    raise NotUnderstood("the last row is not that of this program")


@lru_cache(maxsize=16)
def run_of(kernel: cst.FunctionDef) -> Run:
    """The one loop over rows in the kernel's own body. Raises NotUnderstood where there is none."""
    return _run_of(kernel, ONE_BY_ONE)


@lru_cache(maxsize=16)
def blocks_of(kernel: cst.FunctionDef) -> Run:
    """The same where it takes a block of rows a turn, and gives them a name. Raises NotUnderstood."""
    run = _run_of(kernel, STAGED_STEPS)
    step = source.code(run.call.args[2].value)
    block = f"{run.row} + tl.arange(0, {step})[:, None]"
    rows = [name for name, value in addresses.names_of(kernel).made.items() if source.code(value) == block]
    if step not in kernels.constants(kernel) or len(rows) != 1 or source.loads(run.loop.body, run.row) != 1:
        raise NotUnderstood("the rows of a turn are no block")
    return replace(run, row=rows[0])


def _run_of(kernel: cst.FunctionDef, ranges: m.BaseMatcherNode) -> Run:
    names = addresses.names_of(kernel)
    loops = [statement for statement in source.statements(kernel) if isinstance(statement, cst.For)]
    if len(loops) != 1 or kernels.program_axes(kernel) != [0]:
        raise NotUnderstood("it has not one loop over the rows of its program")
    (loop,) = loops
    call = loop.iter
    if not isinstance(call, cst.Call) or not m.matches(call, ranges):
        raise NotUnderstood("the loop is not a plain range of rows")
    if not isinstance(loop.target, cst.Name) or loop.orelse is not None:
        raise NotUnderstood("the loop has no row")
    each = _first(_bound(call.args[0].value, names), names)
    rows = _last(_bound(call.args[1].value, names), each, names)
    known = source.parameters(kernel)
    if each not in known or rows not in known:
        raise NotUnderstood("the bounds of the loop are no parameters")
    return Run(loop, loop.target.value, call, each, rows)


@lru_cache(maxsize=16)
def strides_of(kernel: cst.FunctionDef) -> Run:
    """The one loop over every n-th row: `for row in range(program, rows, programs)`. Raises NotUnderstood."""
    names = addresses.names_of(kernel)
    loops = [statement for statement in source.statements(kernel) if isinstance(statement, cst.For)]
    if len(loops) != 1:
        raise NotUnderstood("it has not one loop over the rows of its program")
    (loop,) = loops
    call = loop.iter
    if not isinstance(call, cst.Call) or not m.matches(call, BY_STEPS):
        raise NotUnderstood("the loop is not a plain range of rows with a step")
    first, last, step = (arg.value for arg in call.args[:3])
    axis = [a for a in (0, 1, 2) if source.code(step) == f"tl.num_programs({a})"]
    if len(axis) != 1 or addresses.terms(first, names) != [(f"tl.program_id({axis[0]})",)]:
        raise NotUnderstood("the loop does not go from the program by the number of programs")
    if not isinstance(last, cst.Name) or last.value not in source.parameters(kernel):
        raise NotUnderstood("the number of rows is no parameter")
    if not isinstance(loop.target, cst.Name) or loop.orelse is not None:
        raise NotUnderstood("the loop has no row")
    return Run(loop, loop.target.value, call, "", last.value)


def given(site: LaunchSite, kernel: cst.FunctionDef, parameter: str) -> cst.BaseExpression:
    """What a launch hands over for a parameter."""
    value = kernels.told(site.call, kernel, parameter) if parameter in source.parameters(kernel) else None
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
    value = source.value(cst.ensure_type(source.statements(site.function)[at], cst.SimpleStatementLine))
    lines = source.statements(site.function)
    holds = [one for one in lines[site.position : site.position + 1] if not isinstance(one, cst.SimpleStatementLine)]
    since = (*lines[at + 1 : site.position], *holds)
    stale = any(findall(value, m.Name(name)) for later in since for name in bound_in(later))
    return node if stale else value


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


def base_of(address: cst.BaseExpression, names: Names, pointers: tuple[str, ...]) -> str:
    """The one pointer of the launch that an address begins with."""
    found = [term[0] for term in addresses.terms(address, names) if len(term) == 1 and term[0] in pointers]
    if len(found) != 1:
        raise NotUnderstood("a load has no pointer of the launch")
    return found[0]


def bases(kernel: cst.FunctionDef, kind: str, lines: Sequence[cst.CSTNode] = ()) -> frozenset[str]:
    """The pointers of the launch that a kernel's accesses of a kind go through, or those of some of its lines."""
    names, parameters = addresses.names_of(kernel), source.parameters(kernel)
    calls = [call for part in lines or (kernel,) for call in kernels.calls(part, kind)]
    return frozenset(base_of(call.args[0].value, names, parameters) for call in calls)


def _only_adds(kernel: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether an atomic is a statement of its own that adds to what the kernel reads nowhere."""
    alone = findall(kernel, m.Expr(value=m.Call(func=m.Attribute(attr=m.Name(ADDS)))))
    adds = any(call is cst.ensure_type(line, cst.Expr).value for line in alone)
    return adds and bases(kernel, ADDS).isdisjoint(bases(kernel, "load"))


def rows_loaded(kernel: cst.FunctionDef, run: Run, *, may_add: bool = False) -> tuple[str, ...]:
    """The pointers that the loop loads blocks through, one for each load, where rows are among them. `may_add`: rows
    may be added to what nobody reads."""
    names, parameters = addresses.names_of(kernel), source.parameters(kernel)
    for call in kernels.calls(run.loop):
        name = kernels.called_name(call)
        atomic = name.startswith("atomic") and not (may_add and _only_adds(kernel, call))
        if atomic or name in ("debug_barrier", "dot"):
            raise NotUnderstood("the rows are not independent of each other")
    if findall(run.loop.body, m.For() | m.While() | m.Return() | m.Break() | m.Continue()):
        raise NotUnderstood("the loop holds another, or ends early")
    blocks = [source.code(call) for call in kernels.calls(kernel, "arange")]
    spread, found, of_row = columns.of_rows(kernel), list[str](), False
    for call in kernels.calls(run.loop, "load"):
        place = call.args[0].value
        if not any(source.loads(place, name) for name in spread) and not kernels.calls(place, "arange"):
            continue
        terms = addresses.terms(place, names)
        found.append(base_of(place, names, parameters))
        turns = any(re.search(rf"\b{run.row}\b", factor) for term in terms for factor in term)
        of_row = of_row or (turns and any((block,) in terms for block in blocks))
    if not of_row or len(blocks) != 1:
        raise NotUnderstood("no rows are loaded in the loop")
    return tuple(found)


def width_of(site: LaunchSite, kernel: cst.FunctionDef, run: Run) -> str:
    """The host's word for how wide a row is: what its columns are masked by. "" where they are not, or it has none."""
    places, bounds = columns.spread(kernel, columns.is_place), set[str]()
    for found in findall(kernel, m.Comparison(m.Name(), [m.ComparisonTarget(m.LessThan(), m.Name())])):
        compared = cst.ensure_type(found, cst.Comparison)
        bound = source.code(compared.comparisons[0].comparator)
        if source.code(compared.left) in places and bound in source.parameters(kernel) and bound != run.rows:
            bounds.add(bound)
    value = kernels.told(site.call, kernel, bounds.pop()) if len(bounds) == 1 else None
    return source.code(value) if isinstance(value, cst.Name) else ""


def block_of(kernel: cst.FunctionDef) -> str:
    """The parameter with the columns of a row, where the kernel has one block of them."""
    end = kernels.argument(kernels.calls(kernel, "arange")[0], 1, "end")
    if not isinstance(end, cst.Name) or end.value not in source.parameters(kernel):
        raise NotUnderstood("the block is no parameter")
    return str(end.value)


def row_bytes(site: LaunchSite, kernel: cst.FunctionDef, run: Run, *, may_add: bool = False) -> str:
    """The host's expression for the bytes that one turn of the loop loads: a block of every tensor with rows in it."""
    return bytes_of(site, kernel, rows_loaded(kernel, run, may_add=may_add))


def bytes_of(site: LaunchSite, kernel: cst.FunctionDef, pointers: tuple[str, ...]) -> str:
    """The host's expression for the bytes of a block of each tensor behind these pointers."""
    block = given(site, kernel, block_of(kernel))
    if not isinstance(block, cst.Name):
        raise NotUnderstood("the launch does not take its block from a variable")
    tensors = Counter(source.code(given(site, kernel, pointer)) for pointer in pointers)
    if not all(tensor.isidentifier() for tensor in tensors):
        raise NotUnderstood("the rows come from no variables")
    if not all(host_tensors.is_there(site, tensor) for tensor in tensors):
        raise NotUnderstood("rows are loaded of what may not be there")
    each = [f"{f'{n} * ' if n > 1 else ''}{tensor}.element_size()" for tensor, n in tensors.items()]
    size = each[0] if len(each) == 1 else f"({' + '.join(each)})"
    return f"{block.value} * {size}"
