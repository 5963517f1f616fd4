"""Rows are read once and should leave the cache first, so that what every program reads stays in it.

Only where a kernel reads both: rows of its own, and something that does not depend on the row, such as a weight.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite

HINT = "eviction_policy"


def _moving_pointers(kernel: cst.FunctionDef) -> frozenset[str]:
    """Pointers that are set to this program's row by `+=`."""
    moved = m.findall(kernel, m.AugAssign(target=m.Name(), operator=m.AddAssign()))
    targets = [cst.ensure_type(found, cst.AugAssign).target for found in moved]
    return frozenset(target.value for target in targets if isinstance(target, cst.Name))


def _columns(kernel: cst.FunctionDef) -> str:
    for found in m.findall(kernel, m.SimpleStatementLine()):
        names = source.targets(found)
        if len(names) == 1 and kernels.calls(found, "arange"):
            return names[0]
    raise NotUnderstood("no variable holds the columns of a row")


def _is_row(call: cst.Call, moving: frozenset[str]) -> bool:
    address = call.args[0]
    by_stride = bool(m.findall(address, m.BinaryOperation(operator=m.Multiply())))
    return by_stride or any(source.loads(address, name) for name in moving)


def _hinted(kernel: cst.FunctionDef) -> cst.FunctionDef | None:
    columns, moving = _columns(kernel), _moving_pointers(kernel)
    loads = [call for call in kernels.calls(kernel, "load") if call.args and source.loads(call.args[0], columns)]
    rows = [call for call in loads if _is_row(call, moving)]
    if not rows or len(rows) == len(loads):
        return None
    if any(kernels.argument(call, len(call.args), HINT) is not None for call in loads):
        return None

    class Hint(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
            if any(original_node is call for call in rows):
                return source.with_argument(updated_node, HINT, cst.SimpleString('"evict_first"'))
            return updated_node

    return cst.ensure_type(kernel.visit(Hint()), cst.FunctionDef)


def rewrite(text: str) -> Rewrite | None:
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    done = []
    for name in [str(kernel.name.value) for kernel in kernels.kernels(module)]:
        # A replacement makes new nodes of everything: the next kernel is looked up again.
        kernel = source.kernel_named(module, name)
        assert kernel is not None
        try:
            hinted = _hinted(kernel)
        except NotUnderstood:
            continue
        if hinted is not None:
            module = source.replaced(module, kernel, hinted)
            done.append(name)
    if not done:
        return None
    return Rewrite(
        text=str(module.code),
        kernels=tuple(done),
        title="Rows leave the cache first",
        why="A row is read once; what every program reads should not have to make room for it.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
