"""What every idea of the engine leaves alone, and what it brings along: other ops of its files stay as they are, and
where it changes the order of running sums, they are made in float32."""

from __future__ import annotations

from bot.engine import rewriting
from bot.engine.put_back import put_back
from bot.model.variant import Proposal
from bot.proposers.brief import Brief


def _says(kernels: tuple[str, ...]) -> str:
    adds, its, it_does = ("adds", "its", "it does") if len(kernels) == 1 else ("add", "their", "they do")
    return (
        f"{' and '.join(kernels)} {adds} up in the type of {its} rows, where another order would show in half "
        f"precision: now {it_does} so in float32."
    )


def whole(brief: Brief, proposal: Proposal) -> Proposal:
    """The proposal with what belongs to it, which its hypothesis says, and nothing else."""
    own = put_back(brief.sources, proposal.files, brief.launched).files
    along = rewriting.in_float32(brief.sources, own, brief.backward_only)
    kept = put_back(brief.sources, along.files, brief.launched)
    kernels = tuple(kernel for kernel in along.kernels if kernel not in kept.put_back)
    if not kernels:
        return proposal if kept.files == proposal.files else proposal.model_copy(update={"files": kept.files})
    why = f"{proposal.hypothesis.why} {_says(kernels)}"
    hypothesis = proposal.hypothesis.model_copy(update={"why": why})
    return Proposal(files=kept.files, hypothesis=hypothesis, proposer=proposal.proposer)
