"""Who descends from whom: sources, numbers, and the ideas people asked to try."""

from __future__ import annotations

from bot.model.campaign import Campaign, Round
from bot.model.ids import CommitSha, VariantNumber
from bot.model.measurement import Evidence
from bot.model.people import Actor
from bot.model.variant import SourceFile
from bot.model.verdict import Score

TRY_TECHNIQUE = "try"
"""Technique of a variant that somebody brought as a commit; its first reference is that commit."""
NUMBERS_TECHNIQUE = "launch_parameters"
"""How the technique of a variant begins that differs from its parent in launch numbers alone."""
MORE_WARPS, FEWER_WARPS = "more_warps", "fewer_warps"
"""How the technique begins of a variant that has a rewritten kernel with other warps."""


def next_number(campaign: Campaign) -> VariantNumber:
    """Numbers are never used twice, also not after a rejection."""
    return len(campaign.rounds) + 1


def sources_of(campaign: Campaign, number: VariantNumber) -> tuple[SourceFile, ...]:
    """The full text of a variant's files; v0 is what the profile read."""
    if number == 0:
        return campaign.profile.sources if campaign.profile else ()
    found = campaign.round_of(number)
    return found.variant.files if found else ()


def ancestry(campaign: Campaign, number: VariantNumber) -> tuple[Round, ...]:
    """The rounds that a variant is built on, the first one first and its own last."""
    found: list[Round] = []
    while number and (played := campaign.round_of(number)) is not None:
        found.insert(0, played)
        number = played.variant.parent
    return tuple(found)


def score_of(campaign: Campaign, number: VariantNumber) -> Score | None:
    found = campaign.round_of(number)
    return found.verdict.score if found and found.verdict else None


def accepted(campaign: Campaign) -> tuple[VariantNumber, ...]:
    """Every variant a human may pick, in the order they were accepted."""
    return campaign.lineage[1:]


def pending_tries(campaign: Campaign) -> tuple[tuple[CommitSha, Actor], ...]:
    """Commits people asked to try that no round has tried yet."""
    tried = {
        reference
        for played in campaign.rounds
        if played.variant.hypothesis.technique == TRY_TECHNIQUE
        for reference in played.variant.hypothesis.references[:1]
    }
    return tuple(entry for entry in campaign.tries if entry[0] not in tried)


def _has_a_clock(campaign: Campaign) -> bool:
    return campaign.profile is not None and campaign.profile.baseline.runner.evidence is Evidence.MEASURED


def has_opening_ahead(campaign: Campaign) -> bool:
    """Whether ideas race before the first of them has a round: on a GPU's clock, once."""
    return _has_a_clock(campaign) and campaign.opening is None and not pending_tries(campaign)


def has_race_ahead(campaign: Campaign) -> bool:
    """Whether launch numbers are raced once no idea is left or the search stands still, and the ideas that promised
    nothing before with them: on a GPU's clock, once for each incumbent whose work is another than its parent's. What a
    person brought is tried first."""
    if not _has_a_clock(campaign):
        return False
    played = campaign.round_of(campaign.incumbent)
    chosen = played is not None and played.variant.hypothesis.technique.startswith(NUMBERS_TECHNIQUE)
    return not chosen and campaign.race_of(campaign.incumbent) is None and not pending_tries(campaign)
