"""The numbers that accepted rewrites brought along, each tried at its neighbours in the race of launch numbers, and
those of other kernels that did well there in one variant.

A round takes a minute, and one of these is seldom worth that by itself. A race reads thirty of them in as long. Two of
one kernel are often two ways to one end: on an H200 fewer programs and fewer rows a turn each made the backward of
rms_norm 1.03x to 1.08x as fast at 4,096 columns, and with five others at once it was slower. So the best of a kernel is
taken, and the others race again on top of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from bot.engine import nearby
from bot.engine.source import STAGES, WARPS, NotUnderstood
from bot.model.measurement import Launch
from bot.model.race import NEARBY_TECHNIQUE
from bot.model.variant import Hypothesis, Proposal
from bot.proposers import promise
from bot.proposers.brief import Brief
from bot.proposers.gathered import title

LEAST = 1.003
"""Of what a race promises: below it is what one process may read of nothing."""
TOLD = 6
"""Of those in a hypothesis."""


@dataclass(frozen=True, slots=True)
class Near:
    """One number of one file changed."""

    path: str
    found: nearby.Nearby

    @property
    def technique(self) -> str:
        return f"{NEARBY_TECHNIQUE}:{self.found.slug}"


def around(brief: Brief) -> tuple[Near, ...]:
    """What is near the incumbent, of what its rewrites wrote. A number of a second file may have the name of one of the
    first, and then that one speaks for both."""
    if not brief.is_measured or not brief.incumbent:
        return ()
    before, known = {file.path: file.text for file in brief.original}, dict[str, Near]()
    for file in brief.sources:
        if file.text == before.get(file.path, file.text):
            continue
        try:
            made = nearby.nearby(before[file.path], file.text, brief.launched)
        except (NotUnderstood, RecursionError, IndexError):  # a sum of hundreds, a line that ends as no other
            continue
        for one in made:
            known.setdefault(one.slug, Near(file.path, one))
    return tuple(known.values())[: nearby.MOST]


def _may_change(launch: Launch, found: nearby.Nearby) -> bool:
    if launch.kernel not in found.kernels or found.values is None:
        return launch.kernel in found.kernels
    numbers = {WARPS: launch.num_warps, STAGES: launch.num_stages}
    now = numbers[found.given] if found.given in numbers else dict(launch.constants).get(found.given, "")
    return not str(now).isdecimal() or int(now) in found.values


def cases_of(brief: Brief, near: Near) -> tuple[str, ...]:
    """The scored cases that may be another with it: those with a launch that is given what it changes."""
    return tuple(
        case.case for case in brief.facts.cases if any(_may_change(launch, near.found) for launch in case.launches)
    )


def _proposal(
    brief: Brief, taken: list[Near], texts: dict[str, str], technique: str, expected: str, by: str
) -> Proposal:
    said = "; ".join(near.found.says for near in taken[:TOLD])
    more = f"; and {len(taken) - TOLD} more" if len(taken) > TOLD else ""
    hypothesis = Hypothesis(
        title=f"Numbers nearby: {title([near.found.says for near in taken])}",
        why=f"Rewrites brought these numbers along, and nobody had tried others here. Now {said}{more}.",
        expected=expected,
        technique=technique,
        references=brief.references,
    )
    return Proposal(files=brief.with_texts(texts), hypothesis=hypothesis, proposer=by)


def racers(brief: Brief, by: str) -> Iterator[tuple[Proposal, tuple[str, ...]]]:
    """Each with the cases that it races in."""
    for near in around(brief):
        if cases := cases_of(brief, near):
            yield _proposal(brief, [near], {near.path: near.found.text}, near.technique, "", by), cases


def _gaining(brief: Brief) -> list[tuple[float, Near]]:
    """Who did well in the race, the best of each kernel, and the most promising first."""
    promised = [(promise.of(brief, near.technique), near) for near in around(brief)]
    good = [(gain, near) for gain, near in promised if gain is not None and gain >= LEAST]
    found: list[tuple[float, Near]] = []
    for gain, near in sorted(good, key=lambda pair: -pair[0]):
        if not any(set(near.found.kernels) & set(taken.found.kernels) for _, taken in found):
            found.append((gain, near))
    return found


def _texts(brief: Brief, taken: Iterable[Near]) -> dict[str, str]:
    numbers: dict[str, dict[int, int]] = {}
    for near in taken:
        numbers.setdefault(near.path, {})[near.found.place] = near.found.now
    now = {file.path: file.text for file in brief.sources}
    return {path: nearby.with_numbers(now[path], some) for path, some in numbers.items()}


def ideas(brief: Brief, by: str) -> Iterator[Proposal]:
    """All that did well at once, and then the best of them alone: one may be in another's way."""
    if brief.race is None:
        return
    found = _gaining(brief)
    for some in (found, found[:1]):
        whole, taken = prod(gain for gain, _ in some), [near for _, near in some]
        if not taken or whole < promise.WORTH_A_ROUND:
            continue
        technique = f"{NEARBY_TECHNIQUE}:v{brief.incumbent}" if len(taken) > 1 else taken[0].technique
        expected = f"{whole:.3f}x over v{brief.incumbent} by what each gave in the race, if none is in another's way."
        yield _proposal(brief, taken, _texts(brief, taken), technique, expected, by)
