"""What the named rewrites make of a source, made once: a rewrite takes half a second, the plan asks for all of them,
and every round asks again, mostly of the same incumbent."""

from __future__ import annotations

from functools import lru_cache

from bot.engine.transforms import ACROSS_FILES, PER_KERNEL, TRANSFORMS
from bot.engine.transforms.rewrite import FilesRewrite, Rewrite
from bot.model.variant import SourceFile


@lru_cache(maxsize=128)
def of_file(name: str, text: str, only: str = "") -> Rewrite | None:
    """Of one file, or of one kernel in it."""
    return PER_KERNEL[name].rewrite(text, only) if only else TRANSFORMS[name].rewrite(text)


@lru_cache(maxsize=16)
def of_files(name: str, files: tuple[SourceFile, ...]) -> FilesRewrite | None:
    """Of all files of a target together."""
    return ACROSS_FILES[name].rewrite({file.path: file.text for file in files})
