"""What the repository's own kernelwright.toml allows. Defaults are the careful choice."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from bot.model.commands import MOST_VARIANTS
from bot.model.word import Word

Writer: TypeAlias = Literal["write", "maintain", "admin"]
"""The least role that may do something."""


class RepoPolicy(Word):
    evidence: Literal["measured", "static"] = "measured"
    """Least evidence a push needs. "static" lets a compiled-and-modelled result be pushed."""
    oracle: Literal["head", "target"] = "head"
    """Whose tests decide on a writer's pull request. On anybody else's it is always the target branch's."""
    may_start: Writer = "write"
    may_approve: Writer = "write"
    checkpoints: tuple[Literal["profile", "winner"], ...] = ("profile", "winner")
    """Where an interactive campaign stops to ask. The last question is `final_approval`."""
    final_approval: Literal["required", "none"] = "required"
    checkpoint_days: int = Field(default=7, ge=1, le=30)
    """How long a question waits, and how long an approval lasts."""
    review_answers: Literal["final", "all", "none"] = "final"
    self_approval: bool = False
    """Whether the author of the pull request may answer its final checkpoint."""
    requester_approval: bool = True
    """Whether who started a campaign may answer its final checkpoint."""
    allow_drafts: bool = False
    push_to: Literal["branch", "patch"] = "branch"
    """Where an approved winner goes: onto the pull request's branch, or into a comment as a patch to apply."""
    signoff: bool = False
    """Whether the commit carries a Signed-off-by line of the bot."""
    benchmark_script: bool = True
    """Whether the repository's own benchmark script runs on v0 and the winner, where a GPU measured them."""
    require_sandbox: bool = True
    """Whether a machine with a GPU refuses to run anybody's code without bubblewrap."""
    max_variants: int = Field(default=MOST_VARIANTS, ge=1, le=MOST_VARIANTS)
    max_gpu_minutes: int = Field(default=120, ge=1, le=24 * 60)
    """Of one campaign."""
    max_gpu_minutes_per_day: int = Field(default=480, ge=1, le=7 * 24 * 60)
    """Of all campaigns that one person starts in a day, UTC. A sweep's limit is its own: [sweep] max_gpu_minutes."""
    default_gpu: Literal["ampere", "hopper", "blackwell", "cdna3"] = "hopper"
