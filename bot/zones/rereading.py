"""Reads a journal that came from somewhere: which of its verdicts follow from its own raw facts."""

from __future__ import annotations

from collections.abc import Iterable

from bot.campaign.machine import advance
from bot.errors import UserError
from bot.model.campaign import Campaign
from bot.model.facts import Fact, VariantJudged
from bot.model.ids import VariantNumber
from bot.zones.judging import verdict_of


def _follows(campaign: Campaign, fact: VariantJudged) -> bool:
    """A verdict is reached on what was known when it was written, not on what came later."""
    played = campaign.round_of(fact.number)
    if played is None or played.measurement is None or campaign.profile is None or campaign.command is None:
        return False
    try:
        return verdict_of(campaign, fact.number) == fact.verdict
    except (UserError, ArithmeticError, ValueError, SyntaxError, RecursionError):  # no machine of ours wrote that
        return False


def _is_awaited(campaign: Campaign, fact: VariantJudged) -> bool:
    """A late or doubled one changes nothing, so nobody asks whether it is right."""
    played = campaign.round_of(fact.number)
    return played is not None and played.verdict is None


def doubted(campaign: str, facts: Iterable[Fact]) -> tuple[VariantNumber, ...]:
    """Variants whose verdict, computed again from the raw facts, is another one."""
    found: list[VariantNumber] = []
    now = Campaign(id=campaign)
    for fact in facts:
        if isinstance(fact, VariantJudged) and _is_awaited(now, fact) and not _follows(now, fact):
            found.append(fact.number)
        now, _ = advance(now, fact)
    return tuple(found)
