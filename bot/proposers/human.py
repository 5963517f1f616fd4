"""A person's own idea: the kernel's files as they stand at a commit, or in a file on this machine."""

from __future__ import annotations

from bot.campaign.lineage import TRY_TECHNIQUE
from bot.model.variant import Hypothesis, Proposal
from bot.proposers.brief import Brief, Tried

__all__ = ["Tried", "propose"]

NAME = "human"


def _is_new(tried: Tried, brief: Brief) -> bool:
    known = {ref for played in brief.rounds_with(TRY_TECHNIQUE) for ref in played.variant.hypothesis.references[:1]}
    return tried.commit not in known


def propose(brief: Brief) -> Proposal | None:
    """The first commit that no round has tried, in the order people asked. It is judged like any other idea."""
    waiting = next((tried for tried in brief.tries if _is_new(tried, brief)), None)
    if waiting is None:
        return None
    return Proposal(
        files=waiting.files,
        hypothesis=Hypothesis(
            title=f"Try {waiting.commit[:12]}",
            why=f"{waiting.actor.login} asked to try the kernel as it stands at {waiting.commit[:12]}.",
            expected=f"A score above {max(1.0, brief.best) * 1.01:.3f}x, which is 1 % over the best so far.",
            technique=TRY_TECHNIQUE,
            references=(waiting.commit,),
        ),
        proposer=NAME,
    )
