"""Reads a kernel that holds one row in registers as a list of steps: which are about the row, which about one number.

A step is one simple statement with the constant conditions it stands under. A reduction turns a row into a number, and
what is computed from that number comes a pass later: the depth of a step is the number of passes it has to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

REDUCTIONS = ("sum", "max", "min")
Conditions = tuple[tuple[str, bool], ...]
"""Texts of the `if`s around a step, outermost first, and whether it stands in the body or behind the `else`."""


@dataclass(frozen=True, slots=True)
class Step:
    node: cst.BaseSmallStatement
    conditions: Conditions
    comments: tuple[str, ...]
    trailing: str
    binds: str
    """The variable it makes or changes; empty for a store."""
    reads: frozenset[str]
    is_row: bool = False
    """Whether it works on the whole row."""
    reduced: cst.Call | None = None
    """`tl.sum(row, axis=0)` in it, if it makes a number of a row."""
    depth: int = 0

    @property
    def is_store(self) -> bool:
        return not self.binds


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel that takes one row at once."""

    kernel: cst.FunctionDef
    docstring: str
    block: str
    columns: str
    mask: str
    width: str
    """The parameter with the number of columns."""
    steps: tuple[Step, ...]

    @property
    def passes(self) -> int:
        return 1 + max((step.depth for step in self.steps), default=0)


def _names(node: cst.CSTNode) -> frozenset[str]:
    """Variables that are read, which the name behind a dot and that of a named argument are not."""

    class Reader(cst.CSTVisitor):  # type: ignore[misc]  # libcst is not followed
        def __init__(self) -> None:
            self.found: set[str] = set()

        def visit_Name(self, node: cst.Name) -> None:
            self.found.add(node.value)

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

    reader = Reader()
    node.visit(reader)
    return frozenset(reader.found)


def _comments(lines: tuple[cst.EmptyLine, ...] | list[cst.EmptyLine]) -> tuple[str, ...]:
    return tuple(line.comment.value if line.comment is not None else "" for line in lines)


def _step(line: cst.SimpleStatementLine, conditions: Conditions, before: tuple[str, ...]) -> Step:
    if len(line.body) != 1:
        raise NotUnderstood("two statements share a line")
    node, comment = line.body[0], line.trailing_whitespace.comment
    comments, trailing = (*before, *_comments(list(line.leading_lines))), comment.value if comment is not None else ""
    if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name):
        return Step(node, conditions, comments, trailing, node.targets[0].target.value, _names(node.value))
    if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
        name = str(node.target.value)
        return Step(node, conditions, comments, trailing, name, _names(node.value) | {name})
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and kernels.called_name(node.value) == "store":
        return Step(node, conditions, comments, trailing, "", _names(node.value))
    raise NotUnderstood(f"it does more than compute, load and store: {source.code(node)[:40]}")


def _flat(
    body: cst.BaseSuite, conditions: Conditions, constants: frozenset[str], before: tuple[str, ...] = ()
) -> Iterator[Step]:
    if isinstance(body, cst.IndentedBlock) and body.footer and any(_comments(list(body.footer))):
        raise NotUnderstood("a comment ends a block")
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield _step(statement, conditions, before)
        elif isinstance(statement, cst.If):
            if not _names(statement.test) <= constants or kernels.calls(statement.test):
                raise NotUnderstood("a branch depends on more than constants")
            yield from _branches(statement, conditions, constants, before)
        else:
            raise NotUnderstood("it loops, returns early or defines something")
        before = ()


def _branches(
    statement: cst.If, conditions: Conditions, constants: frozenset[str], before: tuple[str, ...]
) -> Iterator[Step]:
    text = source.code(statement.test)
    lines = (*before, *_comments(list(statement.leading_lines)))
    yield from _flat(statement.body, (*conditions, (text, True)), constants, lines)
    orelse = statement.orelse
    if isinstance(orelse, cst.Else):
        yield from _flat(orelse.body, (*conditions, (text, False)), constants, _comments(list(orelse.leading_lines)))
    elif isinstance(orelse, cst.If):
        yield from _branches(orelse, (*conditions, (text, False)), constants, ())


def _reductions(node: cst.CSTNode) -> list[cst.Call]:
    return [call for name in REDUCTIONS for call in kernels.calls(node, name)]


def _hoisted(step: Step, taken: set[str]) -> Iterator[Step]:
    """The step with each reduction inside of a row expression in a step of its own before it."""
    for call in _reductions(step.node):
        if any(inner is not call for inner in _reductions(call)):
            raise NotUnderstood("a reduction in a reduction")
        kind = kernels.called_name(call)
        name = next(n for n in (f"row_{kind}", *(f"row_{kind}_{i}" for i in range(2, 9))) if n not in taken)
        taken.add(name)
        made = cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=call)
        yield Step(made, step.conditions, step.comments, "", name, _names(call), False, call)
        node = cst.ensure_type(step.node.deep_replace(call, cst.Name(name)), cst.BaseSmallStatement)
        value = node.value
        more = frozenset({step.binds} if isinstance(node, cst.AugAssign) else ())
        step = replace(step, node=node, comments=(), reads=_names(value) | more)
    yield step


def _over_rows(call: cst.Call, names: set[str]) -> bool:
    axis = kernels.argument(call, 1, "axis")
    if (axis is not None and kernels.integer(axis) != 0) or len(call.args) > 2:
        raise NotUnderstood("a reduction is not over the row alone")
    return bool(_names(call.args[0]) & names)


def _classified(steps: Iterator[Step], columns: str, mask: str, taken: set[str]) -> list[Step]:
    """Rows and numbers told apart, with the depth of each."""
    rows, depth, found = {columns, mask}, {columns: 0, mask: 0}, []
    for step in steps:
        over = [call for call in _reductions(step.node) if _over_rows(call, rows)]
        outside = _without(step.node, over)
        parts = _hoisted(step, taken) if len(over) > 1 or (over and _names(outside) & rows) else iter((step,))
        for part in parts:
            found.append(_placed(part, rows, depth, columns))
    return found


def _without(node: cst.CSTNode, calls: list[cst.Call]) -> cst.CSTNode:
    for call in calls:
        node = node.deep_replace(call, cst.Integer("0"))
    value = getattr(node, "value", node)
    return value if isinstance(value, cst.CSTNode) else node


def _placed(step: Step, rows: set[str], depth: dict[str, int], first: str) -> Step:
    over = [call for call in _reductions(step.node) if _over_rows(call, rows)]
    waits = max((depth.get(name, 0) for name in step.reads), default=0)
    is_row = not over and (step.binds == first or bool(step.reads & rows))
    waits += bool(over)
    if step.binds in rows and not is_row:
        raise NotUnderstood(f"{step.binds} is a row and then a number")
    if step.binds:
        if is_row and step.binds in depth and step.binds not in rows:
            raise NotUnderstood(f"{step.binds} is a number and then a row")
        earlier = depth.get(step.binds, 0) if step.conditions or isinstance(step.node, cst.AugAssign) else 0
        depth[step.binds] = max(waits, earlier)
        if is_row:
            rows.add(step.binds)
    return replace(step, is_row=is_row, reduced=over[0] if over else None, depth=waits)


def _ordered(steps: list[Step]) -> None:
    """Refuses what may not be taken apart: a number that is made anew after somebody read it, or before its time."""
    for at, step in enumerate(steps):
        for later in steps[at + 1 :]:
            if later.is_row or not later.binds:
                continue
            early = later.depth < step.depth
            if later.binds in step.reads and (step.is_row or step.reduced is not None or early):
                raise NotUnderstood(f"{later.binds} is made anew after it was read")
            if later.binds == step.binds and early:
                raise NotUnderstood(f"{later.binds} is made anew out of turn")


def _setup(kernel: cst.FunctionDef, steps: list[Step]) -> tuple[str, str, str, str]:
    """Block, columns, mask and width: `cols = tl.arange(0, BLOCK)` and `mask = cols < n_cols`."""
    aranges = [
        s
        for s in steps
        if isinstance(s.node, cst.Assign) and m.matches(s.node.value, m.Call(m.Attribute(attr=m.Name("arange"))))
    ]
    if len(aranges) != 1 or len(kernels.calls(kernel, "arange")) != 1 or aranges[0].conditions:
        raise NotUnderstood("no variable holds the columns of a row")
    columns, call = aranges[0].binds, cst.ensure_type(cst.ensure_type(aranges[0].node, cst.Assign).value, cst.Call)
    block = kernels.argument(call, 1, "end")
    compared = m.Comparison(
        left=m.Name(columns), comparisons=[m.ComparisonTarget(operator=m.LessThan(), comparator=m.Name())]
    )
    masks = [s for s in steps if isinstance(s.node, cst.Assign) and m.matches(s.node.value, compared)]
    if len(masks) != 1 or masks[0].conditions or kernels.integer(kernels.argument(call, 0, "start")) != 0:
        raise NotUnderstood("the columns are not masked by one width")
    comparison = cst.ensure_type(cst.ensure_type(masks[0].node, cst.Assign).value, cst.Comparison)
    width = cst.ensure_type(comparison.comparisons[0].comparator, cst.Name).value
    if not isinstance(block, cst.Name) or width not in source.parameters(kernel):
        raise NotUnderstood("block and width are not the launch's")
    if sum(s.binds in (columns, masks[0].binds) for s in steps) != 2:
        raise NotUnderstood("columns or mask are made twice")
    if source.loads(kernel, block.value) != 1:
        raise NotUnderstood("the block means more than a size")
    return block.value, columns, masks[0].binds, width


def row_of(kernel: cst.FunctionDef) -> Row:
    """Raises NotUnderstood unless the kernel takes one row, straight through."""
    if kernels.program_axes(kernel) != [0] or findall(kernel, m.Call(func=m.Attribute(attr=m.Name("num_programs")))):
        raise NotUnderstood("it is not one program a row")
    known = {*kernels.ELEMENTWISE, *REDUCTIONS, "float"}
    strange = [call for call in kernels.calls(kernel) if kernels.called_name(call) not in known]
    if strange:
        raise NotUnderstood(f"{kernels.called_name(strange[0])} may look at other elements of the row")
    body = cst.ensure_type(kernel.body, cst.IndentedBlock)
    docstring = ""
    if body.body and m.matches(body.body[0], kernels.DOCSTRING):
        docstring, body = source.code(body.body[0]).strip(), body.with_changes(body=body.body[1:])
    steps = list(_flat(body, (), kernels.constants(kernel)))
    block, columns, mask, width = _setup(kernel, steps)
    taken = {name for step in steps for name in (*step.reads, step.binds)}
    found = _classified(iter(steps), columns, mask, taken)
    _ordered(found)
    stores = [at for at, s in enumerate(found) if s.is_store and s.is_row]
    later = [s for s in found[min(stores, default=len(found)) :] if not s.is_row and kernels.calls(s.node, "load")]
    if later:
        raise NotUnderstood("something is loaded after a part of the row was stored")
    return Row(kernel, docstring, block, columns, mask, width, tuple(found))


def needed(row: Row, wanted: list[int]) -> list[int]:
    """The row steps that the wanted ones stand on, in order, the wanted among them."""
    chosen: set[int] = set(wanted)
    for target in wanted:
        names = set(row.steps[target].reads)
        for at in range(target - 1, -1, -1):
            step = row.steps[at]
            if not step.is_row or step.is_store or step.binds not in names:
                continue
            chosen.add(at)
            if not step.conditions and step.binds not in step.reads:
                names.discard(step.binds)
            names |= step.reads
    return sorted(chosen)
