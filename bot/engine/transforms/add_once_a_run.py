"""Add once for a run of rows: rows that add to the same places add in registers, and to memory when the run is over.

A kernel whose programs each walk over a run of rows, in which `group = row // each` says what several rows share, adds
each of them to the sums of its group: modulated_rms_norm's backward adds 3072 columns of every row twice, to the places
of one of two groups, with all programs at the same. Rows of one group lie behind each other, so that a program adds up
its own and hands the sum on at the last row of a group and at its own last row: once or twice where it did so 62 times.

What is added is the same, and made into float32 as the addition to memory made it; who is added to whom first was left
to chance before. Asks for the loop of `pipeline_rows`, for additions that nobody looks at the result of, in branches
about parameters alone, for addresses and masks that follow the group and the columns and nothing else of the row, and
for a kernel that does not read what it adds to.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, runs, source
from bot.engine.addresses import Names
from bot.engine.atomics import ADDITION
from bot.engine.finding import findall
from bot.engine.runs import Run
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

TITLE = "Add once for a run of rows"
WHY = "Rows that share their sums are added up here, and handed on when others begin."


@dataclass(frozen=True, slots=True)
class Group:
    """`name = row // each` of the loop."""

    name: str
    each: str


@dataclass(frozen=True, slots=True)
class Sum:
    line: cst.SimpleStatementLine
    call: cst.Call
    pointer: str
    """The parameter that its address begins with."""

    @property
    def name(self) -> str:
        return f"{self.pointer.removesuffix('_ptr')}_run"


def _group(run: Run, kernel: cst.FunctionDef, names: Names) -> Group:
    known, found = source.parameters(kernel), []
    for line in cst.ensure_type(run.loop.body, cst.IndentedBlock).body:
        name = next(iter(source.targets(line)), "")
        value = addresses.without_casts(source.value(line))
        by_row = m.BinaryOperation(left=m.Name(run.row), operator=m.FloorDivide(), right=m.Name())
        if source.is_plain(line, name) and name in names.made and m.matches(value, by_row):
            each = source.code(cst.ensure_type(value, cst.BinaryOperation).right)
            found += [Group(name, each)] if each in known else []
    if len(found) != 1:
        raise NotUnderstood("rows are in no groups")
    return found[0]


def _written_out(node: cst.CSTNode, names: Names, but: str) -> tuple[set[str], list[cst.CSTNode]]:
    """The names that a value is made of in the end, and all values on the way; `but` stands for itself."""
    waiting, values, seen, leaves = [node], list[cst.CSTNode](), set[str](), set[str]()
    while waiting:
        values.append(waiting.pop())
        for name in {str(cst.ensure_type(one, cst.Name).value) for one in findall(values[-1], m.Name())} - seen:
            seen.add(name)
            if name in names.made and name != but:
                waiting.append(names.made[name])
            else:
                leaves.add(name)
                waiting += [names.moved[name]] if name in names.moved else []
    return leaves, values


def _refuse_other_rows(node: cst.CSTNode, run: Run, group: Group, names: Names) -> None:
    """Raises where a value is of the row, or of something that nobody knows."""
    leaves, values = _written_out(node, names, group.name)
    if run.row in leaves or leaves & names.unknown:
        raise NotUnderstood("it follows the row and not its group alone")
    if any(kernels.calls(value, "load") for value in values):
        raise NotUnderstood("it follows what is in memory")


def _pointer(address: cst.BaseExpression, kernel: cst.FunctionDef, names: Names) -> str:
    first = addresses.terms(address, names)[0]
    if len(first) != 1 or first[0] not in source.parameters(kernel):
        raise NotUnderstood("an address does not begin with a pointer")
    return first[0]


def _sums(kernel: cst.FunctionDef, run: Run, group: Group, names: Names) -> list[Sum]:
    """Every atomic of the kernel: one that is not such an addition leaves all as they are."""
    alone = findall(run.loop.body, m.SimpleStatementLine(body=[ADDITION]))
    lines = [cst.ensure_type(line, cst.SimpleStatementLine) for line in alone]
    atomics = [call for call in kernels.calls(kernel) if kernels.called_name(call).startswith("atomic_")]
    if not lines or len(lines) != len(atomics):
        raise NotUnderstood("there is no addition, or one that is something else")
    found = []
    for line in lines:
        call = cst.ensure_type(cst.ensure_type(line.body[0], cst.Expr).value, cst.Call)
        address, value = (kernels.argument(call, at, name) for at, name in ((0, "pointer"), (1, "val")))
        if address is None or value is None or any(arg.star for arg in call.args):
            raise NotUnderstood("nobody knows what is handed over")
        for arg in call.args:
            if arg.value is not value:
                _refuse_other_rows(arg.value, run, group, names)
        if group.name not in _written_out(address, names, group.name)[0]:
            raise NotUnderstood("what is added to is not of a group")
        found.append(Sum(line, call, _pointer(address, kernel, names)))
    if len({one.pointer for one in found}) != len(found):
        raise NotUnderstood("two additions go to the same places")
    return found


def _branches(run: Run, line: cst.CSTNode) -> list[cst.If]:
    every = [cst.ensure_type(one, cst.If) for one in findall(run.loop.body, m.If())]
    return [one for one in every if any(inner is line for inner in findall(one, m.SimpleStatementLine()))]


def _refuse_changing_branches(kernel: cst.FunctionDef, run: Run, one: Sum, names: Names) -> None:
    """Whether a row adds at all has to be the same for all rows, and no other loop may stand around it."""
    numbers = set(source.parameters(kernel)) - names.unknown - set(names.moved)
    for branch in _branches(run, one.line):
        if not {str(cst.ensure_type(name, cst.Name).value) for name in findall(branch.test, m.Name())} <= numbers:
            raise NotUnderstood("some rows add and others do not")
    if findall(run.loop.body, m.For() | m.While()):
        raise NotUnderstood("there is a loop in the loop")


def _refuse_readers(kernel: cst.FunctionDef, run: Run, one: Sum, names: Names) -> None:
    """What is added to is stored to in the other way of a branch at most, and read nowhere."""
    mine = addresses.derived(one.pointer, names)
    elsewise = {
        id(line)
        for branch in _branches(run, one.line)
        for way, other in ((branch.body, branch.orelse), (branch.orelse, branch.body))
        if way is not None
        and other is not None
        and any(line is one.line for line in findall(way, m.SimpleStatementLine()))
        for line in findall(other, m.SimpleStatementLine())
    }
    for found in findall(kernel.body, m.SimpleStatementLine()):
        line = cst.ensure_type(found, cst.SimpleStatementLine)
        is_address = bool(set(source.targets(line)) & mine) and not kernels.calls(line, "load")
        if line is one.line or id(line) in elsewise or is_address:
            continue
        if any(source.loads(line, name) for name in mine):
            raise NotUnderstood(f"{one.pointer} is more than what is added to")


def _lines_of(one: Sum, run: Run, group: Group, block: str) -> list[cst.BaseStatement]:
    """The addition in a register, and to memory where the next row is of another group or of nobody."""
    value = kernels.argument(one.call, 1, "val")
    assert value is not None
    to_memory = one.call.deep_replace(value, cst.Name(one.name))
    last = source.code(run.call.args[1].value)
    test = f"({run.row} + 1 == {last}) | (({run.row} + 1) // {group.each} != {group.name})"
    below = [
        cst.SimpleStatementLine(body=[cst.Expr(cst.ensure_type(to_memory, cst.Call))]),
        source.assignment(f"{one.name} = {_zeros(block)}"),
    ]
    branch = cst.If(test=source.expression(test), body=cst.IndentedBlock(body=below))
    added = cst.ensure_type(cst.parse_statement(f"{one.name} += {source.code(value)}"), cst.SimpleStatementLine)
    return [added.with_changes(leading_lines=one.line.leading_lines), branch]


def _zeros(block: str) -> str:
    return f"tl.zeros(({block},), dtype=tl.float32)"


def _once(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    run, names = runs.run_of(kernel), addresses.names_of(kernel)
    group, block = _group(run, kernel, names), runs.block_of(kernel)
    if len(kernels.calls(kernel, "arange")) != 1 or findall(kernel.body, m.Subscript()):
        raise NotUnderstood("it has more than one block of columns")
    sums = _sums(kernel, run, group, names)
    for one in sums:
        _refuse_changing_branches(kernel, run, one, names)
        _refuse_readers(kernel, run, one, names)
        if findall(kernel, m.Name(one.name)):
            raise NotUnderstood(f"{one.name} is taken")
    begun = [source.assignment(f"{one.name} = {_zeros(block)}", "" if at else WHY) for at, one in enumerate(sums)]
    first = begun[0].with_changes(leading_lines=(*run.loop.leading_lines, *begun[0].leading_lines))
    lines = {id(one.line): _lines_of(one, run, group, block) for one in sums}
    inside = source.spliced(cst.Module(body=[run.loop]), [(one.line, lines[id(one.line)]) for one in sums])
    loop = cst.ensure_type(inside.body[0], cst.For).with_changes(leading_lines=())
    changed = cst.ensure_type(
        source.spliced(cst.Module(body=[kernel]), [(run.loop, [first, *begun[1:], loop])]).body[0], cst.FunctionDef
    )
    refuse_long_lines(kernel, changed)
    return source.spliced(module, [(kernel, [changed])])


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file with such a run."""
    return each_kernel(
        text,
        _once,
        title=TITLE,
        why="Every row of a run adds all of its columns to memory, to the places that its neighbours add to as well. "
        "Added up in registers they are handed on once for all rows that share them.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
