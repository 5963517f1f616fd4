"""A person's own idea: the kernel's files as they stand at a commit, or in a file on this machine."""

from __future__ import annotations

from collections.abc import Iterable

from bot.analysis.strategies import AIMS, TOGETHER
from bot.campaign.lineage import FEWER_WARPS, MORE_WARPS, NUMBERS_TECHNIQUE, TRY_TECHNIQUE
from bot.model.race import NEARBY_TECHNIQUE
from bot.model.variant import Hypothesis, Proposal
from bot.proposers.brief import Brief, Tried

__all__ = ["Tried", "propose"]

NAME = "human"
MADE_OF = "Made of: "
"""How a commit of ours that is to be tried says what is in it."""
OURS = frozenset((*AIMS, *TOGETHER, NUMBERS_TECHNIQUE, MORE_WARPS, FEWER_WARPS, NEARBY_TECHNIQUE))
"""Anybody may write a commit: of its words these are repeated, and no others."""
MOST_READ, MOST_TOLD = 4000, 6


def of_ours(techniques: Iterable[str]) -> tuple[str, ...]:
    """Those that have a name of ours, each once, whichever kernel they were of."""
    names = (one.partition(":")[0] for one in techniques)
    return tuple(dict.fromkeys(name for name in names if name in OURS))


def ideas_in(message: str) -> tuple[str, ...]:
    lines = message[:MOST_READ].splitlines()
    told = next((line for line in lines if line.startswith(MADE_OF)), MADE_OF)
    return of_ours(told.removeprefix(MADE_OF).split(", "))


def _title(tried: Tried) -> str:
    """A reader knows no commit by its name."""
    more = len(tried.ideas) - MOST_TOLD
    told = ", ".join(tried.ideas[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
    return f"Try {tried.commit[:12]}{f': {told}' if told else ''}"


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
            title=_title(waiting),
            why=f"{waiting.actor.login} asked to try the kernel as it stands at {waiting.commit[:12]}.",
            expected=f"A score above {max(1.0, brief.best) * 1.01:.3f}x, which is 1 % over the best so far.",
            technique=TRY_TECHNIQUE,
            references=(waiting.commit,),
        ),
        proposer=NAME,
    )
