"""Private functions of a kernel's files that other files import: whoever launches a kernel himself, as a test of rows
beyond 2^31 elements does, hands over its arguments as they are today."""

from __future__ import annotations

import ast
from collections.abc import Collection

from bot.targets.imports import names_asked
from bot.targets.tree import TreeReader, read_text


def _private(text: str) -> set[str]:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def relied_on(tree: TreeReader, files: Collection[str], *, root: str, under: Collection[str]) -> tuple[str, ...]:
    """Of their private functions those that another Python file below these folders asks for by name."""
    private = set().union(*(_private(read_text(tree, file) or "") for file in files))
    others = sorted({path for folder in under for path in tree.list(folder) if path.endswith(".py")} - set(files))
    return tuple(sorted(private & names_asked(tree, files, root=root, among=others, words=private)))
