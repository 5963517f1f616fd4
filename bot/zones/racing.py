"""Runs a race of launch numbers and writes down what came of it. One that cannot be run costs nobody a campaign."""

from __future__ import annotations

import math

from bot.analysis.distributions import student_quantile
from bot.analysis.paired import process_mean
from bot.analysis.racing import FUTILE
from bot.bench.bailiff import Objection
from bot.bench.measure import Bench
from bot.bench.race import Entry, Ran
from bot.engine import race_field
from bot.model.ids import VariantNumber
from bot.model.measurement import Block
from bot.model.race import Lap, Numbers, Race, Racer
from bot.proposers.brief import Brief

MOST_WORDS = 300
ALONE = "no other launch numbers can be written into this source"


def _lap(case: str, blocks: tuple[Block, ...]) -> Lap:
    found = process_mean(blocks)
    reach = student_quantile(FUTILE, found.freedom) * found.error
    speedup, low, high = (round(math.exp(found.mean + way * reach), 6) for way in (0, -1, 1))
    return Lap(case=case, speedup=speedup, low=low, high=high, blocks=len(blocks))


def _racer(numbers: tuple[Numbers, ...], ran: Ran) -> Racer:
    laps = tuple(_lap(case, blocks) for case, blocks in ran.blocks.items())
    return Racer(numbers=numbers, laps=laps, left=ran.left[:MOST_WORDS], gpu_ms=round(ran.gpu_ms, 3))


def raced(bench: Bench, brief: Brief, of: VariantNumber) -> Race:
    field = race_field.field(brief.sources, brief.facts, backward_only=brief.backward_only)
    if not field:
        return Race(of=of, note=ALONE)
    every = tuple(case.case for case in brief.facts.cases)
    entries = (Entry(brief.sources, every), *(Entry(racing.files, racing.cases) for racing in field))
    try:
        result = bench.race(entries)
    except Objection as error:
        return Race(of=of, note=str(error)[:MOST_WORDS])
    if len(result.ran) != len(entries):
        return Race(of=of, note="this machine has no clock to race by")
    names = ((), *(racing.numbers for racing in field))
    racers = tuple(_racer(numbers, ran) for numbers, ran in zip(names, result.ran, strict=True))
    return Race(of=of, racers=racers, seconds=result.seconds, gpu_ms=result.gpu_ms)
