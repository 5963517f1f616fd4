"""Which ideas find something to change in the sources of a kernel as they are: only those belong into its plan."""

from __future__ import annotations

from collections.abc import Sequence

from bot.engine import race_field
from bot.engine.transforms import ACROSS_FILES, TRANSFORMS
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile

NUMBERS = "launch_parameters"
"""What a plan calls launch numbers."""


def fitting(files: Sequence[SourceFile], baseline: Measurement) -> frozenset[str]:
    """Nothing fits a source that cannot be read."""
    found = {name for name, idea in TRANSFORMS.items() if any(idea.applies(file.text) for file in files)}
    texts = {file.path: file.text for file in files}
    found |= {name for name, idea in ACROSS_FILES.items() if idea.applies(texts)}
    return frozenset({*found, NUMBERS} if race_field.field(tuple(files), baseline, most=1) else found)
