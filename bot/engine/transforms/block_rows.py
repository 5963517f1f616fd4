"""Take several short rows a turn: a program's loop over its run of rows goes on in blocks of two or four.

A row of a thousand columns is too little for a program: its loads are few, and after each row all warps wait for each
other's part of the sums. Several rows make one block: more loads are under way, the sums of all of them wait once, and
what is added up from row to row (the gradient of a weight) stays apart, lane by lane, until the loop is over. On an
H200 a sketch of rms_norm's backward took two rows a step at 8192 x 4096 and four at 8192 x 1024 beside a pipelined
loop, for 2.1x (8192 x 4096).

A block has at most 32 KiB of rows, half of it where two programs share a multiprocessor, and never more rows than the
program would take anyway. A row behind the last one
is masked; where it might add to a sum all the same, it is left out there. Refused unless each statement of the kernel
is understood: one loop over a run of rows, branches about constants, sums, maxima and minima over whole rows.
"""

from __future__ import annotations

import libcst as cst

from bot.engine import kernels, runs, shapes, source
from bot.engine.row_edits import MASK, PARAMETER, SIZE, VARIABLE, Edit, RowEdits
from bot.engine.runs import Run
from bot.engine.shapes import PER_COLUMN, Nothing, Shapes
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms import more_programs
from bot.engine.transforms.rewrite import Rewrite, each_kernel

START = "start"
MOST_ROWS, MOST_BYTES = 4, 32768
"""Bytes of all rows loaded in one turn: with three stages of a pipelined loop 64 KiB of shared memory are enough."""
WHY = "Several short rows a turn: their loads are under way together, and all their sums wait once."
IN_LOOP = "A row behind the last one is masked and adds nothing."


def _started(value: cst.BaseExpression, had: int, block: str) -> cst.BaseExpression:
    """The running sum's first value, for each row of a block on its own."""
    if had == PER_COLUMN and isinstance(value, cst.Call) and kernels.called_name(value) == "zeros":
        shape = value.args[0].value
        if isinstance(shape, cst.Tuple | cst.List) and [source.code(e.value) for e in shape.elements] == [block]:
            wide = value.args[0].with_changes(value=source.expression(f"({PARAMETER}, {block})"))
            return value.with_changes(args=[wide, *value.args[1:]])
    if had != PER_COLUMN and isinstance(value, cst.Float) and value.evaluated_value == 0:
        return source.expression(f"tl.zeros(({PARAMETER}, 1), dtype=tl.float32)")
    raise NotUnderstood("a running sum does not begin with zeros")


class _Blocked(RowEdits):
    """The kernel with its loop in blocks of rows."""

    def __init__(self, kernel: cst.FunctionDef, run: Run, found: Shapes) -> None:
        super().__init__(found)
        self.found, self.run, self.block = found, run, runs.block_of(kernel)
        nothing = Nothing(found)
        for grown in found.grown:
            if not nothing.is_zero(grown.value):
                self.at(grown, _where)
        self._around(kernel)

    def _around(self, kernel: cst.FunctionDef) -> None:
        """The first values of the running sums, and what becomes of them behind the loop."""
        body = list(source.statements(kernel))
        at = next(i for i, statement in enumerate(body) if statement is self.run.loop)
        for name, had in self.found.sums.items():
            made = [
                node
                for statement in body[:at]
                for node in _assigns(statement)
                if isinstance(node.targets[0].target, cst.Name) and node.targets[0].target.value == name
            ]
            if len(made) != 1:
                raise NotUnderstood(f"{name} does not begin in one place")
            value = _started(made[0].value, had, self.block)
            self.at(made[0], _begun(value))
            text = f"tl.sum({name}, axis=0)" if had == PER_COLUMN else f"tl.sum({name})"
            for statement in body[at + 1 :]:
                for read in _reads(statement, name):
                    self.at(read, _replaced(source.expression(text)))

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
        if original_node is self.run.loop:
            return _loop(cst.ensure_type(updated_node, cst.For), self.run)
        return super().on_leave(original_node, updated_node)


def _begun(value: cst.BaseExpression) -> Edit:
    return lambda node: cst.ensure_type(node, cst.Assign).with_changes(value=value)


def _replaced(value: cst.BaseExpression) -> Edit:
    return lambda node: value


def _where(node: cst.CSTNode) -> cst.CSTNode:
    grown = cst.ensure_type(node, cst.AugAssign)
    return grown.with_changes(value=source.expression(f"tl.where({MASK}, {source.code(grown.value)}, 0.0)"))


def _assigns(statement: cst.CSTNode) -> list[cst.Assign]:
    if isinstance(statement, cst.Assign):
        return [statement]
    return [found for child in statement.children for found in _assigns(child)]


def _reads(statement: cst.CSTNode, name: str) -> list[cst.Name]:
    if isinstance(statement, cst.Name):
        return [statement] if statement.value == name else []
    return [found for child in statement.children for found in _reads(child, name)]


def _loop(loop: cst.For, run: Run) -> cst.For:
    first, last, *stages = cst.ensure_type(loop.iter, cst.Call).args
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    step = cst.Arg(cst.Name(PARAMETER), comma=comma if stages else cst.MaybeSentinel.DEFAULT)
    args = [first, last.with_changes(comma=comma), step, *stages]
    lines = [
        source.assignment(f"{run.row} = {START} + tl.arange(0, {PARAMETER})[:, None]", IN_LOOP),
        source.assignment(f"{MASK} = {run.row} < {source.code(last.value)}"),
    ]
    body = cst.ensure_type(loop.body, cst.IndentedBlock)
    return loop.with_changes(
        target=cst.Name(START),
        iter=cst.ensure_type(loop.iter, cst.Call).with_changes(args=args),
        body=body.with_changes(body=[*lines, *body.body]),
    )


def _launch(site: LaunchSite, kernel: cst.FunctionDef, run: Run) -> list[cst.BaseStatement]:
    """The launch with as many rows as make a block, and the lines that say how many."""
    each = runs.given(site, kernel, run.each)
    if not isinstance(each, cst.Name):
        raise NotUnderstood("the rows of a program have no name")
    if any(source.loads(site.function, name) for name in (VARIABLE, SIZE)):
        raise NotUnderstood(f"{VARIABLE} or {SIZE} is taken")
    # Registers are shared by the programs of a multiprocessor: with rows for one alone, the others would have to wait.
    most = MOST_BYTES // more_programs.programs_on_each(site.function)
    four, two = most // MOST_ROWS, most // 2
    lines = [
        source.assignment(f"{SIZE} = {runs.row_bytes(site, kernel, run)}", WHY),
        source.assignment(f"{VARIABLE} = {MOST_ROWS} if {SIZE} <= {four} else 2 if {SIZE} <= {two} else 1"),
        source.assignment(f"{VARIABLE} = {VARIABLE} if {each.value} >= {MOST_ROWS} else 1"),
    ]
    return source.launched_after(site, lines, source.with_argument(site.call, PARAMETER, cst.Name(VARIABLE)))


def _block(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    run = runs.run_of(kernel)
    if {START, MASK, PARAMETER} & shapes.names(kernel):
        raise NotUnderstood("a name that the loop needs is taken")
    found = source.sites(module, name)
    if len(found) != 1:
        raise NotUnderstood(f"{name} is launched {len(found)} times")
    lines = _launch(found[0], kernel, run)
    blocked = kernel.visit(_Blocked(kernel, run, shapes.shapes_of(kernel, run)))
    changed = kernels.with_constant(cst.ensure_type(blocked, cst.FunctionDef), PARAMETER)
    return source.spliced(module, [(source.line_of(found[0]), lines), (kernel, [changed])])


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that goes through a run of rows."""
    return each_kernel(
        text,
        _block,
        title="Take several short rows a turn",
        why="A short row is too little for a program: its loads are few, and all warps wait for its sums. Two or four "
        "rows make a block, of at most 32 KiB on a multiprocessor, whose loads are under way together and whose sums "
        "wait once.",
        seen="2.1x for such a kernel together with loads ahead of time, as a sketch of it gained on an H200 (8192 x "
        "4096, two rows a step).",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
