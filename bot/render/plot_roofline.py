"""How near each case comes to what the GPU can do, before and after.

Above, where operations were counted: the roofline, operations a second over operations a byte, under the ceilings.
Below: case by case the bytes that have to be moved over the time it took. A letter stands for the same case in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bot.model.campaign import Campaign
from bot.model.measurement import Evidence
from bot.render import labels, numbers, view
from bot.render import plot_canvas as canvas
from bot.render.plot_canvas import FONT, MARGIN, MOST_ROWS, SMALL, WIDTH, Look, Sheet
from bot.render.plot_data import Figures, Roof, RoofPoint

ROW = 0.4
DOT, SPOT = 62, 40
"""Square points."""
PANEL, PANEL_FOOT, PANEL_LEFT = 2.4, 0.52, 1.2
"""Inches of the roofline, of the words below it, and of those beside it."""
MOST_TICKS = 5
APART, ASIDE = 0.17, 0.12
"""Inches between two letters, and how far they stand beside their points: as a power of ten."""


def rate(gb_s: float) -> str:
    if gb_s >= 1000:
        return f"{gb_s / 1000:.3g} TB/s"
    return f"{gb_s:.3g} GB/s"


def rates(most: float) -> Callable[[float], str]:
    """For the ticks of one axis: in one unit, so that it begins at 0 TB/s where it ends at 4."""
    return (lambda gb_s: f"{gb_s / 1000:.3g} TB/s") if most >= 1000 else (lambda gb_s: f"{gb_s:.3g} GB/s")


def work(gflop_s: float) -> str:
    return f"{gflop_s / 1000:.3g} TFLOP/s" if gflop_s >= 1000 else f"{gflop_s:.3g} GFLOP/s"


def intensity(flop: float) -> str:
    return f"{flop:g} FLOP/B"


def _shown(roof: Roof) -> tuple[RoofPoint, ...]:
    """Those furthest from what can be done when there are too many, in the suite's order."""
    known = [point for point in roof.points if point.before is not None or point.after is not None]
    worst = sorted(known, key=lambda point: point.after or point.before or 0.0)[:MOST_ROWS]
    return tuple(point for point in known if point in worst)


def title(campaign: Campaign) -> str:
    """The same shares of the roof that the tables quote."""
    before = campaign.profile.diagnosis.roof_percent if campaign.profile else None
    best = view.best(campaign)
    score = view.score_of(campaign, best) if best else None
    after = score.roof_percent if score else None
    if before is None:
        return "no share of a roof is known"
    if after is None:
        return f"v0 reaches {numbers.percent(before)} of the roof"
    return f"from {numbers.percent(before)} of the roof to {numbers.percent(after)} with v{best}"


def _notes(campaign: Campaign, roof: Roof, points: tuple[RoofPoint, ...]) -> str:
    after = any(point.after is not None for point in points)
    notes = [canvas.origin(view.evidence(campaign), campaign)]
    notes.append(f"Hollow: v0{f', filled: v{view.best(campaign)}' if after else ''}.")
    if roof.ceiling is not None:
        peak = f" and {work(1000 * roof.peak)}" if roof.peak and _drawn(points) else ""
        notes.append(f"Dashed: datasheet of the {canvas.words(roof.gpu, 40)}, {rate(roof.ceiling)}{peak}.")
    if any(point.plain for point in points):
        where = (
            "Green: a plain pass over the same bytes"
            if _drawn(points)
            else "Green bars: a plain pass over the same bytes"
        )
        notes.append(f"{where}, measured on this GPU.")
    if len(points) < len(roof.points):
        notes.append(f"{len(points)} of {len(roof.points)} cases.")
    return " ".join(notes)


def _row(page: Sheet, i: int, point: RoofPoint, name: str) -> None:
    look = page.look
    page.write((0, i), name, move=(-8, 0), xycoords=("axes fraction", "data"), ha="right")
    if point.before is not None and point.after is not None:
        page.axes.annotate(
            "", (point.after, i), (point.before, i), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": look.best, "linewidth": 2.2, "shrinkA": 4, "shrinkB": 0},
        )  # fmt: skip
    if point.plain is not None:
        page.axes.plot([point.plain] * 2, [i - 0.36, i + 0.36], color=look.roof, linewidth=3.2, solid_capstyle="butt")
    for value, face, edge in ((point.before, look.page, look.before), (point.after, look.best, look.best)):
        if value is not None:
            page.axes.scatter([value], [i], s=DOT, facecolor=face, edgecolor=edge, linewidth=1.8, zorder=3)


# -- the roofline ---------------------------------------------------------------------------------------------


def _drawn(points: Sequence[RoofPoint]) -> bool:
    """Whether there is anything to put over an intensity."""
    return any(point.intensity for point in points)


def letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number % 26]


def _spots(points: Sequence[RoofPoint]) -> list[tuple[str, float, float | None, float | None]]:
    """(letter, FLOP a byte, GFLOP a second before, after)."""
    return [
        (letter(i), p.intensity, p.before and p.before * p.intensity, p.after and p.after * p.intensity)
        for i, p in enumerate(points)
        if p.intensity
    ]


def _limits(roof: Roof, spots: Sequence[tuple[str, float, float | None, float | None]]) -> tuple[float, ...]:
    intensities = [spot[1] for spot in spots]
    heights = [value for spot in spots for value in spot[2:] if value]
    ridge = 1000 * roof.peak / roof.ceiling if roof.peak and roof.ceiling else None
    left, right = min(intensities) / 2.5, max([4 * max(intensities), *([1.6 * ridge] if ridge else [])])
    top = max([2.5 * max(heights), *([2.5 * 1000 * roof.peak] if roof.peak else [])])
    return left, right, min(heights) / 3, top


def _ceilings(axes: Any, roof: Roof, points: Sequence[RoofPoint], look: Look, left: float, right: float) -> None:
    """Slopes of the memory, the flat one of the arithmetic."""
    flat = 1000 * roof.peak if roof.peak else math.inf
    plain = [point.plain for point in points if point.plain]
    lines = [(roof.ceiling, look.ink, (0, (4, 3)), 1.6), (max(plain, default=None), look.roof, "solid", 2.4)]
    for slope, colour, style, width in lines:
        if slope is None:
            continue
        knee = min(right, flat / slope)
        axes.plot([left, knee], [slope * left, slope * knee], color=colour, linestyle=style, linewidth=width)
    if roof.peak and roof.ceiling:
        axes.plot(
            [min(right, flat / roof.ceiling), right], [flat, flat], color=look.ink, linestyle=(0, (4, 3)), linewidth=1.6
        )


def _letters(
    axes: Any, spots: Sequence[tuple[str, float, float | None, float | None]], look: Look, span: float
) -> None:
    """Beside the points, those over the same intensity pushed apart; a thin line leads back."""
    columns: dict[float, list[tuple[float, str]]] = {}
    for name, x, before, after in spots:
        columns.setdefault(round(math.log10(x), 1), []).append((math.log10(after or before or 1.0), name))
    places = {spot[0]: spot[1] for spot in spots}
    step = APART / PANEL * span
    for x in sorted(columns):
        found, below = columns[x], -math.inf
        side = -1.0 if x == min(columns) else 1.0 if x == max(columns) else -0.6
        for height, name in sorted(found):
            at = max(height, below + step)
            below = at
            axes.annotate(
                name, (places[name], 10**height), (places[name] * 10 ** (side * ASIDE), 10**at), fontsize=SMALL,
                color=look.ink, ha="center", va="center", parse_math=False, zorder=2,
                bbox={"facecolor": look.page, "edgecolor": "none", "pad": 0.8},
                arrowprops={"arrowstyle": "-", "color": look.faint, "linewidth": 0.9, "shrinkA": 5, "shrinkB": 4},
            )  # fmt: skip


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten inside, and not more of them than can be read."""
    found = list(range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1))
    return [10.0**power for power in found[:: max(1, -(-len(found) // MOST_TICKS))]]


def _panel(page: Sheet, roof: Roof, points: Sequence[RoofPoint], top: float) -> None:
    """Its own axes above the rows; `top` is the inch it begins at."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    look, height = page.look, page.figure.get_size_inches()[1]
    axes = page.figure.add_axes(
        (PANEL_LEFT / WIDTH, 1 - (top + PANEL) / height, 1 - (PANEL_LEFT + 0.35) / WIDTH, PANEL / height),
        facecolor=look.page,
    )
    spots = _spots(points)
    left, right, bottom, above = _limits(roof, spots)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, above))
    _ceilings(axes, roof, points, look, left, right)
    for _, x, before, after in spots:
        if before and after:
            axes.plot([x, x], [before, after], color=look.best, linewidth=2.2)
        for value, face, edge in ((before, look.page, look.before), (after, look.best, look.best)):
            if value:
                axes.scatter([x], [value], s=SPOT, facecolor=face, edgecolor=edge, linewidth=1.8, zorder=3)
    _letters(axes, spots, look, math.log10(above / bottom))
    for axis, ends, show in ((axes.xaxis, (left, right), intensity), (axes.yaxis, (bottom, above), work)):
        axis.set_major_locator(FixedLocator(_decades(*ends)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _, show=show: show(value)))
        axis.grid(True, color=look.faint, linewidth=0.8)
    axes.tick_params(colors=look.ink, labelsize=SMALL, length=0)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)


def figure(campaign: Campaign, known: Figures, look: Look) -> Any:
    roof = known.roof
    points = _shown(roof) if roof is not None else ()
    assert roof is not None and points, "no case has a time and bytes to draw"
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    panel = _drawn(points)
    shown = [canvas.words(names.get(point.case, point.case)) for point in points]
    if panel:
        shown = [f"{name} ({letter(i)})" if points[i].intensity else name for i, name in enumerate(shown)]
    left = MARGIN + 0.15 + max(canvas.width_of(name, FONT) for name in shown)
    finding = f"{canvas.words(view.kernel(campaign), 64)}: {title(campaign)}"
    rows, extra = ROW * len(points), PANEL + PANEL_FOOT if panel else 0.0
    page = canvas.sheet(finding, _notes(campaign, roof, points), look, rows=rows + extra, left=left, right=0.3)
    if panel:
        height = page.figure.get_size_inches()[1]
        box = page.axes.get_position()
        page.axes.set_position((box.x0, box.y0, box.width, rows / height))
        _panel(page, roof, points, (1 - box.y1) * height)
    canvas.rows_of(page.axes, len(points))
    if roof.ceiling is not None:
        page.axes.axvline(roof.ceiling, color=look.ink, linewidth=1.6, linestyle=(0, (4, 3)))
    for i, (point, name) in enumerate(zip(points, shown, strict=True)):
        _row(page, i, point, name)
    values = [value for p in points for value in (p.before, p.after, p.plain) if value is not None]
    most = max([*values, *([roof.ceiling] if roof.ceiling else [])])
    page.axes.set_xlim(0, 1.06 * most)
    estimated = ", estimated" if view.evidence(campaign) is Evidence.STATIC else ""
    canvas.ticks(page, f"least bytes over time{estimated} (right is better)", rates(most), most=4)
    return page.figure
