"""What a kernel asks the library's own dispatcher for, read from the sources alone. A library like liger-kernel 0.8.5
has some ops in several languages; judged are its Triton kernels, and its tests are told to take those too."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from bot.targets.imports import called_with
from bot.targets.tree import TreeReader, read_text

TRITON = "nvidia-triton"
VARIABLE = "LIGER_KERNEL_IMPL_{}"
"""Of one op. The one for all ops, without its name, is read in a second place of liger-kernel 0.8.5 too, which refuses
the implementation; and a conftest that resets what was set by a call leaves a variable alone."""
NAME = re.compile(r"[A-Za-z0-9_]{1,60}", re.ASCII)
MOST = 8


def _nodes(tree: TreeReader, paths: Collection[str]) -> Iterator[ast.AST]:
    for path in paths:
        try:
            yield from ast.walk(ast.parse(read_text(tree, path) or ""))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def _known(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if NAME.fullmatch(name)))[:MOST]


def dispatched(tree: TreeReader, paths: Collection[str], functional: str = "") -> tuple[str, ...]:
    """Ops that these files ask for, themselves or by the function of that name in this module."""

    def names() -> Iterator[str]:
        for node in _nodes(tree, paths):
            if isinstance(node, ast.ImportFrom) and functional and node.module == functional:
                yield from (name.name for name in node.names)
            elif name := called_with(node, "dispatch"):
                yield name

    return _known(names())


def forced(tree: TreeReader, paths: Collection[str]) -> tuple[tuple[str, str], ...]:
    """The variables that make the library's tests take the Triton kernels of what these files ask for or register."""
    nodes = list(_nodes(tree, paths))
    said = (name for what in ("dispatch", "register_op") for node in nodes if (name := called_with(node, what)))
    return tuple((VARIABLE.format(name.upper()), TRITON) for name in _known(said))
