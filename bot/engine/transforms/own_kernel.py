"""For rewrites that bring a kernel of their own along: whether a file can hold it, and where it comes to stand."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

IMPORTS = ("import torch", "import triton", "import triton.language as tl")
"""What the kernel and its launch are written with."""


def module_with_room(text: str, names: Sequence[str]) -> cst.Module | None:
    """The module, where it has these imports and none of the new names is taken."""
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    lines = text.splitlines()
    missing, taken = any(line not in lines for line in IMPORTS), any(findall(module, m.Name(name)) for name in names)
    return None if missing or taken else module


def context_of(function: cst.FunctionDef) -> str:
    """What a function enters for its launches: `device_context` of `with device_context(x.device):`, and nothing where
    it enters nothing. Raises NotUnderstood for any other reason to enter something."""
    found = findall(function, m.With())
    names = {source.code(call.func) for one in found if (call := _entered(one)) is not None}
    if not found:
        return ""
    root = next(iter(names), "").split(".")[0]
    known = (*source.parameters(function), *bound_in(function))
    if len(names) != 1 or any(_entered(one) is None for one in found) or root in known:
        raise NotUnderstood("something else than a device is entered")
    return names.pop()


def knows_the_device(function: cst.FunctionDef) -> bool:
    try:
        context_of(function)
    except NotUnderstood:
        return False
    return True


def _entered(statement: cst.CSTNode) -> cst.Call | None:
    """The call of `with call(x.device):`."""
    if not isinstance(statement, cst.With) or len(statement.items) != 1:
        return None
    call = statement.items[0].item if statement.items[0].asname is None else None
    if isinstance(call, cst.Call) and m.matches(call, m.Call(args=[m.Arg(m.Attribute(attr=m.Name("device")))])):
        return call
    return None


def _within(helper: cst.Module, context: str) -> cst.Module:
    """The helper with its launch on the device of the tensors, as torch's own kernels are, wherever it is called."""
    lines = [line for line in findall(helper, m.SimpleStatementLine()) if findall(line, source.LAUNCH)]
    changes = []
    for line in lines:
        (call,) = (cst.ensure_type(one, cst.Call) for one in findall(line, source.LAUNCH))
        entering = cst.parse_statement(f"with {context}({source.code(call.args[0].value)}.device):\n    pass\n")
        block = cst.IndentedBlock(body=[cst.ensure_type(line, cst.SimpleStatementLine)])
        changes.append((line, [cst.ensure_type(entering, cst.With).with_changes(body=block)]))
    return source.spliced(helper, changes)


def placed_above(
    module: cst.Module, function: cst.FunctionDef, helper: str, changed: Sequence[cst.BaseStatement]
) -> str:
    """The text with the helper above the function that calls it, and which becomes another one. Whoever asks for it
    `knows_the_device`."""
    own = cst.parse_module(helper, config=module.config_for_parsing)
    context = context_of(function)
    new = list((_within(own, context) if context else own).body)
    new[0] = new[0].with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine()))
    return source.written(source.spliced(module, [(function, [*new, *changed])]))
