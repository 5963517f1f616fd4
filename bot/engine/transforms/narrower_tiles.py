"""Narrower tiles, where a thread holds more than it has registers for.

    block_n, block_c, num_warps, num_stages = meta(C, block_n, block_c, num_warps, num_stages)
    grid = (triton.cdiv(N, block_n), triton.cdiv(C, block_c))

A table says how wide a tile is, by the width of a row. Liger's mhc_post_res takes 128 columns of four streams and 32
tokens from 2048 columns on, and 64 below: once its detours are gone, its backward pass is at 58 % of its roof on an
H100 for 1024 columns, and at 16 % for 2048 and 4096, where it spills. Compiled for sm_90 with four streams of 2048
columns, it keeps 3288 bytes a thread in memory with 4 warps and 40 with 8; with tiles of 64 none, in 139 and 76
registers. A race for launch numbers tries other warps and leaves tiles alone. Here they become at most 64 columns wide,
unless a caller said how wide, and of whole vectors where the launch names a row's width: of rows of 2405 numbers the
backward pass took 2.2 times v0's time on an H200, as each tile goes through 16 KiB of shared memory, v0's through 4.

Or the tile is a square, as wide as a row: Liger's multi_token_attention masks 256 columns of as many rows with four
warps, 512 elements a thread, and on an H100 that is 148 of the 224 us that its forward pass takes.

The last axis of the grid that counts tiles of a size is the one, and with it those that count by the same. Refused
unless the block serves for nothing but these counts and `program * BLOCK + tl.arange(0, BLOCK)`, and their programs
for nothing but that: then one tile is as good as another. That a kernel stands more than one tile on that axis, a
launch has to show, of which the source says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, callers, kernels, runs, source, widths
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall, nodes
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

AT_MOST = 64
WHY = "Wider tiles hold more than a thread has registers for."


@dataclass(frozen=True, slots=True)
class Tiles:
    axes: tuple[int, ...]
    """More than one where a tile is a square."""
    variable: str
    """The host's, for how wide they are."""
    block: str
    """The kernel's."""
    made: cst.SimpleStatementLine
    """The line that gives the host's its value."""


def _axes(site: LaunchSite) -> tuple[tuple[int, ...], str]:
    every = [widths.counted(size)[1] for size in runs.grid_of(site)]
    blocks = [block for block in every if block]
    if not blocks:
        raise NotUnderstood("no axis of the grid counts tiles")
    return tuple(axis for axis, block in enumerate(every) if block == blocks[-1]), blocks[-1]


def _tiles(site: LaunchSite) -> Tiles:
    axes, variable = _axes(site)
    given = [arg for arg in site.call.args if arg.keyword is not None and m.matches(arg.value, m.Name(variable))]
    lines = [line for line in source.statements(site.function) if variable in source.targets(line)]
    if len(given) != 1 or len(lines) != 1 or times_bound(site.function, variable) != 1:
        raise NotUnderstood("how wide a tile is, is not said once")
    made = cst.ensure_type(lines[0], cst.SimpleStatementLine)
    if 0 < (kernels.integer(source.value(made)) or 0) <= AT_MOST:
        raise NotUnderstood("a tile is no wider than that")
    # the counts and the launch, and what is handed to the table
    if source.loads(site.function, variable) != len(axes) + 1 + source.loads(made, variable):
        raise NotUnderstood("how wide a tile is, is asked for elsewhere")
    keyword = given[0].keyword
    assert keyword is not None
    return Tiles(axes, variable, str(keyword.value), made)


def _program(columns: cst.CSTNode) -> str:
    """Of `program * BLOCK + tl.arange(0, BLOCK)` the program."""
    start = cst.ensure_type(cst.ensure_type(columns, cst.BinaryOperation).left, cst.BinaryOperation)
    return source.code(start.left)


def _axis_of(kernel: cst.FunctionDef, program: str, uses: int) -> int:
    """Which axis a program counts, where its columns are all that it is for."""
    lines = [line for line in source.statements(kernel) if source.is_plain(line, program)]
    said = [source.code(addresses.without_casts(source.value(line))) for line in lines]
    if len(said) != 1 or said[0] not in kernels.PROGRAMS or times_bound(kernel, program) != 1:
        raise NotUnderstood("a tile is not counted by its axis")
    if source.loads(kernel.body, program) != uses:
        raise NotUnderstood("which tile it is, is for more than its columns")
    return kernels.PROGRAMS[said[0]]


def _columns_of(kernel: cst.FunctionDef, places: Sequence[cst.CSTNode]) -> set[str]:
    """What the places of a tile's columns are called."""
    found = set()
    for line in source.statements(kernel):
        if any(node is one for node in nodes(line) for one in places):
            found |= set(source.targets(line))
    return found


def _refuse_whole_rows(kernel: cst.FunctionDef, columns: set[str], *, square: bool) -> None:
    """A tile may hold a row whole. What is made of all its columns may go into an addition to memory, to which each
    tile adds its own, and nowhere else; and what is not of its columns every tile would add."""
    known = kernels.ELEMENTWISE if square else {*kernels.ELEMENTWISE, "static_range", "range", "sum", "atomic_add"}
    if {kernels.called_name(call) for call in kernels.calls(kernel)} - known:
        raise NotUnderstood("something may be made of a whole row")
    behind = {name: m.Subscript(m.Name(name), slice=[kernels.NEW_AXIS, m.AtLeastN(n=1)]) for name in columns}
    are_not_first = all(source.loads(kernel.body, name) == len(findall(kernel, one)) for name, one in behind.items())
    sums = dict[str, cst.BaseExpression]()
    for line in findall(kernel, m.SimpleStatementLine()):
        sums |= {name: source.value(line) for name in source.targets(line) if _is_sum(source.value(line))}
    added = [call.args[1].value for call in kernels.calls(kernel, "atomic_add") if len(call.args) > 1]
    if not all(_is_sum(one) or (isinstance(one, cst.Name) and one.value in sums) for one in added):
        raise NotUnderstood("every tile would add the same")
    only_added = {name for name in sums if source.loads(kernel.body, name) == [*map(source.code, added)].count(name)}
    fine = [*added, *(value for name, value in sums.items() if name in only_added)]
    for call in kernels.calls(kernel, "sum"):
        axis = kernels.argument(call, 1, "axis")
        over_others = are_not_first and axis is not None and source.code(axis) == "0"
        if not over_others and not any(call is one for one in fine):
            raise NotUnderstood("something is made of a whole row")


def _is_sum(node: cst.CSTNode) -> bool:
    return bool(m.matches(node, m.Call(func=m.Attribute(m.Name("tl"), m.Name("sum")))))


def _refuse_other_uses(kernel: cst.FunctionDef, tiles: Tiles) -> None:
    """Which tile it is, and how wide, is for the columns alone."""
    block = m.Name(tiles.block)
    start = m.BinaryOperation(left=m.Name(), operator=m.Multiply(), right=block)
    first = kernels.arange_of(tiles.block)
    columns = findall(kernel.body, m.BinaryOperation(left=start, operator=m.Add(), right=first))
    programs = [_program(one) for one in columns]
    if not columns or len(findall(kernel.body, block)) != 2 * len(columns):
        raise NotUnderstood("a tile's width is for more than its columns")
    axes = [_axis_of(kernel, program, programs.count(program)) for program in sorted(set(programs))]
    if sorted(axes) != list(tiles.axes) or any(kernels.program_axes(kernel).count(axis) != 1 for axis in axes):
        raise NotUnderstood("a tile is not counted by its axis")
    _refuse_whole_rows(kernel, _columns_of(kernel, columns), square=len(tiles.axes) > 1)
    if kernels.calls(kernel, "num_programs"):
        raise NotUnderstood("it asks how many programs there are")


def _width(site: LaunchSite, tiles: Tiles) -> str:
    """How wide a row is, by its name; empty where the launch has none, or a square is as wide as it is high.

    Raises NotUnderstood where the name has no such value yet when a tile gets its width.
    """
    width, before = (widths.of_tiles(site) if len(tiles.axes) == 1 else ""), 0
    for line in source.statements(site.function):
        before += bound_in(line)[width]
        if line is tiles.made:
            break
    if width and before != times_bound(site.function, width):
        raise NotUnderstood("how wide a row is, is said after how wide a tile is")
    return width


def _lines(site: LaunchSite, tiles: Tiles) -> list[cst.BaseStatement]:
    name, given, width = tiles.variable, callers.GIVEN + tiles.variable, _width(site, tiles)
    whole = [f"{width} % {kernels.MULTIPLE} == 0"] if width else []

    def narrowed(*others: str) -> cst.SimpleStatementLine:
        where = " and ".join([*others, *whole])
        least = f"min({name}, {AT_MOST})"
        return source.assignment(f"{name} = {least} if {where} else {name}" if where else f"{name} = {least}", WHY)

    if name not in source.parameters(site.function):
        return [tiles.made, narrowed()]
    if not callers.is_none_by_default(site.function, name) or findall(site.function, m.Name(given)):
        raise NotUnderstood("a caller always says how wide a tile is, or a name is taken")
    before = source.assignment(f"{given} = {name}").with_changes(leading_lines=tiles.made.leading_lines)
    return [before, tiles.made.with_changes(leading_lines=()), narrowed(callers.unasked(name))]


def _narrower(module: cst.Module, name: str) -> cst.Module:
    kernel, sites = source.kernel_named(module, name), source.sites(module, name)
    assert kernel is not None
    if not sites:
        raise NotUnderstood(f"nobody launches {name}")
    tiles = [_tiles(site) for site in sites]
    if len({(one.axes, one.block) for one in tiles}) > 1 or len({id(one.made) for one in tiles}) < len(tiles):
        raise NotUnderstood("its launches count different tiles, or one line says how wide they are for several")
    _refuse_other_uses(kernel, tiles[0])
    return source.spliced(module, [(one.made, _lines(site, one)) for site, one in zip(sites, tiles, strict=True)])


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file with tiles of its own, or one of them."""
    return each_kernel(
        text,
        _narrower,
        title=f"Tiles of at most {AT_MOST} columns",
        why="A thread that holds more of a tile than it has registers for keeps the rest in memory. Of a narrower "
        "tile each has less.",
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
