"""Other implementations of what a kernel does, timed beside it: a winner that plain PyTorch beats is no news."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bot.model.measurement import Reading
from bot.model.word import Word

RivalName = Literal["eager", "compiled"]


class Rival(Word):
    """The mathematics of the kernel as plain PyTorch says it, as it is or under torch.compile, played against v0 block
    by block by a process that no variant ever was in."""

    name: RivalName
    case: str
    reading: Reading | None = None
    """Blocks of v0, v0, rival, rival; None where it could not be played."""
    why_not: str = Field(default="", max_length=400)
