"""Launch numbers that won a race on the GPU, written down as a rule. Where a race was run, no model is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bot.campaign.lineage import NUMBERS_TECHNIQUE
from bot.engine import race_field, settings_table
from bot.model.variant import Proposal
from bot.proposers import promise, rules
from bot.proposers.brief import Brief


def promised(brief: Brief, tables: rules.Tables) -> float:
    """What the rules would make of the incumbent's score, in the words of the campaign's goal."""
    ratios: dict[str, float] = {}
    for choice in rules.chosen(brief, tables):
        for row in tables[choice.rule.kernel][1]:
            gain = row.gain(choice.rule.of(row)) or 1.0
            ratios[row.case] = ratios.get(row.case, 1.0) * gain
    return promise.score(brief, promise.medians(brief.facts), ratios)


def has_spoken(brief: Brief) -> bool:
    """Whether a rule that won a race of rewritten kernels had a round: then no model is asked about launch numbers."""
    return any(re.match(rf"{NUMBERS_TECHNIQUE}:v\d", one.variant.hypothesis.technique) for one in brief.rounds)


def _technique(brief: Brief) -> str:
    return f"{NUMBERS_TECHNIQUE}:v{brief.incumbent}" if brief.incumbent else NUMBERS_TECHNIQUE


def left_out(brief: Brief) -> str:
    """What a race found and no round was worth, so that nobody looks for it in vain; empty where there is no such."""
    if brief.race is None or brief.rounds_with(_technique(brief)):
        return ""
    tables = race_field.tables(brief.race, brief.facts, brief.suite)
    choices, whole = rules.chosen(brief, tables), promised(brief, tables)
    if not choices or whole >= promise.WORTH_A_ROUND:
        return ""
    won = ", ".join(f"{choice.rule.kernel} {choice.gain:.2f}x over its cases" for choice in choices)
    return (
        f"launch numbers that won a race ({won}) would make the whole {whole:.3f}x as fast, "
        f"and a round needs {promise.WORTH_A_ROUND:.3f}x"
    )


def ideas(brief: Brief, by: str) -> Iterator[Proposal | None]:
    if brief.race is None:
        return
    at, sets = f"v{brief.incumbent}", sum(bool(racer.numbers) for racer in brief.race.others)
    of = rules.Origin(
        f"{sets} sets of launch numbers that raced beside {at} on this GPU",
        f"Measured in the race, over {at}",
        settings_table.raced,
    )
    technique = _technique(brief)
    tables = race_field.tables(brief.race, brief.facts, brief.suite)
    # A round takes longer than a race: what cannot be accepted is not tried. What was refused as a whole was worth one.
    if not brief.rounds_with(technique) and promised(brief, tables) < promise.WORTH_A_ROUND:
        return
    yield from rules.proposals(brief, tables, technique, "Launch numbers that won a race", of, by)
