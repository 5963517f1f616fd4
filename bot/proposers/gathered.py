"""What raced well beside v0 and had no round yet, in one variant: a later round, of what was measured by itself.

A round takes a minute of a GPU and more, and says of one idea what a race said before. On an H200 cross_entropy had
four ideas that each won its race, of which three minutes left time for two. So once one of them was accepted all others
are tried on top of it at once, as far as they can be written on top of one another. Where that is refused, each may
still have its round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from math import prod

from bot.analysis.strategies import TOGETHER
from bot.model.campaign import Round
from bot.model.variant import Hypothesis, Proposal
from bot.proposers import promise
from bot.proposers.brief import GATHERED, Brief, techniques_in
from bot.proposers.combined import FEWEST, joined

Make = Callable[[Brief, str], Proposal | None]
"""What one idea makes of the incumbent."""


NAMED = 2
"""Of those in a title."""


def _raced(brief: Brief) -> list[str]:
    return [racer.idea for racer in brief.opening.others if racer.idea] if brief.opening is not None else []


def _waiting(brief: Brief) -> list[tuple[float, str]]:
    """Those that a race found worth a round, the most promising first."""
    promised = [(promise.of(brief, idea), idea) for idea in _raced(brief) if not brief.rounds_with(idea)]
    worth = [(gain, idea) for gain, idea in promised if gain is not None and gain >= promise.WORTH_A_ROUND]
    return sorted(worth, key=lambda pair: -pair[0])


def _made_of(technique: str) -> frozenset[str]:
    """The rewrites of an idea, whichever kernel it keeps to."""
    name = technique.partition(":")[0]
    return frozenset(TOGETHER.get(name, (name,)))


def title(titles: list[str]) -> str:
    """Fit for a table's cell: of more than two the most promising, and how many besides."""
    more = f", and {len(titles) - NAMED} more" if len(titles) > NAMED else ""
    return joined(titles[:NAMED]) + more


def _tried(rounds: Iterable[Round]) -> set[str]:
    """The ideas that had these rounds, alone or with others."""
    return {idea for one in rounds for idea in techniques_in(one.variant.hypothesis.technique)}


def _one_was_accepted(brief: Brief) -> bool:
    """Of those that raced: what was accepted before any race, or brought by a person, says nothing of them."""
    return not _tried(one for one in brief.rounds if one.is_accepted).isdisjoint(_raced(brief))


def ideas(brief: Brief, by: str, make: Make) -> Iterator[Proposal]:
    """Where one was accepted by itself, and two more are left that do not say the same."""
    if not brief.is_measured or not _one_was_accepted(brief):
        return
    done = frozenset().union(*map(_made_of, _tried(brief.rounds)))
    taken: list[tuple[float, Proposal]] = []
    now = brief
    for gain, idea in _waiting(brief):
        rewrites = _made_of(idea)
        made = make(now, idea) if not rewrites & done else None
        if made is not None:
            now, done = dataclasses.replace(now, sources=made.files), done | rewrites
            taken.append((gain, made))
    names = [made.hypothesis.technique for _, made in taken]
    if len(taken) < FEWEST:
        return
    alone = ", ".join(f"{made.hypothesis.technique} {gain:.2f}x" for gain, made in taken)
    hypothesis = Hypothesis(
        title=title([made.hypothesis.title for _, made in taken]),
        why=" ".join(made.hypothesis.why for _, made in taken if made.hypothesis.why),
        expected=f"Up to {prod(gain for gain, _ in taken):.2f}x, if none is in another's way: beside v0, in a race, "
        f"were {alone}.",
        technique=f"{GATHERED}:{'+'.join(names)}",
        references=brief.references,
    )
    yield Proposal(files=now.sources, hypothesis=hypothesis, proposer=by)
