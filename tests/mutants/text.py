"""One file, its tree, and where each node lies in the text, so that a change keeps every comment around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

SIMPLE = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


class Text:
    """A module with a parent for each node."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = [line.encode() for line in text.splitlines(keepends=True)]
        self._starts = [sum(map(len, self._lines[:index])) for index in range(len(self._lines) + 1)]
        self._raw = text.encode()
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._raw[start:end].decode()

    def inner(self, node: ast.AST) -> str:
        """As part of a larger expression."""
        return self.of(node) if isinstance(node, SIMPLE) else f"({self.of(node)})"

    def changed(self, node: ast.AST, new: str) -> str:
        start, end = self._span(node)
        return (self._raw[:start] + new.encode() + self._raw[end:]).decode()

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        while (outer := self.parents.get(node)) is not None:
            yield outer
            node = outer

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        return next((outer for outer in self.around(node) if isinstance(outer, ast.FunctionDef)), None)


def is_kernel(function: ast.FunctionDef | None) -> bool:
    return function is not None and any(ast.unparse(d) == "triton.jit" for d in function.decorator_list)


def called(node: ast.AST) -> str:
    """`tl.load` of a call to it, also for a method: `.to`."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id in ("tl", "torch", "triton", "ctx")
    ):
        return f".{node.func.attr}"
    return ast.unparse(node.func)
