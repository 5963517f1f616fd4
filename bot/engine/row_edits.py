"""What loads, stores and reductions of one row become where a block of several rows is taken at once.

The variable of the row is a column of numbers then, one for each row, and `row_mask` says which of them are there.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from bot.engine import kernels, source
from bot.engine.shapes import Shapes

PARAMETER, VARIABLE, SIZE = "BLOCK_ROW", "block_row", "row_bytes"
MASK = "row_mask"
Edit = Callable[[cst.CSTNode], cst.CSTNode]


def _argument(call: cst.Call, name: str, text: str) -> cst.Call:
    return source.with_argument(call, name, source.expression(text))


def _masked(call: cst.Call, position: int, fill: bool) -> cst.Call:
    """A load or store of rows that are there."""
    mask = kernels.argument(call, position, "mask")
    if mask is None:
        call = _argument(call, "mask", MASK)
        return _argument(call, "other", "0.0") if fill and kernels.argument(call, 2, "other") is None else call
    text = source.code(mask)
    together = source.expression(f"{MASK} & {text}" if isinstance(mask, cst.Name) else f"{MASK} & ({text})")
    args = [arg.with_changes(value=together) if arg.value is mask else arg for arg in call.args]
    return call.with_changes(args=args)


def _over_columns(call: cst.Call) -> cst.Subscript:
    """`tl.sum(x, axis=1)[:, None]` of `tl.sum(x, axis=0)`: a column of numbers, one for each row."""
    name = kernels.called_name(call)
    return cst.ensure_type(
        source.expression(f"tl.{name}({source.code(call.args[0].value)}, axis=1)[:, None]"), cst.Subscript
    )


class RowEdits(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
    """The kernel with its loads, stores and reductions of rows as those of a block of rows, and with other edits."""

    def __init__(self, found: Shapes) -> None:
        super().__init__()
        self._edits: dict[int, Edit] = {}
        self._kept: list[cst.CSTNode] = []
        for call in found.loads:
            self.at(call, lambda node: _masked(cst.ensure_type(node, cst.Call), 1, fill=True))
        for call in found.stores:
            self.at(call, lambda node: _masked(cst.ensure_type(node, cst.Call), 2, fill=False))
        for call in found.reductions:
            self.at(call, lambda node: _over_columns(cst.ensure_type(node, cst.Call)))

    def at(self, node: cst.CSTNode, edit: Edit) -> None:
        self._kept.append(node)  # an id is of a node for as long as somebody holds it
        self._edits[id(node)] = edit

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
        edit = self._edits.get(id(original_node))
        return edit(updated_node) if edit is not None else updated_node
