"""What every idea of the engine brings along: a kernel that it makes add up in another order adds up in float32."""

from __future__ import annotations

from bot.engine import rewriting
from bot.model.variant import Proposal
from bot.proposers.brief import Brief


def _says(kernels: tuple[str, ...]) -> str:
    one = len(kernels) == 1
    verb, them = ("adds", "it does so") if one else ("add", "they do so")
    return (
        f"{' and '.join(kernels)} {verb} up in the type of the rows, where another order would show in half precision: "
        f"now {them} in float32."
    )


def whole(brief: Brief, proposal: Proposal) -> Proposal:
    """The proposal with what belongs to it, which its hypothesis says."""
    along = rewriting.in_float32(brief.sources, proposal.files)
    if not along.kernels:
        return proposal
    why = f"{proposal.hypothesis.why} {_says(along.kernels)}"
    hypothesis = proposal.hypothesis.model_copy(update={"why": why})
    return Proposal(files=along.files, hypothesis=hypothesis, proposer=proposal.proposer)
