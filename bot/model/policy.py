"""What the repository's own kernelwright.toml allows. Defaults are the careful choice."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bot.model.commands import MOST_VARIANTS
from bot.model.word import Word


class RepoPolicy(Word):
    evidence: Literal["measured", "static"] = "measured"
    """Least evidence a push needs. "static" lets a compiled-and-modelled result be pushed."""
    oracle: Literal["head", "target"] = "head"
    final_approval: Literal["required", "none"] = "required"
    review_answers: Literal["final", "all", "none"] = "final"
    self_approval: bool = False
    """Whether the author of the pull request may answer its final checkpoint."""
    allow_drafts: bool = False
    max_variants: int = Field(default=MOST_VARIANTS, ge=1, le=MOST_VARIANTS)
    default_gpu: Literal["ampere", "hopper", "blackwell", "cdna3"] = "hopper"
