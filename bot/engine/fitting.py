"""Which ideas find something to change in the sources of a kernel as they are: only those belong into its plan."""

from __future__ import annotations

from collections.abc import Sequence

from bot.engine import race_field, rewriting
from bot.engine.transforms import ACROSS_FILES, TRANSFORMS
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile

NUMBERS = "launch_parameters"
"""What a plan calls launch numbers."""


def fitting(files: Sequence[SourceFile], baseline: Measurement) -> frozenset[str]:
    """Nothing fits a source that cannot be read."""
    together = tuple(files)
    found = {name for name in TRANSFORMS if any(rewriting.of_file(name, file.text) is not None for file in files)}
    found |= {name for name in ACROSS_FILES if rewriting.of_files(name, together) is not None}
    return frozenset({*found, NUMBERS} if race_field.has_room(together, baseline) else found)
