"""Markdown tables that stay readable as source and on a phone: at most six columns, the rest folded."""

from __future__ import annotations

from collections.abc import Sequence

from bot.model.campaign import Campaign, Outcome, Round
from bot.model.commands import Goal
from bot.model.ids import VariantNumber
from bot.model.measurement import Measurement
from bot.model.verdict import Decision, Score
from bot.render import labels, numbers, view
from bot.render.escape import Trusted, attribute, text

NONE = Trusted("-")
PAD_LIMIT = 44
"""Cells are padded so that the source lines up, but no further than a screen."""
REASON_LIMIT = 140
TITLE_LIMIT = 90


def grid(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Trusted:
    """Every cell is escaped unless it is Trusted; the head is ours."""
    cells = [[str(text(cell)) for cell in line] for line in ([Trusted(name) for name in head], *rows)]
    widths = [min(PAD_LIMIT, max(3, *(len(line[i]) for line in cells))) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return Trusted("\n".join(lines))


def left_out(shown: int, total: int, what: str) -> Trusted:
    return Trusted(f"\n\n_{numbers.many(total - shown, f'more {what}')} in the record._" if total > shown else "")


def fold(summary: str, body: str) -> Trusted:
    """Something to unfold; nothing when there is nothing in it."""
    if not body:
        return Trusted("")
    return Trusted(f"<details><summary>{attribute(summary)}</summary>\n\n{text(body)}\n\n</details>")


def strong(shown: object) -> Trusted:
    return Trusted(f"**{text(shown)}**")


def score_head(campaign: Campaign) -> str:
    """Speed-up, unless all that is known is a score into which the goal weighed memory."""
    goal = campaign.command.goal if campaign.command else Goal.SPEED
    scores = [played.verdict.score for played in campaign.rounds if played.verdict and played.verdict.score]
    mixed = goal is not Goal.SPEED and any(score.speed is None for score in scores)
    return f"Score ({goal})" if mixed else "Speed-up"


UNSEEN = "Sizes that nobody named"


def _on_sizes(found: Measurement, score: Score | None) -> str:
    """How fast it is there, with the interval that fresh processes leave."""
    cases = {one.case.id: one.case for one in found.unseen}
    told = []
    for one in score.unseen if score is not None else ():
        span = f" [{numbers.ratio(one.low)}, {numbers.ratio(one.high)}]" if one.low is not None else ""
        told.append(f"{labels.case_name(cases[one.case])} {numbers.ratio(one.speedup)}{span}")
    return "; ".join(told)


def of_finalist(found: Measurement | None, score: Score | None = None) -> list[tuple[str, str]]:
    """What was read beside the cases, and who looked; nothing of a variant that was no finalist."""
    if found is None:
        return []
    looked = {"compute-sanitizer": found.sanitized, "torch.compile": found.under_compile}
    read = _on_sizes(found, score) or (f"not read: {found.unread}" if found.unread else "")
    told = [(UNSEEN, read), *((who, one.said) for who, one in looked.items() if one is not None)]
    return [(who, said) for who, said in told if said]


def correct(found: Measurement | None) -> str:
    if found is not None and found.fault is not None:
        return labels.fault(found.fault)
    passed, total = view.right(found)
    return f"{passed}/{total}" if total else "not checked"


def worst_case(score: Score | None, names: dict[str, str]) -> str:
    found = view.worst(score)
    return f"{numbers.ratio(found.speedup)} {names.get(found.case, found.case)}" if found else NONE


def leading(campaign: Campaign) -> str:
    """What the verdict column says of the best variant, as the campaign stands."""
    if campaign.outcome is Outcome.PUSHED:
        return "pushed"
    if campaign.outcome is not None:
        return "best, not applied"
    return "recommended" if campaign.winner is None else "chosen"


def verdict(campaign: Campaign, played: Round) -> Trusted:
    """The decision and, where it is not plain acceptance, the first reason."""
    found = played.verdict
    if found is None:
        return Trusted("being judged")
    if played.variant.number == view.best(campaign):
        return strong(leading(campaign))
    reason = text(view.reason(campaign, played), REASON_LIMIT)
    decision = labels.DECISIONS[found.decision]
    return Trusted(decision if found.decision is Decision.ACCEPTED or not reason else f"{decision}: {reason}")


def _variant_row(campaign: Campaign, played: Round, names: dict[str, str]) -> list[object]:
    number = played.variant.number
    score = played.verdict.score if played.verdict else None
    emphasis = strong if number == view.best(campaign) else text
    return [
        emphasis(f"v{number}"),
        emphasis(numbers.speed_alone(score)),
        verdict(campaign, played),
        emphasis(text(played.variant.hypothesis.title, TITLE_LIMIT)),
        correct(played.measurement),
        worst_case(score, names),
    ]


def _baseline_row(campaign: Campaign) -> list[object]:
    at = f" at {view.pinned(campaign)}" if campaign.pull else ""
    return ["v0", "1.00x", "baseline", f"untouched source{at}", correct(view.measurement_of(campaign, 0)), NONE]


def _weight(campaign: Campaign, played: Round) -> tuple[int, float, int]:
    """What a reader wants first: the winner, then its lineage, then the fast ones, then the latest."""
    number = played.variant.number
    score = played.verdict.score if played.verdict else None
    rank = 2 if number == view.best(campaign) else 1 if number in campaign.lineage else 0
    return rank, score.value if score else 0.0, number


def shown(campaign: Campaign, most: int) -> tuple[VariantNumber, ...]:
    """v0 and the variants that matter most, by number. One of them was rejected if any was."""
    ranked = sorted(campaign.rounds, key=lambda played: _weight(campaign, played), reverse=True)
    kept = ranked[: max(most - 1, 1)]
    refused = [played for played in ranked if not view.is_accepted(played)]
    if refused and kept and all(view.is_accepted(played) for played in kept) and len(kept) > 1:
        kept[-1] = refused[0]
    return (0, *sorted(played.variant.number for played in kept))


def variants(campaign: Campaign, numbers_shown: Sequence[VariantNumber]) -> Trusted:
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    worst = "Worst case" + (f" {numbers.ESTIMATED}" if view.is_static(campaign) else "")
    rows = [_baseline_row(campaign)] if 0 in numbers_shown else []
    rows += [_variant_row(campaign, r, names) for r in campaign.rounds if r.variant.number in numbers_shown]
    return grid(["#", score_head(campaign), "Verdict", "Change", "Correct", worst], rows)
