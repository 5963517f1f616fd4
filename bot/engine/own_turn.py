"""One turn of a kernel's loop as a function of its own, so that two loops can go through the same turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

EMPTY = cst.EmptyLine(indent=False)


@dataclass(frozen=True, slots=True)
class Turn:
    function: cst.FunctionDef
    call: cst.SimpleStatementLine
    """What stands in a loop in place of its lines."""


def _read(kernel: cst.FunctionDef, loop: cst.For) -> list[str]:
    """Names of the kernel's that a turn reads and does not make: what it is handed, what it made of that, in which turn
    it is, and what it is compiled for."""
    parameters, constants = source.parameters(kernel), kernels.constants(kernel)
    if findall(kernel.body, m.AnnAssign(target=m.Name())):
        raise NotUnderstood("the kernel makes constants of its own")
    counter, made = source.code(loop.target), bound_in(loop.body)
    local = [name for name in bound_in(kernel.body) if name not in parameters and name not in made and name != counter]
    order = [*(name for name in parameters if name not in constants), *local, counter]
    order += [name for name in parameters if name in constants]
    lines = source.statements(kernel)
    before = lines[: next(at for at, line in enumerate(lines) if line is loop)]
    sure = {counter, *parameters, *(name for line in before for name in source.targets(line))}
    read = [name for name in order if source.loads(loop.body, name)]
    if not sure.issuperset(read):
        raise NotUnderstood("a turn may read what is not there in every case")
    return read


def _name(module: cst.Module, kernel: cst.FunctionDef) -> str:
    name = f"{str(kernel.name.value).removesuffix('_kernel')}_turn"
    if findall(module, m.Name(name)):
        raise NotUnderstood("the name is taken")
    return name


def of_loop(module: cst.Module, kernel: cst.FunctionDef, loop: cst.For, sums: Sequence[str]) -> Turn:
    """The lines of a loop as a function that is handed the sums and gives them back. Whoever asks has seen that nothing
    else outlives a turn."""
    name, read = _name(module, kernel), [one for one in _read(kernel, loop) if one not in sums]
    said = {
        str(one.name.value): source.code(one.annotation.annotation) for one in source.declared(kernel) if one.annotation
    }
    parameters = [f"{one}: {said[one]}" if one in said else one for one in (*sums, *read)]
    given = ", ".join(sums)
    wide = "".join(f"\n    {one}," for one in parameters)
    empty = cst.ensure_type(cst.parse_statement(f"def {name}({wide}\n):\n    pass\n"), cst.FunctionDef)
    empty = empty.with_changes(decorators=[one.with_changes(leading_lines=()) for one in kernel.decorators])
    last = cst.ensure_type(cst.parse_statement(f"return {given}"), cst.SimpleStatementLine)
    lines = [*loop.body.body, last.with_changes(leading_lines=loop.body.footer)]
    arguments = "".join(f"\n    {one}," for one in (*sums, *read))
    call = cst.ensure_type(cst.parse_statement(f"{given} = {name}({arguments}\n)"), cst.SimpleStatementLine)
    return Turn(source.with_statements(empty, lines), call)


def above(kernel: cst.FunctionDef, turn: Turn) -> tuple[cst.FunctionDef, cst.FunctionDef]:
    """The function and the kernel, as they follow each other: what is said of the kernel stays with it."""
    lines = tuple(kernel.leading_lines)
    at = next((at for at in reversed(range(len(lines))) if lines[at].comment is None), -1) + 1
    return turn.function.with_changes(leading_lines=lines[:at]), kernel.with_changes(
        leading_lines=(EMPTY, EMPTY, *lines[at:])
    )
