"""Launch numbers that won a race on the GPU, written down as a rule. Where a race was run, no model is asked."""

from __future__ import annotations

from collections.abc import Iterator

from bot.analysis.paired import MIN_GAIN
from bot.analysis.stats import geometric_mean, value_of
from bot.campaign.lineage import NUMBERS_TECHNIQUE
from bot.engine import race_field, settings_table
from bot.model.grouping import Group, primary_groups
from bot.model.variant import Proposal
from bot.proposers import rules
from bot.proposers.brief import Brief

NEARLY = 0.7
"""The share of what a variant has to gain that a race has to promise: its figures are of one process."""


def _step_us(brief: Brief, group: Group, ratios: dict[str, float]) -> tuple[float, float]:
    """A step as it is, and with each pass so many times faster; (0, 0) where a pass has no time."""
    times = {case.case: case.timing.median_us for case in brief.facts.cases if case.timing is not None}
    if not all(case.id in times for case in group.cases):
        return 0.0, 0.0
    now = [times[case.id] for case in group.cases]
    then = [times[case.id] / ratios.get(case.id, 1.0) for case in group.cases]
    return sum(now), sum(then)


def promised(brief: Brief, tables: rules.Tables) -> float:
    """What the rules would make of the incumbent's score, in the words of the campaign's goal."""
    ratios: dict[str, float] = {}
    for choice in rules.chosen(brief, tables):
        for row in tables[choice.rule.kernel][1]:
            gain = row.gain(choice.rule.of(row)) or 1.0
            ratios[row.case] = ratios.get(row.case, 1.0) * gain
    steps = [(group.weight, *_step_us(brief, group, ratios)) for group in primary_groups(brief.suite, brief.scope)]
    known = [(weight, now / then) for weight, now, then in steps if now and then]
    if not known:
        return 1.0
    speed = geometric_mean([ratio for _, ratio in known], [weight for weight, _ in known])
    return value_of(speed, 1.0, brief.goal)


def ideas(brief: Brief, by: str) -> Iterator[Proposal | None]:
    if brief.race is None:
        return
    at = f"v{brief.incumbent}"
    of = rules.Origin(
        f"{len(brief.race.others)} sets of launch numbers that raced beside {at} on this GPU",
        f"Measured in the race, over {at}",
        settings_table.raced,
    )
    technique = f"{NUMBERS_TECHNIQUE}:{at}" if brief.incumbent else NUMBERS_TECHNIQUE
    tables = race_field.tables(brief.race, brief.facts, brief.suite)
    # A round takes longer than a race: what cannot be accepted is not tried. What was refused as a whole was worth one.
    if not brief.rounds_with(technique) and promised(brief, tables) < 1 + NEARLY * MIN_GAIN:
        return
    yield from rules.proposals(brief, tables, technique, "Launch numbers that won a race", of, by)
