"""Cut the row of an element-wise kernel into tiles: a grid of (row, tile) in place of one program a row.

A program that holds a wide row needs many warps, so few rows fit beside each other, and the lanes behind the last
column do nothing. Tiles of 1024 columns with 4 warps keep eight elements a thread at any width. On an H200
geglu's forward went from 0.274 ms to 0.166 ms that way.

Refused unless each element provably depends on itself alone: one program_id(0), one arange over the block, a mask
against the number of columns, no loop, no reduction, nothing stored that is not masked.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

TILE = 1024
TILE_WARPS = 4
WHY = "Tiles of a row, at most 8 elements a thread, leave room for many programs on one multiprocessor."


@dataclass(frozen=True, slots=True)
class Shape:
    """The words a row kernel uses for its parts."""

    block: str
    columns: str
    """The variable that holds the column numbers."""
    width: str
    """The parameter with the number of columns."""
    arange: cst.Call


def _column_statement(kernel: cst.FunctionDef) -> tuple[str, cst.Call, str]:
    """`cols = tl.arange(0, BLOCK)`: the variable, the call and the block."""
    for statement in source.statements(kernel):
        names = source.targets(statement)
        aranges = kernels.calls(statement, "arange")
        if len(names) == 1 and len(aranges) == 1:
            assign = cst.ensure_type(cst.ensure_type(statement, cst.SimpleStatementLine).body[0], cst.Assign)
            stop = kernels.argument(aranges[0], 1, "end")
            start = kernels.integer(kernels.argument(aranges[0], 0, "start"))
            if assign.value is aranges[0] and start == 0 and isinstance(stop, cst.Name):
                return names[0], aranges[0], stop.value
    raise NotUnderstood("no variable holds the columns of a row")


def _width(kernel: cst.FunctionDef, columns: str) -> str:
    """The bound of the one comparison that the columns are put to."""
    bounds = set()
    for found in findall(kernel, m.Comparison()):
        comparison = cst.ensure_type(found, cst.Comparison)
        if source.loads(comparison, columns) == 0:
            continue
        target = comparison.comparisons[0]
        plain = m.matches(
            comparison, m.Comparison(left=m.Name(columns), comparisons=[m.ComparisonTarget(m.LessThan())])
        )
        if not plain or not isinstance(target.comparator, cst.Name):
            raise NotUnderstood("the mask is not a plain `columns < width`")
        bounds.add(target.comparator.value)
    if len(bounds) != 1 or not bounds <= set(source.parameters(kernel)):
        raise NotUnderstood("the columns are not masked by one width")
    return str(bounds.pop())


def _columns_only_address(kernel: cst.FunctionDef, columns: str) -> bool:
    """Whether column numbers serve as addresses and in the mask alone: `pointer + cols`, never `cols - 1`."""
    address = m.BinaryOperation(operator=m.Add(), right=m.Name(columns))
    address |= m.BinaryOperation(operator=m.Add(), left=m.Name(columns))
    accesses = [*kernels.calls(kernel, "load"), *kernels.calls(kernel, "store")]
    whole = [call for call in accesses if call.args and m.matches(call.args[0].value, address)]
    masks = findall(kernel, m.Comparison(left=m.Name(columns)))
    return len(whole) + len(masks) == source.loads(kernel, columns)


def _is_masked(call: cst.Call, position: int, masks: frozenset[str], columns: str) -> bool:
    mask = kernels.argument(call, position, "mask")
    if isinstance(mask, cst.Name):
        return mask.value in masks
    return mask is not None and m.matches(mask, m.Comparison(left=m.Name(columns)))


def _mask_names(kernel: cst.FunctionDef, columns: str) -> frozenset[str]:
    found = set()
    for statement in source.statements(kernel):
        names = source.targets(statement)
        if len(names) == 1 and findall(statement, m.Comparison(left=m.Name(columns))):
            found.add(names[0])
    return frozenset(found)


def _check_accesses(kernel: cst.FunctionDef, columns: str) -> None:
    masks = _mask_names(kernel, columns)
    for name, position in (("load", 1), ("store", 2)):
        for call in kernels.calls(kernel, name):
            by_column = source.loads(call.args[0], columns) > 0
            if by_column and not _is_masked(call, position, masks, columns):
                raise NotUnderstood(f"a {name} by column has no mask")
            if not by_column and name == "store":
                raise NotUnderstood("something is stored once a row, and every tile would store it")


def _block_is_only_a_size(kernel: cst.FunctionDef, block: str) -> bool:
    """The block may shape a tensor and no more: as a factor it would mean the row."""
    sizes = [*kernels.calls(kernel, "arange"), *kernels.calls(kernel, "zeros"), *kernels.calls(kernel, "full")]
    return sum(source.loads(call, block) for call in sizes) == source.loads(kernel, block)


def _shape(kernel: cst.FunctionDef, module: cst.Module) -> Shape:
    columns, arange, block = _column_statement(kernel)
    if kernels.program_axes(kernel) != [0] or len(kernels.calls(kernel, "arange")) != 1:
        raise NotUnderstood("it is not one program a row")
    if kernels.has_loop(kernel) or findall(kernel, m.Return()) or findall(kernel, m.Call(m.Name("num_programs"))):
        raise NotUnderstood("it loops or returns early")
    if not kernels.helpers_are_elementwise(kernel, module):
        raise NotUnderstood("it calls what may look at other elements")
    width = _width(kernel, columns)
    if not _columns_only_address(kernel, columns) or not _block_is_only_a_size(kernel, block):
        raise NotUnderstood("the columns or the block mean more than a place in the row")
    _check_accesses(kernel, columns)
    return Shape(block, columns, width, arange)


def _width_at(site: LaunchSite, kernel: cst.FunctionDef, width: str) -> str:
    value = kernels.told(site.call, kernel, width)
    if not isinstance(value, cst.Name | cst.Attribute):
        raise NotUnderstood(f"the launch does not name what it passes for {width}")
    return source.code(value)


def _rows_at(site: LaunchSite) -> str:
    grid = site.grid
    if isinstance(grid, cst.Tuple) and len(grid.elements) == 1:
        return source.code(grid.elements[0].value)
    raise NotUnderstood("the grid is not written as (rows,)")


def _tiled_launch(module: cst.Module, site: LaunchSite, kernel: cst.FunctionDef, shape: Shape) -> cst.FunctionDef:
    """The launch of one function: block and warps after they are known, and a second axis in the grid."""
    given, warps = site.argument(shape.block), site.argument("num_warps")
    rows, width = _rows_at(site), _width_at(site, kernel, shape.width)
    if not isinstance(given, cst.Name) or (warps is not None and not isinstance(warps, cst.Name | cst.Integer)):
        raise NotUnderstood("the launch does not take its numbers from variables")
    at = source.last_binding(site, given.value)
    others = len(findall(site.function, source.LAUNCH)) - 1
    if at is None or others:
        raise NotUnderstood("the block is not made for this launch alone")
    block = given.value
    grid = source.expression(f"({rows}, triton.cdiv({width}, {block}))")
    body = list(source.statements(site.function))
    call = site.call.with_changes(func=site.call.func.with_deep_changes(_index(site.call), value=grid))
    named = isinstance(warps, cst.Name) and source.loads(site.function, warps.value) == 1
    if not named:
        call = source.with_argument(call, "num_warps", cst.Integer(str(TILE_WARPS)))
    body[site.position] = body[site.position].deep_replace(site.call, call)
    targets = (block, warps.value) if named and isinstance(warps, cst.Name) else (block,)
    _place(body, at, targets, site)
    return source.with_statements(site.function, body)


def _place(body: list[cst.BaseStatement], at: int, targets: tuple[str, ...], site: LaunchSite) -> None:
    """The tile's numbers, after the statement that made the row's; a rule of ours for the same numbers is taken out."""
    last = max(found for name in targets if (found := source.last_binding(site, name)) is not None)
    block = targets[0]
    values = (f"min({block}, {TILE})", str(TILE_WARPS))[: len(targets)]
    new = source.assignment(f"{', '.join(targets)} = {', '.join(values)}", WHY)
    if last > at and source.is_plain(body[last], targets[-1]):
        old = cst.ensure_type(body[last], cst.SimpleStatementLine)
        kept = source.without_ours(old.leading_lines)
        body[last] = new.with_changes(leading_lines=(*kept, *new.leading_lines))
    else:
        body.insert(last + 1, new)


def _index(call: cst.Call) -> cst.Index:
    return cst.ensure_type(cst.ensure_type(call.func, cst.Subscript).slice[0].slice, cst.Index)


def _tile(module: cst.Module, name: str) -> cst.Module:
    """One kernel and its only launch."""
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    shape = _shape(kernel, module)
    found = source.sites(module, name)
    if len(found) != 1:
        raise NotUnderstood(f"{name} is launched {len(found)} times")
    launch = _tiled_launch(module, found[0], kernel, shape)
    tiled = source.expression(f"tl.program_id(1) * {shape.block} + {source.code(shape.arange)}")
    columns = kernel.deep_replace(shape.arange, tiled)
    # One statement of the module after the other: each replacement makes new nodes.
    body = [columns if node is kernel else launch if node is found[0].function else node for node in module.body]
    if columns not in body or launch not in body:
        raise NotUnderstood(f"{name} is not launched by a function of the module")
    return module.with_changes(body=body)


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every element-wise kernel of the file, forward and backward alike."""
    return each_kernel(
        text,
        _tile,
        title="Cut rows into tiles of 1024 columns",
        why="Every element depends on itself alone, so a row need not be held by one program. "
        "Tiles keep the elements of a thread few and the lanes behind the last column few as well.",
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
