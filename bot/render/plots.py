"""Two pictures for people: every variant against v0, and the best variant case by case. PNG bytes, light or dark.

The same campaign always gives the same bytes. Words in a picture are never read as mathematics or markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

from bot.model.campaign import Campaign, Round
from bot.model.measurement import Evidence
from bot.model.verdict import CaseScore, Score
from bot.render import labels, numbers, view
from bot.render.escape import plain

DPI = 200
WIDTH = 5.4
"""Inches: 1080 pixels, which a phone shows at a third of their size and still legibly."""
ROW = 0.34
CASE_ROW = 0.5
MOST_ROWS = 16
NAME = 26
"""Characters of a row's name; more would leave no room for the bars."""
COLOURS = 64
FONT = 12


@dataclass(frozen=True, slots=True)
class Look:
    """Colours of Okabe and Ito, told apart by colour-blind readers too; shape and words repeat what colour says."""

    page: str
    ink: str
    faint: str
    before: str
    best: str
    accepted: str
    refused: str


LIGHT = Look("#ffffff", "#1f2328", "#d1d9e0", "#7d8590", "#d55e00", "#0072b2", "#b1bac4")
DARK = Look("#0d1117", "#e6edf3", "#30363d", "#9198a1", "#e69f00", "#56b4e9", "#484f58")


def _look(dark: bool) -> Look:
    return DARK if dark else LIGHT


def _evidence(score: Score, campaign: Campaign) -> str:
    runner = view.runner(campaign)
    if score.evidence is Evidence.STATIC:
        return f"estimated (STATIC) for {plain(runner.arch, 20) if runner else 'the GPU'}, not timed"
    return f"measured on {plain(runner.gpu_name, 40) if runner else 'a GPU'}"


def _words(text: str) -> str:
    """The font's own characters only."""
    return "".join(char if char.isascii() else "?" for char in plain(text, NAME))


def _canvas(rows: int, height: float, look: Look) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 1.55 + height * rows), dpi=DPI, facecolor=look.page, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(facecolor=look.page)
    axes.tick_params(colors=look.ink, labelsize=FONT, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.spines["bottom"].set(visible=True, color=look.faint)
    axes.xaxis.grid(True, color=look.faint, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _name_rows(axes: Any, names: list[str], *, shown: bool = True) -> None:
    """Names that are not shown still keep their room: something else is written there."""
    axes.set_yticks(range(len(names)))
    for tick, name in zip(axes.set_yticklabels(names), names, strict=True):
        tick.set(parse_math=False, text=name, alpha=1 if shown else 0)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _title(figure: Any, first: str, second: str, look: Look) -> None:
    figure.suptitle(
        f"{first}\n{second}", x=0.01, ha="left", fontsize=FONT, color=look.ink, linespacing=1.35, parse_math=False
    )


def _png(figure: Any) -> bytes:
    """A palette of 64 colours is a quarter of the bytes and looks the same."""
    from PIL import Image

    figure.canvas.draw()
    size = figure.canvas.get_width_height()
    drawn = Image.frombytes("RGBA", size, bytes(figure.canvas.buffer_rgba())).convert("RGB")
    buffer = BytesIO()
    drawn.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, format="PNG", compress_level=6, dpi=(DPI, DPI))
    return buffer.getvalue()


def _colour(campaign: Campaign, played: Round | None, look: Look) -> str:
    if played is None:
        return look.before
    if played.variant.number == view.best(campaign):
        return look.best
    return look.accepted if view.is_accepted(played) else look.refused


def _remark(campaign: Campaign, played: Round | None) -> str:
    if played is None:
        return "untouched"
    if played.variant.number == view.best(campaign):
        return "best"
    if view.is_accepted(played):
        return ""
    return str(played.verdict.decision) if played.verdict else ""


def _figure_at(axes: Any, x: float, i: int, words: str, look: Look, *, bold: bool = False) -> None:
    axes.annotate(
        words, (x, i), (7, 0), textcoords="offset points", va="center", fontsize=FONT, color=look.ink,
        weight="bold" if bold else "normal", bbox={"facecolor": look.page, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _scored(campaign: Campaign) -> list[tuple[Round, Score]]:
    """The best ones when there are too many for a page, in the order they were tried."""
    found = [(played, played.verdict.score) for played in campaign.rounds if played.verdict and played.verdict.score]
    kept = sorted(found, key=lambda pair: pair[1].value, reverse=True)[: MOST_ROWS - 1]
    return sorted(kept, key=lambda pair: pair[0].variant.number)


def _draw_variants(campaign: Campaign, look: Look) -> bytes:
    scored = _scored(campaign)
    assert scored, "no variant has a score to draw"
    rows: list[tuple[Round | None, float]] = [
        (None, 1.0),
        *((played, numbers.speed(score)) for played, score in scored),
    ]
    figure, axes = _canvas(len(rows), ROW, look)
    for i, (played, value) in enumerate(rows):
        refused = played is not None and not view.is_accepted(played)
        bar = {"facecolor": look.page, "hatch": "////"} if refused else {"facecolor": _colour(campaign, played, look)}
        axes.barh(i, value, height=0.66, edgecolor=_colour(campaign, played, look), linewidth=1.2, **bar)
        remark = _remark(campaign, played)
        _figure_at(axes, value, i, f"{numbers.ratio(value)}  {remark}".strip(), look, bold=remark == "best")
    _name_rows(axes, [f"v{played.variant.number}" if played else "v0" for played, _ in rows])
    axes.set_xlim(0, 1.35 * max(value for _, value in rows))
    _ratio_axis(axes, "speed-up over v0, geometric mean (longer is better)", look)
    _title(figure, f"{_words(view.kernel(campaign))}: variants", _evidence(scored[0][1], campaign), look)
    return _png(figure)


def _ratio_axis(axes: Any, label: str, look: Look) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_xlabel(label, fontsize=FONT - 1, color=look.ink)
    axes.axvline(1, color=look.before, linewidth=1.6, zorder=0.6)


def _draw_case(axes: Any, i: int, case: CaseScore, name: str, look: Look) -> None:
    """A bar from 1x to the right when faster, hatched to the left when slower; the times stand under the name."""
    slower = case.speedup < 1
    bar = {"facecolor": look.page, "hatch": "////"} if slower else {"facecolor": look.best}
    edge = look.before if slower else look.best
    axes.barh(i, case.speedup - 1, left=1, height=0.5, edgecolor=edge, linewidth=1.2, **bar)
    _figure_at(axes, max(case.speedup, 1), i, numbers.ratio(case.speedup), look)
    times = f"{numbers.duration(case.before_us)} to {numbers.duration(case.after_us)}"
    for offset, words, size, ink in ((8, name, FONT, look.ink), (-9, times, FONT - 2, look.before)):
        axes.annotate(
            words, (0, i), (-10, offset), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", va="center", fontsize=size, color=ink, parse_math=False,
        )  # fmt: skip


def _best_scored(campaign: Campaign) -> tuple[Round, Score]:
    """The winner or the best so far; where nothing was accepted, the one that came nearest."""
    scored = [(played, score) for played, score in _scored(campaign) if score.cases]
    assert scored, "no variant has cases to draw"
    return max(scored, key=lambda pair: (pair[0].variant.number == view.best(campaign), pair[1].value))


def _draw_cases(campaign: Campaign, look: Look) -> bytes:
    played, score = _best_scored(campaign)
    number = f"v{played.variant.number}" + ("" if view.is_accepted(played) else ", rejected")
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    worst_first = sorted(score.cases, key=lambda case: case.speedup)[:MOST_ROWS]
    cases = tuple(case for case in score.cases if case in worst_first)
    figure, axes = _canvas(len(cases), CASE_ROW, look)
    shown = [_words(names.get(case.case, case.case)) for case in cases]
    axes.tick_params(axis="y", pad=10)
    _name_rows(axes, shown, shown=False)
    for i, (case, name) in enumerate(zip(cases, shown, strict=True)):
        _draw_case(axes, i, case, name, look)
    values = [1.0, *(case.speedup for case in cases)]
    room = max(values) - min(values) or 1.0
    axes.set_xlim(min(values) - 0.06 * room, max(values) + 0.3 * room)
    _ratio_axis(axes, "speed-up over v0 (right is better)", look)
    head = f"{_words(view.kernel(campaign))}: {number} against v0, case by case"
    _title(figure, head, _evidence(score, campaign), look)
    return _png(figure)


def _drawn(campaign: Campaign, dark: bool, draw: Any) -> bytes:
    """Whatever the machine's own matplotlib settings are, the picture is the same."""
    from matplotlib import style

    with style.context("default"):
        return bytes(draw(campaign, _look(dark)))


def variants(campaign: Campaign, *, dark: bool = False) -> bytes:
    """Every variant that has a score, beside v0. There must be one."""
    return _drawn(campaign, dark, _draw_variants)


def speedup(campaign: Campaign, *, dark: bool = False) -> bytes:
    """The best variant against v0, case by case. It must have a score."""
    return _drawn(campaign, dark, _draw_cases)
