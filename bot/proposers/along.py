"""What every idea of the engine brings along: where it changes the order of running sums, they are made in float32."""

from __future__ import annotations

from bot.engine import rewriting
from bot.model.variant import Proposal
from bot.proposers.brief import Brief


def _says(kernels: tuple[str, ...]) -> str:
    adds, its, it_does = ("adds", "its", "it does") if len(kernels) == 1 else ("add", "their", "they do")
    return (
        f"{' and '.join(kernels)} {adds} up in the type of {its} rows, where another order would show in half "
        f"precision: now {it_does} so in float32."
    )


def whole(brief: Brief, proposal: Proposal) -> Proposal:
    """The proposal with what belongs to it, which its hypothesis says."""
    along = rewriting.in_float32(brief.sources, proposal.files, brief.backward_only)
    if not along.kernels:
        return proposal
    why = f"{proposal.hypothesis.why} {_says(along.kernels)}"
    hypothesis = proposal.hypothesis.model_copy(update={"why": why})
    return Proposal(files=along.files, hypothesis=hypothesis, proposer=proposal.proposer)
