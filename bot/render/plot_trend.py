"""How fast each kernel was, night after night: one small panel a kernel and GPU, each against its own first night."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from bot.model.measurement import Evidence
from bot.render import numbers
from bot.render import plot_canvas as canvas
from bot.render.plot_canvas import MARGIN, SMALL, WIDTH, Look, Sheet
from bot.render.plot_data import PastResult

PANEL = 0.78
MOST_PANELS = 12
QUIET = 1.0
"""Percent; where no noise floor is known, less than this is no change."""
RIGHT = 1.62
"""Inches kept for the latest value."""

Panel = tuple[PastResult, ...]
"""One kernel on one GPU under one kind of evidence, oldest first."""


def panels(results: Sequence[PastResult]) -> tuple[Panel, ...]:
    """Those that changed most come first."""
    found: dict[tuple[str, str, Evidence], list[PastResult]] = {}
    for result in sorted(results, key=lambda one: one.day):
        found.setdefault((result.kernel, result.gpu, result.evidence), []).append(result)
    return tuple(sorted(map(tuple, found.values()), key=lambda panel: (-abs(change(panel)), panel[0].kernel)))


def change(panel: Panel) -> float:
    """Percent of the first night's time; below zero is faster."""
    return 100 * (panel[-1].us / panel[0].us - 1)


def floor_of(panel: Panel) -> float:
    return max([QUIET, *(one.noise_percent for one in (panel[0], panel[-1]) if one.noise_percent is not None)])


def said(panel: Panel) -> str:
    if len(panel) < 2:
        return "first night"
    found = change(panel)
    if abs(found) <= floor_of(panel):
        return "no change"
    return f"{numbers.percent(abs(found))} {'less' if found < 0 else 'more'} time"


def title(results: Sequence[PastResult]) -> str:
    found = [panel for panel in panels(results) if len(panel) > 1]
    nights = numbers.many(len({result.day for result in results}), "night")
    faster = sum(change(panel) < -floor_of(panel) for panel in found)
    slower = sum(change(panel) > floor_of(panel) for panel in found)
    parts = [f"{faster} faster"] * bool(faster) + [f"{slower} slower"] * bool(slower)
    return f"{nights}, {numbers.many(len(panels(results)), 'kernel')}: {' and '.join(parts) or 'no change'}"


def _notes(shown: Sequence[Panel], total: int) -> str:
    kinds = {panel[0].evidence for panel in shown}
    gpus = sorted({panel[0].gpu for panel in shown})
    measured = f"Measured on {canvas.words(', '.join(gpus), 60)}." if Evidence.MEASURED in kinds else ""
    estimated = "Estimated (STATIC) where it says so." if Evidence.STATIC in kinds else ""
    only = "Estimated (STATIC), not timed." if kinds == {Evidence.STATIC} else ""
    notes = [only or " ".join(part for part in (measured, estimated) if part)]
    notes.append("Geometric mean of the suite; down is faster. Bands: 95 % interval.")
    if len(shown) < total:
        notes.append(f"The {len(shown)} of {total} that changed most.")
    return " ".join(notes)


def _day(shown: str) -> int:
    return date.fromisoformat(shown).toordinal()


def _panel(page: Sheet, axes: Any, panel: Panel, look: Look) -> None:
    days, values = [_day(one.day) for one in panel], [one.us for one in panel]
    worse, better = change(panel) > floor_of(panel), change(panel) < -floor_of(panel)
    colour = look.best if worse else look.accepted if better else look.before
    spans = [(one.low_us, one.high_us) for one in panel]
    if len(panel) > 1 and all(low is not None and high is not None for low, high in spans):
        axes.fill_between(days, [low for low, _ in spans], [high for _, high in spans], color=look.faint, linewidth=0)
    axes.plot(days, values, color=colour, linewidth=2, marker="o", markersize=3.5)
    axes.plot(days[-1:], values[-1:], color=colour, marker="v" if better else "^" if worse else "o", markersize=8)
    low, high = min(values), max(values)
    room = max(high - low, 0.04 * high)
    axes.set_ylim(low - 0.35 * room, high + 0.9 * room)
    for one, day in zip(panel, days, strict=True):
        if one.mark:
            axes.axvline(day, color=look.quiet, linewidth=1, linestyle=(0, (2, 2)))
            axes.annotate(
                canvas.words(one.mark, 18), (day, 1), (3, -7), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=SMALL - 0.5, color=look.quiet, parse_math=False,
            )  # fmt: skip


def _side(axes: Any, panel: Panel, look: Look) -> None:
    """The latest value and what became of it, to the right of the line."""
    latest = numbers.labelled(numbers.duration(panel[-1].us), panel[-1].evidence).replace(" (estimated)", " est.")
    style = {"xycoords": "axes fraction", "textcoords": "offset points", "parse_math": False, "va": "center"}
    axes.annotate(latest, (1, 0.5), (10, 8), fontsize=canvas.FONT, color=look.ink, **style)
    axes.annotate(said(panel), (1, 0.5), (10, -8), fontsize=SMALL, color=look.quiet, **style)


def figure(results: Sequence[PastResult], look: Look) -> Any:
    """Results of different GPUs, and measured and estimated ones, never share a line."""
    assert results, "no sweep has left a result to draw"
    every = panels(results)
    shown = every[:MOST_PANELS]
    page = canvas.sheet(
        f"Sweeps: {title(results)}", _notes(shown, len(every)), look, rows=PANEL * len(shown), foot=0.34, right=RIGHT
    )
    box = page.axes.get_position()
    page.axes.set_axis_off()
    days = sorted({_day(one.day) for panel in shown for one in panel})
    several = len({panel[0].gpu for panel in shown}) > 1
    for i, panel in enumerate(shown):
        height = box.height / len(shown)
        axes = page.figure.add_axes((box.x0, box.y1 - (i + 1) * height + 0.1 * height, box.width, 0.66 * height))
        axes.set_facecolor(look.page)
        axes.set_xlim(days[0] - 0.5, max(days[-1], days[0] + 1) + 0.5)
        for name, side in axes.spines.items():
            side.set(visible=name == "bottom", color=look.faint)
        axes.set_yticks([])
        axes.set_xticks([])
        _panel(page, axes, panel, look)
        _side(axes, panel, look)
        name = canvas.words(panel[0].kernel, 40) + (f", {canvas.words(panel[0].gpu, 24)}" if several else "")
        axes.annotate(name, (0, 1), (0, 9), xycoords="axes fraction", textcoords="offset points",
                      fontsize=SMALL, color=look.ink, weight="bold", va="center", parse_math=False)  # fmt: skip
    bottom = page.figure.get_size_inches()[1]
    for day, place, side in ((days[0], MARGIN, "left"), (days[-1], WIDTH - RIGHT, "right")):
        if side == "left" or days[-1] > days[0]:
            page.figure.text(
                place / WIDTH, 0.13 / bottom, date.fromordinal(day).isoformat(),
                fontsize=SMALL, color=look.quiet, ha=side, va="bottom",
            )  # fmt: skip
    return page.figure
