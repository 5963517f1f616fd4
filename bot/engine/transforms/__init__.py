"""Named rewrites of a kernel's source. A new one is a short file and a line in the table.

Each looks at the source alone, refuses when it is not sure, and leaves every line it does not mean to change as it was.
"""

from __future__ import annotations

from typing import Protocol

from bot.engine.transforms import (
    cache_hints,
    drop_zero_fill,
    more_programs,
    pipeline_rows,
    scale_in_kernel,
    tile_rows,
    walk_rows,
)
from bot.engine.transforms.rewrite import Rewrite


class Transform(Protocol):
    def applies(self, source: str) -> bool:
        """Whether the source holds a kernel of the shape this is about."""
        ...

    def rewrite(self, source: str) -> Rewrite | None:
        """The changed source with the idea behind it, or None when there is nothing to do or it is not safe."""
        ...


TRANSFORMS: dict[str, Transform] = {
    "drop_zero_fill": drop_zero_fill,
    "tile_rows": tile_rows,
    "walk_rows": walk_rows,
    "pipeline_rows": pipeline_rows,
    "more_programs": more_programs,
    "scale_in_kernel": scale_in_kernel,
    "cache_hints": cache_hints,
}
