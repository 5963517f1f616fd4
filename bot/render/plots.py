"""The pictures of a campaign and of many sweeps: PNG bytes, light or dark, and what each says in words.

The same campaign always gives the same bytes. One picture is one file `plot_*.py` and one line in PLOTS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bot.model.campaign import Campaign
from bot.render import gains, plot_canvas, plot_cases, plot_lineage, plot_roofline, plot_trend, plot_variants, view
from bot.render.plot_canvas import Look
from bot.render.plot_data import NO_FIGURES, Figures, PastResult

PLOTS: dict[str, Callable[[Campaign, Figures, Look], Any]] = {
    "speedup": plot_cases.figure,
    "variants": plot_variants.figure,
    "roofline": plot_roofline.figure,
    "lineage": plot_lineage.figure,
}
"""File name -> the figure; `plots/<name>-light.png` and `-dark.png`."""
MOST_SAID = 300


def available(campaign: Campaign, known: Figures = NO_FIGURES) -> tuple[str, ...]:
    """What there is to draw as the campaign stands."""
    scores = [played.verdict.score for played in campaign.rounds if played.verdict and played.verdict.score]
    there = {
        "speedup": any(score.cases for score in scores),
        "variants": bool(scores),
        "roofline": known.roof is not None and any(p.before is not None for p in known.roof.points),
        "lineage": bool(view.judged(campaign)),
    }
    return tuple(name for name in PLOTS if there[name])


def alt(name: str, campaign: Campaign) -> str:
    """The finding, for people who hear the page and for pages that cannot load the picture."""
    match name:
        case "speedup":
            told = f"{plot_cases.headline(campaign)}, case by case; the same numbers as in the table of cases"
        case "variants":
            told = f"{plot_variants.title(campaign)}; each is the {gains.mean_of(campaign)}"
        case "roofline":
            estimated = "estimated, " if view.is_static(campaign) else ""
            told = f"{plot_roofline.title(campaign)}, {estimated}case by case"
        case "lineage":
            told = f"which idea led where: {plot_lineage.title(campaign)}"
        case _:
            told = name
    return plot_canvas.words(f"{view.kernel(campaign)}: {told}", MOST_SAID)


def _drawn(campaign: Campaign | None, dark: bool, draw: Callable[[Campaign | None, Look], Any]) -> bytes:
    """Whatever the machine's own matplotlib settings are, the picture is the same."""
    from matplotlib import style

    with style.context("default"):
        return plot_canvas.png(draw(campaign, plot_canvas.look_of(dark)))


def picture(name: str, campaign: Campaign, known: Figures = NO_FIGURES, *, dark: bool = False) -> bytes:
    """One of PLOTS. It must be available."""

    def draw(shown: Campaign | None, look: Look) -> Any:
        return PLOTS[name](campaign, known, look)

    draw.__name__ = name
    return _drawn(campaign, dark, draw)


def trend(results: Sequence[PastResult], *, dark: bool = False) -> bytes:
    """Every kernel over the sweeps. There must be a result."""
    return _drawn(None, dark, lambda _, look: plot_trend.figure(results, look))
