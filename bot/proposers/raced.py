"""Launch numbers that won a race on the GPU, written down as a rule. Where a race was run, no model is asked."""

from __future__ import annotations

from collections.abc import Iterator

from bot.campaign.lineage import NUMBERS_TECHNIQUE
from bot.engine import race_field, settings_table
from bot.model.variant import Proposal
from bot.proposers import rules
from bot.proposers.brief import Brief


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
    yield from rules.proposals(brief, tables, technique, "Launch numbers that won a race", of, by)
