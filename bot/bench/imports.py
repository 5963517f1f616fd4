"""Which libraries an op takes along, by the text of the package it lies in: read, never run.

liger-kernel asks for peft wherever it is installed, and peft for transformers: most likely those are the 6 s that each
of two workers imported on an H200 before the untouched layer_norm was recorded and checked.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 400
CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
NOT_CHECKING = tuple(f"not {name}" for name in CHECKING)


def _at_once(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """What is imported with the module: not in a function, which may never be called, nor for a type checker alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.With):
            yield from _at_once(node.body)
        elif isinstance(node, ast.If):
            test = ast.unparse(node.test)
            yield from _at_once([] if test in CHECKING else node.body)
            yield from _at_once([] if test in NOT_CHECKING else node.orelse)
        elif isinstance(node, ast.Try):
            handlers = [line for handler in node.handlers for line in handler.body]
            yield from _at_once([*node.body, *handlers, *node.orelse, *node.finalbody])


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that a `from` names, in a module of this package."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _named(body: list[ast.stmt], package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Modules, each with what is asked of it, which may be modules too."""
    for node in _at_once(body):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        else:
            yield _absolute(node, package), tuple(alias.name for alias in node.names)


def _file(root: Path, module: str) -> Path | None:
    place = root.joinpath(*module.split("."))
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)


def _body(file: Path) -> list[ast.stmt]:
    try:
        return ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return []


def _with_parents(module: str) -> list[str]:
    words = module.split(".")
    return [".".join(words[:count]) for count in range(1, len(words) + 1)]


def libraries(root: Path, module: str) -> tuple[str, ...]:
    """In the order in which they come. What a package imports by other means is not seen, and a name may turn out to be
    no module. Texts that nobody can read end it: what was found until then may be enough."""
    found = dict[str, None]()
    with contextlib.suppress(OSError, RecursionError, MemoryError, ValueError):
        _follow(root, module, found)
    return tuple(found)


def _follow(root: Path, module: str, found: dict[str, None]) -> None:
    waiting, seen = _with_parents(module), set[str]()
    while waiting and len(seen) < MOST_FILES:
        name = waiting.pop(0)
        file = _file(root, name)
        if name in seen or file is None:
            continue
        seen.add(name)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for imported, members in _named(_body(file), package):
            top = imported.partition(".")[0]
            if top and ((root / top).exists() or (root / f"{top}.py").exists()):
                waiting += [*_with_parents(imported), *(f"{imported}.{member}" for member in members)]
            elif top:
                found.setdefault(imported)
