"""Kernels that another worker compiled of the same source: found beside the request, as long as they fit.

What Triton compiles is named after all that goes into it, so that another text finds nothing here. The bench hands on
what a worker of that source left and nobody else's: a variant could leave wrong ones.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bot.worker.contract.door import KERNELS


def keep(outputs: Path) -> None:
    """From now on what is compiled lies beside the answer. What was compiled while nobody waited for it is found."""
    before = Path(os.environ["TRITON_CACHE_DIR"])
    os.environ["TRITON_CACHE_DIR"] = str(outputs / KERNELS)
    find(before)


def find(folder: Path) -> None:
    """What is not compiled yet is looked for there."""
    from triton import knobs
    from triton.runtime.cache import FileCacheManager

    plain: Any = knobs.cache.manager_class or FileCacheManager

    class Finding(plain):  # type: ignore[misc]
        def _kept(self, name: str) -> Path | None:
            place = folder / self.key / name
            return place if place.is_file() else None

        def get_file(self, filename: str) -> str | None:
            found: str | None = super().get_file(filename)
            kept = self._kept(filename) if found is None else None
            return str(kept) if kept is not None else found

        def get_group(self, filename: str) -> dict[str, str] | None:
            """Its list names where each file lay when it was compiled."""
            found: dict[str, str] | None = super().get_group(filename)
            listed = self._kept(f"__grp__{filename}") if found is None else None
            if listed is None:
                return found
            names = json.loads(listed.read_text(encoding="utf-8")).get("child_paths") or {}
            return {name: str(kept) for name in names if (kept := self._kept(name)) is not None}

    knobs.cache.manager_class = Finding


def find_beside(request: Path, name: str = KERNELS) -> None:
    if (request / name).is_dir():
        find(request / name)
