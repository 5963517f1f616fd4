"""Reading a repository's files by path, from wherever they are. Links are never followed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

MAX_FILE = 4 * 2**20
"""A source, a test, a configuration; what is larger is none of them and reads as missing."""


class TreeReader(Protocol):
    """One state of a repository. A commit read through git answers the same questions."""

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes | None: ...

    def list(self, under: str = "") -> tuple[str, ...]: ...


def read_text(tree: TreeReader, path: str) -> str | None:
    """A file as text; None when it is missing or is not UTF-8."""
    content = tree.read(path)
    if content is None or len(content) > MAX_FILE:
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return content.decode("utf-8")
    return None


class DirectoryTree:
    """A checkout on disk. It can be a stranger's: links, devices and pipes count as missing."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def _plain(self, path: str) -> Path | None:
        parts = path.split("/")
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            return None
        here = self._root
        for part in parts:
            here = here / part
            if here.is_symlink():
                return None
        return here

    def exists(self, path: str) -> bool:
        file = self._plain(path)
        return file is not None and file.is_file()

    def read(self, path: str) -> bytes | None:
        file = self._plain(path)
        if file is None:
            return None
        try:
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, handle)
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_FILE:
                return None
            with os.fdopen(handle, "rb", closefd=False) as stream:
                return stream.read(MAX_FILE)

    def list(self, under: str = "") -> tuple[str, ...]:
        """Plain files below a folder, sorted; `.git` is not part of the tree."""
        start = self._plain(under.rstrip("/")) if under else self._root
        if start is None or not start.is_dir():
            return ()
        return tuple(sorted(self._walk(start)))

    def _walk(self, start: Path) -> Iterator[str]:
        for folder, folders, files in os.walk(start, followlinks=False):
            folders[:] = [name for name in folders if name != ".git"]
            for name in files:
                file = Path(folder) / name
                if not file.is_symlink() and file.is_file():
                    yield PurePosixPath(file.relative_to(self._root)).as_posix()
