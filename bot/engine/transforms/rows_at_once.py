"""Give a program several short rows: of a kernel with a program for each row, programs that take up to eight at once.

A row of a thousand columns in half precision is 2 KiB. A program that loads no more is mostly start and end: its few
loads wait alone, and all its warps meet for the sums of one row. As a block of rows, loads of all of them are under way
together and the sums of all of them wait once. Liger's rms_norm has such a kernel, written by hand, for rows of up to
256 columns.

A program takes as many rows as make 8 KiB, and one where a row is longer than half of that, or where there are too few
rows to keep a GPU busy with fewer programs. With one row nothing is masked but columns, and the compiler makes what it
made: for sm_90 as many instructions and registers in softmax, layer_norm and relu_squared. A row behind the last one is
masked, and nothing of it is stored. Refused unless each statement is understood: one
`row = tl.program_id(0)`, one block of columns, no loop, branches about constants, sums, maxima and minima over whole
rows, and nothing stored that is not of the program's own row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, commas, kernels, runs, shapes, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.row_edits import MASK, PARAMETER, SIZE, VARIABLE, RowEdits
from bot.engine.shapes import Shapes
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

ROWS = "n_rows"
MOST_ROWS, MOST_BYTES = 8, 8192
"""Of a program: 4096 elements of half precision, with the 4 or 8 warps of such rows 16 or 32 a thread."""
FEWEST = 4096
"""Rows from which fewer programs still are several for each multiprocessor: 512 of eight rows each."""
ROW_A_PROGRAM = re.compile(r"\b(programs?|instances?|blocks?|kernels?)\b.*\b(per|a|each|every) row\b", re.IGNORECASE)
WHY = "Several short rows a program: their loads are under way together, and all their sums wait once."
WHY_WITHOUT_SUMS = "Several short rows a program: their loads are under way together."
IN_KERNEL = f"{PARAMETER} rows a program; one behind the last is masked."


def _row(kernel: cst.FunctionDef) -> tuple[str, cst.SimpleStatementLine]:
    """`row = tl.program_id(0)`: the variable and its line."""
    if kernels.program_axes(kernel).count(0) != 1 or None in kernels.program_axes(kernel):
        raise NotUnderstood("it does not ask once for its row")
    for line in source.statements(kernel):
        name = next(iter(source.targets(line)), "")
        if source.is_plain(line, name):
            line = cst.ensure_type(line, cst.SimpleStatementLine)
            value = addresses.without_casts(source.value(line))
            if source.code(value) == runs.PROGRAM:
                return name, line
    raise NotUnderstood("the row has no name")


def _helpers(module: cst.Module) -> dict[str, bool]:
    """The functions of the module, and whether what they return depends on the same element alone."""
    places = {*shapes.SHAPING, *shapes.BEFORE}
    return {
        str(one.name.value): kernels.is_kernel(one)
        and kernels.helpers_are_elementwise(one, module)
        and not any(kernels.called_name(call) in places for call in kernels.calls(one))
        for one in source.functions(module)
    }


def _lines(line: cst.SimpleStatementLine, row: str, rows: str) -> list[cst.SimpleStatementLine]:
    """The rows of a program in place of its row, and which of them are there."""
    assign = cst.ensure_type(line.body[0], cst.Assign)
    first = f"{source.code(assign.value)} * {PARAMETER} + tl.arange(0, {PARAMETER})[:, None]"
    changed = line.with_changes(body=[assign.with_changes(value=source.expression(first))])
    return [changed, source.assignment(f"{MASK} = ({row} < {rows}) | ({PARAMETER} == 1)", IN_KERNEL)]


class _Grid:
    """Of a launch: how many rows there are, and the grid with fewer programs."""

    def __init__(self, site: LaunchSite) -> None:
        self.site = site
        first, *others = runs.grid_of(site)
        if not isinstance(source.expression(first), cst.Name):
            raise NotUnderstood("the number of rows has no name")
        self.rows = first
        text = f"({', '.join([f'triton.cdiv({first}, {VARIABLE})', *others])}{'' if others else ','})"
        self.fewer = source.expression(text)

    def line(self) -> cst.SimpleStatementLine | None:
        """The line that made the grid, where it did so for this launch alone."""
        grid = self.site.grid
        at = source.last_binding(self.site, grid.value) if isinstance(grid, cst.Name) else None
        if at is None or not isinstance(grid, cst.Name):
            return None
        between = source.statements(self.site.function)[at + 1 : self.site.position]
        if any(findall(target, m.Name(self.rows)) for one in between for target in findall(one, m.AssignTarget())):
            raise NotUnderstood("the grid is not of the rows that the launch knows")
        line = source.statements(self.site.function)[at]
        alone = source.loads(self.site.function, grid.value) == 1
        return cst.ensure_type(line, cst.SimpleStatementLine) if alone else None

    def above(self) -> tuple[Sequence[cst.EmptyLine], Sequence[cst.EmptyLine]]:
        """What sets off the line that goes, if the launch is right behind it, and what its author said of it."""
        line, before = self.line(), source.statements(self.site.function)[self.site.position - 1]
        if line is None:
            return (), ()
        gap, said = source.split_above(line)
        behind = line.trailing_whitespace.comment
        said = (*said, *([cst.EmptyLine(comment=behind)] if behind is not None else []))
        return gap if line is before else (), said


def _told(site: LaunchSite, kernel: cst.FunctionDef, rows: str) -> str:
    """The parameter that is told the number of rows already; empty where there is none."""
    for parameter in source.parameters(kernel):
        given = kernels.told(site.call, kernel, parameter)
        if given is not None and source.code(given) == rows and not times_bound(kernel, parameter):
            return parameter
    return ""


def _loaded(kernel: cst.FunctionDef, found: Shapes) -> tuple[str, ...]:
    """The rows that are always loaded: what a constant asks for may not be there."""
    names, parameters = addresses.names_of(kernel), source.parameters(kernel)
    optional = [call for branch in findall(kernel, m.If() | m.IfExp()) for call in kernels.calls(branch, "load")]
    always = [call for call in found.blocks if not any(call is one for one in optional)]
    if not always:
        raise NotUnderstood("it loads no row, or none always")
    return tuple(runs.base_of(call.args[0].value, names, parameters) for call in always)


def _refuse_row_a_program(site: LaunchSite) -> None:
    """Raises NotUnderstood where it says above the launch that a program takes one row: that would be untrue there."""
    said = " ".join(line.comment.value for line in source.line_of(site).leading_lines if line.comment is not None)
    if ROW_A_PROGRAM.search(said):
        raise NotUnderstood("its author says that a program takes one row")


def _launch(
    site: LaunchSite, kernel: cst.FunctionDef, grid: _Grid, found: Shapes, *, tell: bool
) -> list[cst.BaseStatement]:
    """The launch on fewer programs, and the lines that say how many rows each of them takes."""
    if any(findall(site.function, m.Name(name)) for name in (VARIABLE, SIZE)):
        raise NotUnderstood(f"{VARIABLE} or {SIZE} is taken")
    _refuse_row_a_program(site)
    powers = [2**power for power in range(MOST_ROWS.bit_length() - 1, 0, -1)]
    choice = " else ".join(f"{rows} if {SIZE} <= {MOST_BYTES // rows}" for rows in powers)
    why = WHY if found.reductions else WHY_WITHOUT_SUMS
    lines = [
        source.assignment(f"{SIZE} = {runs.bytes_of(site, kernel, _loaded(kernel, found))}", why),
        source.assignment(f"{VARIABLE} = {choice} else 1"),
        source.assignment(f"{VARIABLE} = {VARIABLE} if {grid.rows} >= {FEWEST} else 1"),
    ]
    subscript = cst.ensure_type(site.call.func, cst.Subscript)
    call = cst.ensure_type(site.call.deep_replace(subscript.slice[0], _index(grid.fewer)), cst.Call)
    if tell:
        call = source.with_argument(call, ROWS, cst.Name(grid.rows))
    first, *others = source.launched_after(site, lines, source.with_argument(call, PARAMETER, cst.Name(VARIABLE)))
    first = cst.ensure_type(first, cst.SimpleStatementLine)
    own, (gap, said) = source.split_above(source.line_of(site))[0], grid.above()
    above = (*(own or gap), *said, *first.leading_lines[len(own) :])
    return [first.with_changes(leading_lines=above), *others]


def _index(value: cst.BaseExpression) -> cst.SubscriptElement:
    return cst.SubscriptElement(slice=cst.Index(value=value))


def _with_rows(kernel: cst.FunctionDef) -> cst.FunctionDef:
    """The kernel, which has its new constant, with the number of rows before that. With a row a program nobody asks."""
    parameters = list(kernel.params.params)
    parameters.insert(-1, cst.Param(cst.Name(ROWS), equal=source.TIGHT, default=cst.Integer("0")))
    parameters[-2] = parameters[-2].with_changes(comma=commas.plain(parameters[-3].comma))
    return kernel.with_changes(params=kernel.params.with_changes(params=parameters))


def _several(module: cst.Module, name: str) -> cst.Module:
    """One kernel and its only launch."""
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    row, line = _row(kernel)
    found = shapes.shapes_of_rows(kernel, row, line, _helpers(module))
    sites = source.sites(module, name)
    if len(sites) != 1:
        raise NotUnderstood(f"{name} is launched {len(sites)} times")
    grid = _Grid(sites[0])
    rows = _told(sites[0], kernel, grid.rows)
    if {MASK, PARAMETER, *(() if rows else (ROWS,))} & shapes.names(kernel):
        raise NotUnderstood("a name that the kernel needs is taken")
    made = grid.line()
    launch = _launch(sites[0], kernel, grid, found, tell=not rows)
    edited = cst.ensure_type(kernel.visit(RowEdits(found)), cst.FunctionDef)
    edited = _several_in(edited, row, rows or ROWS)
    changed = kernels.with_constant(edited, PARAMETER)
    changes = [(source.line_of(sites[0]), launch), (kernel, [changed if rows else _with_rows(changed)])]
    return source.spliced(module, [*changes, *([(made, [])] if made is not None else [])])


def _several_in(kernel: cst.FunctionDef, row: str, rows: str) -> cst.FunctionDef:
    _, line = _row(kernel)
    body = [new for old in source.statements(kernel) for new in (_lines(line, row, rows) if old is line else [old])]
    return source.with_statements(kernel, body)


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that takes a row a program, forward and backward alike."""
    if "import triton" not in text.splitlines():
        return None
    return each_kernel(
        text,
        _several,
        title="Several short rows a program",
        why=f"A program of one short row is mostly start and end: its few loads wait alone, and all its warps meet for "
        f"the sums of one row. As many rows as make {MOST_BYTES // 1024} KiB are loaded together and wait for their "
        "sums once; longer rows stay alone.",
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
