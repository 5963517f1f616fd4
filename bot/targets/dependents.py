"""Which tests a change of some files concerns beyond the kernel's own."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath

from bot.targets.imports import importers
from bot.targets.tree import TreeReader, read_text

MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
IGNORED = re.compile(r"--ignore[= ](\S+)")


def _makefile(tree: TreeReader) -> str:
    return next((text for name in MAKEFILES if (text := read_text(tree, name)) is not None), "")


def recipe_of(tree: TreeReader, target: str) -> str | None:
    """The commands of one target of the Makefile; None when there is no such target."""
    found = re.search(rf"^{re.escape(target)}\s*:(?!=)[^\n]*\n?((?:\t[^\n]*\n?|[ ]*\n)*)", _makefile(tree), re.M)
    return found.group(1) if found else None


def _left_out(tree: TreeReader) -> tuple[str, ...]:
    """Folders that the repository's own `make test` leaves out: they need other packages, or hours."""
    return tuple(folder.rstrip("/") + "/" for folder in IGNORED.findall(recipe_of(tree, "test") or ""))


def dependent_tests(tree: TreeReader, changed: Collection[str], *, root: str, tests: str, own: str) -> tuple[str, ...]:
    """Test files below `tests` that import a changed file, or are named after a module that does."""
    left_out = _left_out(tree)
    candidates = [
        path
        for path in tree.list(tests)
        if re.fullmatch(r"test_\w+\.py", PurePosixPath(path).name) and not path.startswith(left_out)
    ]
    modules = [path for path in tree.list(root) if path.endswith(".py") and path not in candidates]
    importing = importers(tree, changed, root=root, among=(*modules, *candidates))
    named = {f"test_{PurePosixPath(path).stem}.py" for path in importing if path not in candidates}
    return tuple(p for p in candidates if p != own and (p in importing or PurePosixPath(p).name in named))
