"""What workers compiled of v0 and of the last variants, for later workers of the same source: each would compile all of
it again."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bot.bench.clearing import clear

MOST = 3
"""Variants: one is asked about while the next is checked."""
MOST_FILES = 20_000


def _plain_files(folder: Path) -> Iterator[Path]:
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


class KeptKernels:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._untouched = ""
        self._variants: list[str] = []
        self._turn = threading.Lock()

    def keep(self, compiled: Path, digest: str, *, untouched: bool) -> None:
        """v0's stay. What a worker left that is no folder of kernels is left alone, and what it left so that it cannot
        be kept, under too long a path or where nobody may look, is not."""
        with self._turn, contextlib.suppress(OSError):
            if compiled.is_symlink() or not compiled.is_dir():
                return
            if next(islice(_plain_files(compiled), MOST_FILES, None), None) is not None:
                return
            clear(self._folder / digest)
            self._folder.mkdir(exist_ok=True)
            compiled.rename(self._folder / digest)
            if untouched:
                self._untouched = digest
            elif digest != self._untouched:
                self._variants = [*(one for one in self._variants if one != digest), digest]
            while len(self._variants) > MOST:
                clear(self._folder / self._variants.pop(0))

    def lay(self, digest: str, place: Path) -> None:
        """Those of this source, under second names; nothing where there are none, or where they lie already."""
        kept = self._folder / digest
        with self._turn, contextlib.suppress(OSError):
            if not kept.is_dir() or place.exists():
                return
            for file in _plain_files(kept):
                (place / file.relative_to(kept)).parent.mkdir(parents=True, exist_ok=True)
                os.link(file, place / file.relative_to(kept))
