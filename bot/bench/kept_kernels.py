"""What workers compiled of v0 and of the last variants, for later workers of the same source: each would compile all of
it again."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MOST = 3
"""Variants: one is asked about while the next is checked."""
MOST_FILES = 20_000


def _plain_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder, followlinks=False):
        yield from (path for name in names if (path := Path(place, name)).is_file() and not path.is_symlink())


class KeptKernels:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._variants: list[str] = []
        self._turn = threading.Lock()

    def keep(self, compiled: Path, digest: str, *, untouched: bool) -> None:
        """v0's stay. What a worker left that is no folder of kernels is left alone, and what it left so that it cannot
        be kept is not."""
        if compiled.is_symlink() or not compiled.is_dir():
            return
        if next(islice(_plain_files(compiled), MOST_FILES, None), None) is not None:
            return
        with self._turn, contextlib.suppress(OSError):
            shutil.rmtree(self._folder / digest, ignore_errors=True)
            self._folder.mkdir(exist_ok=True)
            compiled.rename(self._folder / digest)
            if not untouched:
                self._variants = [*(one for one in self._variants if one != digest), digest]
            while len(self._variants) > MOST:
                shutil.rmtree(self._folder / self._variants.pop(0), ignore_errors=True)

    def lay(self, digest: str, place: Path) -> None:
        """Those of this source, under second names; nothing where there are none, or where they lie already."""
        kept = self._folder / digest
        with self._turn:
            if not kept.is_dir() or place.exists():
                return
            for file in _plain_files(kept):
                (place / file.relative_to(kept)).parent.mkdir(parents=True, exist_ok=True)
                os.link(file, place / file.relative_to(kept))
