"""Whether a move of the head leaves alone what a kernel, its tests and its style depend on. Doubt counts as no."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath

from bot.model.ids import RepoPath
from bot.model.site import KernelSite
from bot.targets.imports import importers
from bot.targets.judges import judging
from bot.targets.tree import TreeReader


def _reached(tree: TreeReader, changed: Collection[RepoPath], root: str, among: Collection[RepoPath]) -> set[RepoPath]:
    """The changed files and all that import them, over any number of steps."""
    found = set(changed)
    while True:
        more = set(importers(tree, sorted(found), root=root, among=among)) - found
        if not more:
            return found
        found |= more


def _python(tree: TreeReader, under: str) -> list[RepoPath]:
    return [path for path in tree.list(under) if path.endswith(".py")]


def _in_the_open(path: RepoPath, before: TreeReader, after: TreeReader) -> bool:
    """A file outside the sources whose folder is not new: it can shadow no library when tests run from the root."""
    top, _, rest = path.partition("/")
    return bool(rest) and bool(before.list(top)) and bool(after.list(top))


def is_harmless(changed: Collection[RepoPath], site: KernelSite, before: TreeReader, after: TreeReader) -> bool:
    """`changed` is all in which the two commits differ."""
    weighed = {*site.files, site.test_file, site.benchmark_file, *site.dependent_tests}
    if weighed & set(changed) or judging(changed, site):
        return False
    root = site.source_root.rstrip("/")
    inside = [path for path in changed if path.startswith(f"{root}/")]
    # An `__init__` runs whenever anything of its package is imported; what is not Python can be loaded by any name.
    if any(not path.endswith(".py") or PurePosixPath(path).name == "__init__.py" for path in inside):
        return False
    outside = [path for path in changed if path.endswith(".py") and path not in inside]
    if not all(_in_the_open(path, before, after) for path in outside):
        return False
    for tree in (before, after):
        among = sorted({*_python(tree, root), *weighed})
        for base, moved in ((root, inside), ("", outside)):
            if moved and _reached(tree, moved, base, among) & weighed:
                return False
    return True
