"""What to do next, at the end of a report."""

from __future__ import annotations

from bot.model.campaign import OUT_OF_BUDGET, Campaign, StopReason
from bot.model.facts import JournalLine, SearchEnded
from bot.render import labels, mind, view
from bot.render.escape import SENTENCE_LIMIT, Trusted, code, text

MORE = 4
"""Variants that a search whose budget was spent may go on with."""


def _unfinished(campaign: Campaign, lines: tuple[JournalLine, ...]) -> str:
    """A search that ended before its ideas did, and how it goes on."""
    why = campaign.stopped
    if why is None or why not in OUT_OF_BUDGET:
        return ""
    note = next((line.fact.note for line in reversed(lines) if isinstance(line.fact, SearchEnded)), "")
    said = f"The search ended because {text(labels.STOPPED[why])}{f'; {text(note)}' if note else ''}."
    tried, most = len(campaign.rounds), campaign.command.max_variants if campaign.command else 0
    variants = {StopReason.BUDGET_SPENT: tried + MORE, StopReason.TIME_OVER: max(most, tried + 1)}.get(why)
    if variants is None:  # GPU minutes are for the repository to give
        return said
    typed = f"kernelwright optimize {view.kernel(campaign)} --resume journal.jsonl --max-variants {variants}"
    return f"{said} In a checkout {code(typed)} goes on with it."


def _of_winner(campaign: Campaign, number: int) -> str:
    profile = campaign.profile
    if profile is None or not number:
        return ""
    if campaign.pushed and view.is_static(campaign):
        return f"Time v{number} on a GPU before its figure is quoted: {code(' '.join(profile.site.benchmark_command))}."
    if not campaign.pushed and campaign.outcome:
        return f"The change is in {code(f'{view.kernel(campaign)}_v{number}.py')}. It was not applied."
    return ""


def _whole(said: str) -> str:
    return f"{text(said[:1].upper() + said[1:], SENTENCE_LIMIT)}."


def advice(campaign: Campaign, lines: tuple[JournalLine, ...]) -> Trusted:
    """A list; empty where nothing is left to do."""
    before = mind.failed_before(campaign)  # no other variant would pass them either
    more = f"{_whole(before)} {_whole(mind.failed_before_next(campaign))}" if before else _unfinished(campaign, lines)
    found = [one for one in (_of_winner(campaign, view.best(campaign)), more) if one]
    return Trusted("\n".join(f"- {one}" for one in found))
