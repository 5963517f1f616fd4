"""Rows are read once and should leave the cache first, so that what every program reads stays in it.

Only where a kernel reads both: rows of its own, and something that does not depend on the row, such as a weight.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

HINT = "eviction_policy"


def _moving_pointers(kernel: cst.FunctionDef) -> frozenset[str]:
    """Pointers that are set to this program's row by `+=`."""
    moved = findall(kernel, m.AugAssign(target=m.Name(), operator=m.AddAssign()))
    targets = [cst.ensure_type(found, cst.AugAssign).target for found in moved]
    return frozenset(target.value for target in targets if isinstance(target, cst.Name))


def _columns(kernel: cst.FunctionDef) -> str:
    for found in findall(kernel, m.SimpleStatementLine()):
        names = source.targets(found)
        if len(names) == 1 and kernels.calls(found, "arange"):
            return names[0]
    raise NotUnderstood("no variable holds the columns of a row")


def _is_row(call: cst.Call, moving: frozenset[str]) -> bool:
    address = call.args[0]
    by_stride = bool(findall(address, m.BinaryOperation(operator=m.Multiply())))
    return by_stride or any(source.loads(address, name) for name in moving)


def _hint(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    columns, moving = _columns(kernel), _moving_pointers(kernel)
    loads = [call for call in kernels.calls(kernel, "load") if call.args and source.loads(call.args[0], columns)]
    rows = [call for call in loads if _is_row(call, moving)]
    if not rows or len(rows) == len(loads):
        raise NotUnderstood("there is nothing to keep, or nothing to let go")
    if any(kernels.argument(call, len(call.args), HINT) is not None for call in loads):
        raise NotUnderstood("it has hints already")

    class Hint(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
            if any(original_node is call for call in rows):
                return source.with_argument(updated_node, HINT, cst.SimpleString('"evict_first"'))
            return updated_node

    return source.replaced(module, kernel, cst.ensure_type(kernel.visit(Hint()), cst.FunctionDef))


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that reads rows of its own beside what all programs read."""
    return each_kernel(
        text,
        _hint,
        title="Rows leave the cache first",
        why="A row is read once; what every program reads should not have to make room for it.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
