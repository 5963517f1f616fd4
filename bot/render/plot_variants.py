"""Every variant that has a score, beside v0."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Round
from bot.model.measurement import Evidence
from bot.model.verdict import Score
from bot.render import gains, numbers, view
from bot.render import plot_canvas as canvas
from bot.render.bars import SHORT
from bot.render.plot_canvas import MARGIN, MOST_ROWS, Look, Sheet
from bot.render.plot_cases import scored
from bot.render.plot_data import Figures

ROW = 0.36
GAP = 7


def _colour(campaign: Campaign, played: Round | None, look: Look) -> str:
    if played is None:
        return look.before
    if not view.is_accepted(played):
        return look.refused
    return look.best if played.variant.number == view.best(campaign) else look.accepted


def _remark(campaign: Campaign, played: Round | None) -> str:
    if played is None:
        return "untouched"
    if view.is_accepted(played):
        return "best" if played.variant.number == view.best(campaign) else ""
    return SHORT[played.verdict.decision] if played.verdict else ""


def _whisker(score: Score | None) -> tuple[float, float] | None:
    """The interval of the speed-up that is drawn, where there is one."""
    return numbers.speed_interval(score) if score else None


def _row(page: Sheet, i: int, campaign: Campaign, played: Round | None, score: Score | None) -> None:
    value = numbers.speed(score) if score else 1.0
    colour = _colour(campaign, played, page.look)
    refused = played is not None and not view.is_accepted(played)
    bar = {"facecolor": page.look.page, "hatch": "////"} if refused else {"facecolor": colour}
    page.axes.barh(i, value, height=0.64, edgecolor=colour, linewidth=1.2, **bar)
    span = _whisker(score)
    if span is not None:
        page.axes.errorbar(
            value, i, xerr=[[max(value - span[0], 0)], [max(span[1] - value, 0)]],
            color=page.look.ink, linewidth=1.4, capsize=4, capthick=1.4,
        )  # fmt: skip
    remark = _remark(campaign, played)
    at = (max(value, span[1] if span else value), i)
    weight = "bold" if remark == "best" else "normal"
    page.write(at, f"{numbers.ratio(value)}  {remark}".strip(), move=(GAP, 0), bbox=page.paper(), weight=weight)
    name = f"v{played.variant.number}" if played else "v0"
    page.write((0, i), name, move=(-8, 0), xycoords=("axes fraction", "data"), ha="right", weight=weight)


def title(campaign: Campaign) -> str:
    judged = view.judged(campaign)
    kept = [played for played in judged if view.is_accepted(played)]
    tried = numbers.many(len(judged), "variant")
    if not kept:
        return f"none of {tried} is better"
    best = view.best(campaign)
    if best not in [played.variant.number for played in kept]:
        return f"{len(kept)} of {tried} accepted"
    return f"{canvas.said_of(campaign, best)}, best of {tried}"


def figure(campaign: Campaign, known: Figures, look: Look) -> Any:
    found = scored(campaign)
    assert found, "no variant has a score to draw"
    rows: list[tuple[Round | None, Score | None]] = [(None, None), *found]
    notes = [canvas.origin(found[0][1].evidence, campaign), f"Each is the {gains.mean_of(campaign)}."]
    if any(_whisker(score) for _, score in found):
        notes.append("Whiskers: 95 % interval.")
    hidden = len(view.judged(campaign)) - len(found)
    if hidden:
        why = "without a score" if len(found) < MOST_ROWS - 1 else "without a score or slower"
        notes.append(f"Not shown: {numbers.many(hidden, 'variant')} {why}.")
    finding = f"{canvas.words(view.kernel(campaign), 64)}: {title(campaign)}"
    left = MARGIN + 0.15 + max(canvas.width_of("v0"), *(canvas.width_of(f"v{r.variant.number}") for r, _ in found))
    page = canvas.sheet(finding, " ".join(notes), look, rows=ROW * len(rows), left=left)
    canvas.rows_of(page.axes, len(rows))
    page.axes.axvline(1, color=look.before, linewidth=1.6, zorder=0.6)
    for i, (played, score) in enumerate(rows):
        _row(page, i, campaign, played, score)
    page.axes.set_xlim(0, 1.62 * max(1.0, *(max(numbers.speed(s), (_whisker(s) or (0, 0))[1]) for _, s in found)))
    estimated = ", estimated" if found[0][1].evidence is Evidence.STATIC else ""
    canvas.ticks(page, f"speed-up over v0{estimated} (longer is better)", canvas.times)
    return page.figure
