"""What git says of two texts, so that a page counts the same lines as the commit that comes of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bot.git.run import run
from bot.model.variant import SourceFile

DIFF = ("diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--text", "--", "old", "new")


def _hunks(old: str, new: str) -> str:
    """From the first `@@` on. The texts lie under names of ours: no path or attribute of theirs reaches git."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("old", old), ("new", new)):
            (Path(folder) / name).write_bytes(text.encode())
        ran = run(Path(folder), DIFF)
    if ran.code not in (0, 1):
        raise ran.failed()
    _, mark, rest = ran.out.decode().partition("\n@@ ")
    return f"@@ {rest}".removesuffix("\n") if mark else ""


def difference(before: tuple[SourceFile, ...], after: tuple[SourceFile, ...]) -> str:
    """A unified diff of the files of `after`."""
    old = {file.path: file.text for file in before}
    changed = [(file.path, old.get(file.path, ""), file.text) for file in after]
    return "\n".join(f"--- a/{path}\n+++ b/{path}\n{_hunks(was, now)}" for path, was, now in changed if was != now)
