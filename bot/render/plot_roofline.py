"""How near each case comes to what the memory can do, before and after: bytes it has to move over the time it took."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign
from bot.model.measurement import Evidence
from bot.render import labels, numbers, view
from bot.render import plot_canvas as canvas
from bot.render.plot_canvas import FONT, MARGIN, MOST_ROWS, Look, Sheet
from bot.render.plot_data import Figures, Roof, RoofPoint

ROW = 0.4
DOT = 62
"""Square points."""


def rate(gb_s: float) -> str:
    if gb_s >= 1000:
        return f"{gb_s / 1000:.3g} TB/s"
    return f"{gb_s:.3g} GB/s"


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
        notes.append(f"Dashed: datasheet of the {canvas.words(roof.gpu, 40)}, {rate(roof.ceiling)}.")
    if any(point.copy for point in points):
        notes.append("Green bars: a plain copy of the same bytes, measured on this GPU.")
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
    if point.copy is not None:
        page.axes.plot([point.copy] * 2, [i - 0.36, i + 0.36], color=look.roof, linewidth=3.2, solid_capstyle="butt")
    for value, face, edge in ((point.before, look.page, look.before), (point.after, look.best, look.best)):
        if value is not None:
            page.axes.scatter([value], [i], s=DOT, facecolor=face, edgecolor=edge, linewidth=1.8, zorder=3)


def figure(campaign: Campaign, known: Figures, look: Look) -> Any:
    roof = known.roof
    points = _shown(roof) if roof is not None else ()
    assert roof is not None and points, "no case has a time and bytes to draw"
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    shown = [canvas.words(names.get(point.case, point.case)) for point in points]
    left = MARGIN + 0.15 + max(canvas.width_of(name, FONT) for name in shown)
    finding = f"{canvas.words(view.kernel(campaign), 64)}: {title(campaign)}"
    page = canvas.sheet(finding, _notes(campaign, roof, points), look, rows=ROW * len(points), left=left, right=0.3)
    canvas.rows_of(page.axes, len(points))
    if roof.ceiling is not None:
        page.axes.axvline(roof.ceiling, color=look.ink, linewidth=1.6, linestyle=(0, (4, 3)))
    for i, (point, name) in enumerate(zip(points, shown, strict=True)):
        _row(page, i, point, name)
    values = [value for p in points for value in (p.before, p.after, p.copy) if value is not None]
    page.axes.set_xlim(0, 1.06 * max([*values, *([roof.ceiling] if roof.ceiling else [])]))
    estimated = ", estimated" if view.evidence(campaign) is Evidence.STATIC else ""
    canvas.ticks(page, f"least bytes over time{estimated} (right is better)", rate, most=4)
    return page.figure
