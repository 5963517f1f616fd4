"""A function of our own above the first kernel of a file, and calls in kernels that go to it instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import columns, kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

PLAIN = m.Call(args=[m.Arg(keyword=None, star="")])
LINES = ("import triton", "import triton.language as tl")
"""What such a function is written with."""


def jitted(module: cst.Module) -> list[cst.FunctionDef]:
    return [one for one in source.functions(module) if kernels.is_kernel(one) or kernels.is_tuned(one)]


def of_rows(kernel: cst.FunctionDef, calls: Sequence[cst.Call]) -> list[cst.Call]:
    """Those that are made of each element of a row."""
    rows = columns.of_rows(kernel)
    if not all(m.matches(call, PLAIN) for call in calls):
        raise NotUnderstood("it is given more than a value")
    return [call for call in calls if columns.holds(call.args[0], columns.is_arange, rows)]


def _with_room(statement: cst.BaseStatement, lines: int = 2) -> cst.BaseStatement:
    """So many empty lines above it: two as between functions."""
    said = [line for line in getattr(statement, "leading_lines", ()) if line.comment is not None]
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * lines + said)


def _is_below_imports(module: cst.Module, kernel: cst.FunctionDef) -> bool:
    """Whether the line above it is an import: who sorts these wants one empty line there, and two above a function."""
    at = next(number for number, one in enumerate(module.body) if one is kernel)
    imports = m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])
    return at > 0 and m.matches(module.body[at - 1], imports)


def _calling(kernel: cst.FunctionDef, name: str, calls: Sequence[cst.Call]) -> cst.FunctionDef:
    new = {call: call.with_changes(func=cst.Name(name)) for call in calls}
    changed = cst.ensure_type(source.exchanged(kernel, new), cst.FunctionDef)
    before = set(source.code(kernel).splitlines())
    if any(len(line) > source.LONGEST for line in source.code(changed).splitlines() if line not in before):
        raise NotUnderstood("a line would be too long")
    return changed


def brought(
    module: cst.Module, names: Sequence[str], text: str, found: Mapping[cst.FunctionDef, Sequence[cst.Call]]
) -> tuple[cst.Module, tuple[str, ...]]:
    """The module with `text` above its first kernel, and these calls of each kernel going to the last of the `names`
    that it makes; and which kernels these are."""
    if any(findall(module, m.Name(name)) for name in names):
        raise NotUnderstood("the name is taken")
    ours = cst.parse_module(text, config=module.config_for_parsing).body
    first = jitted(module)[0]
    changes: list[tuple[cst.CSTNode, list[cst.BaseStatement]]] = [
        (kernel, [_calling(kernel, names[-1], calls)]) for kernel, calls in found.items() if kernel is not first
    ]
    top = _calling(first, names[-1], found.get(first, ()))
    few = _is_below_imports(module, first) and not isinstance(ours[0], cst.FunctionDef)
    above = _with_room(ours[0], 1 if few else 2)
    changes.append((first, [above, *(_with_room(one) for one in (*ours[1:], top))]))
    return source.spliced(module, changes), tuple(str(kernel.name.value) for kernel in found)
