"""Who suggests the next variant. All are judged alike."""

from __future__ import annotations

import dataclasses

from bot.model.variant import Proposal
from bot.proposers import engine, human, raced
from bot.proposers.base import Proposer
from bot.proposers.brief import Brief
from bot.proposers.human import ideas_in

__all__ = ["PROPOSERS", "exhausted", "ideas_in", "next_proposal", "untried"]

PROPOSERS: dict[str, Proposer] = {
    human.NAME: human,
    engine.NAME: engine,
}
"""In the order they are asked: a person who waits comes first."""


def next_proposal(brief: Brief) -> Proposal | None:
    """The first idea that anybody has, or None when all of them are out of ideas."""
    for proposer in PROPOSERS.values():
        proposal = proposer.propose(brief)
        if proposal is not None:
            return proposal
    return None


def untried(brief: Brief) -> str:
    """What a larger budget would have gone on with; empty where there is nothing."""
    idea = next_proposal(dataclasses.replace(brief, budget=1))
    if idea is not None:
        return f"the next idea would have been: {idea.hypothesis.title}"
    return "its launch numbers were not raced" if brief.has_race_ahead else ""


def exhausted(brief: Brief) -> str:
    """Why nothing is left to try."""
    return "; ".join(filter(None, ("every idea that applies was tried", raced.left_out(brief))))
