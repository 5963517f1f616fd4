"""What git knows under a SHA never changes, so a page asks git once for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bot.localhub.history import Commit, FileChange, History

T = TypeVar("T")
MOST_KEPT = 2000
LARGEST_PICTURE = 2 * 2**20
PICTURE_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
"""Told by their first bytes; SVG is not among them, for it can hold a script."""


class Shelf:
    def __init__(self, history: History) -> None:
        self.history = history
        self._kept: dict[tuple[Any, ...], Any] = {}

    def once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What was made under this key; what is not there (None) may come later and is looked for again."""
        if key in self._kept:
            kept: T = self._kept[key]
            return kept
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        made = make()
        if made is not None:
            self._kept[key] = made
        return made

    def merge_base(self, one: str, other: str) -> str:
        return self.once(("base", one, other), lambda: self.history.merge_base(one, other))

    def commits(self, base: str, head: str) -> list[Commit]:
        return self.once(("commits", base, head), lambda: self.history.commits(base, head))

    def commit(self, sha: str) -> Commit | None:
        """The commit of this full SHA, or None when there is none."""

        def read() -> Commit | None:
            if not self.history.is_commit(sha):
                return None
            parent = next(iter(self.history.repo.parents(sha)), None)
            listed = self.history.commits(parent, sha) if parent else []
            return next((commit for commit in listed if commit.sha == sha), None)

        return self.once(("commit", sha), read)

    def files(self, before: str, after: str) -> list[FileChange]:
        return self.once(("files", before, after), lambda: self.history.files(before, after))

    def changes(self, sha: str) -> list[FileChange]:
        """What a commit changed against its parent."""
        parent = self.once(("parent", sha), lambda: next(iter(self.history.repo.parents(sha)), None))
        return self.files(parent, sha) if parent else []

    def file(self, sha: str, path: str) -> bytes | None:
        return self.history.file(sha, path)

    def picture(self, sha: str, path: str) -> tuple[str, bytes] | None:
        """Kind and content of a stored picture that is small and of a kind we show."""

        def read() -> tuple[str, bytes] | None:
            content = self.file(sha, path)
            if content is None or len(content) > LARGEST_PICTURE:
                return None
            kind = next((kind for magic, kind in PICTURE_KINDS.items() if content.startswith(magic)), None)
            return (kind, content) if kind else None

        return self.once(("picture", sha, path), read)
