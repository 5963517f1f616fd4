"""What a transform hands back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rewrite:
    text: str
    kernels: tuple[str, ...]
    """The kernels whose code or launch changed."""
    title: str
    why: str
    seen: str = ""
    """What a GPU showed of the idea elsewhere: said where the model of time cannot see it."""
