"""Who suggests the next variant. All are judged alike."""

from __future__ import annotations

from bot.model.variant import Proposal
from bot.proposers import engine, human
from bot.proposers.base import Proposer
from bot.proposers.brief import Brief

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
