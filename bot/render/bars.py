"""The plot of the variants in plain text, for mail, terminals and pages that cannot load pictures."""

from __future__ import annotations

from bot.model.campaign import Campaign, Outcome
from bot.model.ids import VariantNumber
from bot.model.verdict import Decision
from bot.render import numbers, view
from bot.render.escape import Trusted

WIDTH = 12
"""With its figure and remark a line stays within what a phone shows without scrolling."""
SHORT = {Decision.REJECTED: "rejected", Decision.INCONCLUSIVE: "inconclusive"}
EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: float, longest: float, width: int = WIDTH) -> str:
    """`value` as a bar, in eighths of a character; `longest` fills the width."""
    eighths = round(8 * width * max(value, 0) / longest) if longest > 0 else 0
    full, rest = divmod(min(eighths, 8 * width), 8)
    return ("█" * full + EIGHTHS[rest].strip()).ljust(width)


def hollow(value: float, longest: float, width: int = WIDTH) -> str:
    """Of what was not accepted, so that a long one is not taken for the best."""
    return ("░" * round(width * min(max(value, 0) / longest, 1) if longest > 0 else 0)).ljust(width)


def _remark(campaign: Campaign, number: VariantNumber) -> str:
    played = campaign.round_of(number)
    if number == view.best(campaign) and number:
        return " winner" if campaign.winner and campaign.outcome in (None, Outcome.PUSHED) else " best"
    if played is None or played.verdict is None or played.verdict.decision.is_accepted:
        return " untouched" if number == 0 else ""
    return f" {SHORT[played.verdict.decision]}"


def lines(campaign: Campaign, shown: tuple[VariantNumber, ...]) -> list[str]:
    """One line a variant: the same numbers as the plot."""
    values = {number: (view.score_of(campaign, number)) for number in shown}
    longest = max([1.0, *(numbers.speed(score) for score in values.values() if score)])
    names = max(len(f"v{number}") for number in shown)
    found = []
    for number, score in values.items():
        value = 1.0 if number == 0 else numbers.speed(score) if score else 0.0
        figure = numbers.ratio(1.0) if number == 0 else numbers.speed_alone(score)
        played = campaign.round_of(number)
        drawn = bar if played is None or view.is_accepted(played) else hollow
        found.append(f"{f'v{number}':<{names}} {drawn(value, longest)} {figure}{_remark(campaign, number)}")
    return found


def variants(campaign: Campaign, shown: tuple[VariantNumber, ...]) -> Trusted:
    """The same as a code block of Markdown."""
    return Trusted("```text\n" + "\n".join(lines(campaign, shown)) + "\n```")
