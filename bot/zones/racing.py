"""Runs a race of ideas or launch numbers and writes down what came of it. One that cannot be run costs nobody a
campaign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bot.analysis.distributions import student_quantile
from bot.analysis.paired import process_mean
from bot.analysis.racing import FUTILE
from bot.bench.bailiff import Objection
from bot.bench.measure import Bench
from bot.bench.race import Entry, Ran
from bot.engine import race_field
from bot.guardrails.resources import spilled_more
from bot.model.measurement import Block
from bot.model.race import MOST_RACERS, Lap, Race, Racer
from bot.model.variant import Proposal
from bot.proposers import engine
from bot.proposers.brief import Brief

MOST_WORDS = 300
MOST_TITLE = 200
FEWEST = 2
"""Ideas for a race of their own."""
ALONE = "no other launch numbers can be written into this source, and nobody has an idea"
Runner = tuple[Racer, Entry]
"""Who is going to race, with nothing read yet, and what it runs with."""


def _worst(ran: Ran) -> dict[str, int]:
    worst: dict[str, int] = {}
    for kernel, nbytes in (one for case in ran.local_bytes.values() for one in case):
        worst[kernel] = max(worst.get(kernel, 0), nbytes)
    return worst


def _spills(case: str, ran: Ran, now: Mapping[str, int]) -> int:
    """Where the source as it stands keeps everything in registers: what the guardrail would reject it for."""
    mine = dict(ran.local_bytes.get(case, ()))
    return max((spilled for _, was, spilled in spilled_more(now, mine) if was <= 0), default=0)


def _lap(case: str, blocks: tuple[Block, ...], peak_bytes: int, spills: int) -> Lap:
    found = process_mean(blocks)
    reach = student_quantile(FUTILE, found.freedom) * found.error
    speedup, low, high = (round(math.exp(found.mean + way * reach), 6) for way in (0, -1, 1))
    return Lap(case=case, speedup=speedup, low=low, high=high, blocks=len(blocks), peak_bytes=peak_bytes, spills=spills)


def _after(racer: Racer, ran: Ran, now: Mapping[str, int]) -> Racer:
    """`now`: what a thread of each kernel of the source as it stands keeps in memory."""
    spilled = {case: _spills(case, ran, now) for case in ran.local_bytes}
    laps = tuple(
        _lap(case, blocks, ran.peak_bytes.get(case, 0), spilled.get(case, 0)) for case, blocks in ran.blocks.items()
    )
    return racer.model_copy(update={"laps": laps, "left": ran.left[:MOST_WORDS], "gpu_ms": round(ran.gpu_ms, 3)})


def _every(brief: Brief) -> tuple[str, ...]:
    return tuple(case.case for case in brief.facts.cases)


def _runner(idea: Proposal, cases: tuple[str, ...]) -> Runner:
    name = Racer(idea=idea.hypothesis.technique, title=idea.hypothesis.title[:MOST_TITLE])
    return name, Entry(idea.files, cases)


def _with_an_idea(brief: Brief, proposals: Sequence[Proposal]) -> tuple[Runner, ...]:
    return tuple(_runner(idea, _every(brief)) for idea in proposals)


def _held(bench: Bench, brief: Brief, runners: Sequence[Runner], *, opening: bool) -> Race:
    of = brief.incumbent
    starters = ((Racer(), Entry(brief.sources, _every(brief))), *runners)
    try:
        result = bench.race(tuple(entry for _, entry in starters))
    except Objection as error:
        return Race(of=of, opening=opening, note=str(error)[:MOST_WORDS])
    if len(result.ran) != len(starters):
        return Race(of=of, opening=opening, note="this machine has no clock to race by")
    now = _worst(result.ran[0])
    racers = tuple(_after(racer, ran, now) for (racer, _), ran in zip(starters, result.ran, strict=True))
    return Race(
        of=of,
        opening=opening,
        racers=racers,
        seconds=result.seconds,
        recording_seconds=result.recording_seconds,
        gpu_ms=result.gpu_ms,
    )


def starters(brief: Brief) -> tuple[Runner, ...]:
    """Everybody in the race of launch numbers: ideas that were left, the numbers, and what is near those that rewrites
    brought along."""
    field = race_field.field(brief.sources, brief.facts, backward_only=brief.backward_only)
    kernels = {numbers.kernel for racing in field for numbers in racing.numbers}
    ideas = _with_an_idea(brief, engine.leftovers(brief, kernels))
    with_numbers = tuple((Racer(numbers=racing.numbers), Entry(racing.files, racing.cases)) for racing in field)
    near = tuple(_runner(idea, cases) for idea, cases in engine.near(brief))
    return (*ideas, *with_numbers, *near)[:MOST_RACERS]


def raced(bench: Bench, brief: Brief) -> Race:
    """The race of launch numbers once nobody has another idea."""
    runners = starters(brief)
    if not runners:
        return Race(of=brief.incumbent, note=ALONE)
    return _held(bench, brief, runners, opening=False)


def before_a_round(bench: Bench, brief: Brief) -> Race | None:
    """The race that says which idea is the first to have a round. One idea alone races with the launch numbers, where
    those have not raced yet. None where there is nothing to choose from."""
    ideas = engine.openers(brief)
    if len(ideas) >= FEWEST:
        return _held(bench, brief, _with_an_idea(brief, ideas), opening=True)
    return raced(bench, brief) if ideas and brief.has_race_ahead else None
