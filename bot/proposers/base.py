"""What every proposer is: something that looks at a brief and hands back an idea, or has none left."""

from __future__ import annotations

from typing import Protocol

from bot.model.variant import Proposal
from bot.proposers.brief import Brief


class Proposer(Protocol):
    def propose(self, brief: Brief) -> Proposal | None:
        """The next idea, never one whose source was judged before; None when there is none."""
        ...
