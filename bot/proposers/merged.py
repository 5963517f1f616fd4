"""Ideas that each gained something and too little, in one variant: a later round, of what was measured by itself.

A verdict asks for 1 % more than the best so far. On an H100 two ideas in a row made group_norm's winner 0.4 and 0.9 %
better, each was as good as nothing, and the search was over. Both changed other lines of the same incumbent.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from bot.analysis.paired import MIN_GAIN
from bot.engine.merging import merged
from bot.model.campaign import Round
from bot.model.variant import Hypothesis, Proposal, SourceFile
from bot.model.verdict import Decision
from bot.proposers.brief import Brief
from bot.proposers.combined import FEWEST, joined

TECHNIQUE = "together"
LEAST = 0.002
"""Of a gain alone, over the best so far: below it is what one process may read of nothing."""


def together(played: Round) -> tuple[str, ...]:
    """The variants that a round is made of, by their names; none where it is another idea."""
    name, _, parts = played.variant.hypothesis.technique.partition(":")
    return tuple(parts.split("+")) if name == TECHNIQUE else ()


def _gain(played: Round) -> float:
    """What a round gained that was told to be nothing; 0 where it was another verdict."""
    verdict = played.verdict
    if verdict is None or verdict.decision is not Decision.INCONCLUSIVE or verdict.gain_over_best is None:
        return 0.0
    return verdict.gain_over_best


def _little(brief: Brief) -> list[Round]:
    """Rounds of the incumbent that gained too little by themselves, the most first. One that gained enough and was not
    accepted has another reason, and what somebody brought may lack a file."""
    paths = {file.path for file in brief.sources}
    mine = [
        one
        for one in brief.rounds
        if one.variant.parent == brief.incumbent
        and not together(one)
        and LEAST <= _gain(one) < MIN_GAIN
        and {file.path for file in one.variant.files} == paths
    ]
    return sorted(mine, key=lambda played: -_gain(played))


def _had_a_round(brief: Brief) -> list[set[str]]:
    """Which variants were together already."""
    return [set(parts) for one in brief.rounds if (parts := together(one))]


def _with(brief: Brief, files: tuple[SourceFile, ...], other: tuple[SourceFile, ...]) -> tuple[SourceFile, ...] | None:
    """Files of the incumbent's making with the changes of others besides."""
    before, added = ({file.path: file.text for file in these} for these in (brief.sources, other))
    made = []
    for file in files:
        text = merged(before[file.path], file.text, added[file.path])
        if text is None:
            return None
        made.append(SourceFile(path=file.path, text=text))
    return tuple(made)


def _fitting(brief: Brief) -> tuple[list[Round], tuple[SourceFile, ...]]:
    """As many of them as go together, the most promising first, and what they make."""
    taken, files = list[Round](), brief.sources
    for played in _little(brief):
        made = _with(brief, files, played.variant.files)
        if made is not None:
            taken, files = [*taken, played], made
    return taken, files


def ideas(brief: Brief, by: str) -> Iterator[Proposal]:
    """Where a GPU measured them, and all of them together are as much as is asked of a round."""
    if not brief.is_measured:
        return
    taken, files = _fitting(brief)
    whole = prod(1 + _gain(played) for played in taken) - 1
    texts = {file.path: file.text for file in files}
    numbers = [f"v{played.variant.number}" for played in sorted(taken, key=lambda one: one.variant.number)]
    if len(taken) < FEWEST or whole < MIN_GAIN or any(earlier <= set(numbers) for earlier in _had_a_round(brief)):
        return
    if brief.leaves_callers_behind(texts):
        return
    gains = " and ".join(f"{_gain(one):.1%} by v{one.variant.number}" for one in taken)
    hypothesis = Hypothesis(
        title=joined([one.variant.hypothesis.title for one in taken]),
        why="Each gained something by itself, and too little to be told from nothing. They change other lines.",
        expected=f"{whole:.1%} more than the best so far, if none is in another's way: measured alone were {gains}.",
        technique=f"{TECHNIQUE}:{'+'.join(numbers)}",
        references=(*brief.references, *numbers),
    )
    yield Proposal(files=files, hypothesis=hypothesis, proposer=by)
