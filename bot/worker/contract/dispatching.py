"""What a library's own dispatcher said before it was forced. A stranger's words: `is_sound` is asked before they go on
from the bench."""

from __future__ import annotations

import dataclasses
import re

TRITON = "nvidia-triton"
"""The implementation that is judged wherever a library has several."""
NAME = re.compile(r"[A-Za-z0-9_.+-]{1,60}", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Dispatched:
    """Which implementation of one op the library takes here."""

    op: str
    by_itself: str
    judged: str
    """The one it takes once it was told to."""


def is_name(text: object) -> bool:
    return type(text) is str and NAME.fullmatch(text) is not None


def is_sound(found: Dispatched) -> bool:
    return all(map(is_name, (found.op, found.by_itself, found.judged)))
