"""What rewrites make of a source, thought of while a GPU is at work: whoever asks afterwards finds it made.

Before swiglu's first race an H200 waited 11 s for what two processors could have made while it played rivals.
"""

from __future__ import annotations

import contextlib

from bot.engine import race_field, rewriting
from bot.engine.fitting import fitting
from bot.engine.transforms import PER_KERNEL
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile


def _alone(text: str) -> None:
    """Each kernel by itself."""
    for name in PER_KERNEL:
        whole = rewriting.of_file(name, text)
        for kernel in whole.kernels if whole is not None and len(whole.kernels) > 1 else ():
            rewriting.of_file(name, text, kernel)


def think(files: tuple[SourceFile, ...], facts: Measurement, backward_only: frozenset[str]) -> None:
    """What goes wrong goes wrong again for whoever asks, who can say so."""
    with contextlib.suppress(Exception):
        fitting(files, facts)
        for file in files:
            _alone(file.text)
        race_field.field(files, facts, backward_only=backward_only)
