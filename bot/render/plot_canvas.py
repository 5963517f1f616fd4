"""The paper pictures are drawn on: colours, sizes, words, and PNG bytes that are the same on every machine.

A page is laid out by hand, in inches from the top: matplotlib's own layout draws everything twice.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from bot.model.campaign import Campaign
from bot.model.measurement import Evidence
from bot.render import labels, numbers, view
from bot.render.escape import plain

DPI = 200
WIDTH = 5.4
"""Inches: 1080 pixels, which a phone shows at a third of their size."""
FONT = 12.5
SMALL = 11.0
"""Points. On a page 375 pixels wide the small one stands 10.6 pixels tall."""
MARGIN = 0.1
HEAD_LINE = 0.235
NOTE_LINE = 0.205
RIGHT = 0.22
FOOT = 0.56
"""Room below the rows for the axis and what it counts."""
HEAD_CHARS = 50
NOTE_CHARS = 61
NAME = 26
"""Characters of a row's name; more would leave no room for the bars."""
MOST_ROWS = 16
COLOURS = 64
UNITS = "%|us|ms|s|GB/s|TB/s|[GT]FLOP/s|of|over|cases?|slower|faster"
NO_BREAK = "\u00a0"


@dataclass(frozen=True, slots=True)
class Look:
    """Colours of Okabe and Ito, told apart by colour-blind readers too; shape and words repeat what colour says."""

    page: str
    ink: str
    quiet: str
    """For words that matter less."""
    faint: str
    """Lines of the grid, the noise."""
    before: str
    best: str
    accepted: str
    refused: str
    roof: str


LIGHT = Look("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#6e7781", "#d55e00", "#0072b2", "#848d97", "#008060")
DARK = Look("#0d1117", "#e6edf3", "#9198a1", "#30363d", "#9198a1", "#e69f00", "#56b4e9", "#6e7681", "#2fbf95")


def look_of(dark: bool) -> Look:
    return DARK if dark else LIGHT


def words(text: str, most: int = NAME) -> str:
    """The font's own characters only. Who wrote them is unknown, so they are never read as mathematics."""
    return "".join(char if char.isascii() else "?" for char in plain(text, most).replace("…", "..."))


def origin(evidence: Evidence, campaign: Campaign) -> str:
    """Where the numbers of a picture come from."""
    runner = view.runner(campaign)
    if evidence is Evidence.STATIC:
        return f"Estimated (STATIC) for {words(labels.arch(runner.arch)) if runner else 'the GPU'}, not timed."
    return f"Measured on {words(runner.gpu_name, 40) if runner else 'a GPU'}."


def wrapped(said: str, most: int, *, even: bool = False) -> list[str]:
    """Lines of at most so many characters; a number is never torn from its unit, nor one word left alone if `even`."""
    bound = re.sub(rf"(?<=[\dx]) (?=(?:{UNITS})\b|%)", NO_BREAK, said)
    lines = textwrap.wrap(bound, most, break_on_hyphens=False)
    if even and len(lines) > 1:
        width = next(n for n in range(most // 2, most + 1) if len(textwrap.wrap(bound, n)) == len(lines))
        lines = textwrap.wrap(bound, width, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page with one axis on it. Rows are numbered from the top."""

    figure: Any
    axes: Any
    look: Look

    def write(self, at: tuple[float, float], said: str, *, size: float = FONT, ink: str = "", **style: Any) -> Any:
        """Words beside a point of the axis, moved by `move` points."""
        move = style.pop("move", (0, 0))
        return self.axes.annotate(
            said, at, move, textcoords="offset points", fontsize=size, color=ink or self.look.ink,
            parse_math=False, **({"va": "center", "annotation_clip": False} | style),
        )  # fmt: skip

    def paper(self) -> dict[str, Any]:
        """Behind words that stand on lines."""
        return {"facecolor": self.look.page, "edgecolor": "none", "pad": 1.5}


def _figure(height: float, look: Look) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, round(height * DPI) / DPI), dpi=DPI, facecolor=look.page)
    FigureCanvasAgg(figure)
    return figure


def width_of(said: str, size: float = FONT) -> float:
    """Inches."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    width, _, _ = RendererAgg(1, 1, 72).get_text_width_height_descent(said, FontProperties(size=size), False)
    return float(width) / 72


def _head(figure: Any, height: float, finding: list[str], notes: list[str], look: Look) -> float:
    """The finding, then where it comes from; returns how far down they reach."""
    at = MARGIN
    for lines, size, step, ink, weight in (
        (finding, FONT, HEAD_LINE, look.ink, "bold"),
        (notes, SMALL, NOTE_LINE, look.quiet, "normal"),
    ):
        for line in lines:
            figure.text(
                MARGIN / WIDTH, 1 - at / height, line,
                fontsize=size, color=ink, weight=weight, va="top", parse_math=False,
            )  # fmt: skip
            at += step
    return at + MARGIN


def sheet(
    finding: str, notes: str, look: Look, *, rows: float, left: float = MARGIN, right: float = RIGHT,
    foot: float = FOOT,
) -> Sheet:  # fmt: skip
    """A page whose title says what was found. `rows` is the height of the axis in inches."""
    said, told = wrapped(finding, HEAD_CHARS, even=True), wrapped(notes, NOTE_CHARS)
    top = 2 * MARGIN + HEAD_LINE * len(said) + NOTE_LINE * len(told)
    height = top + rows + foot
    figure = _figure(height, look)
    _head(figure, height, said, told, look)
    axes = figure.add_axes(
        (left / WIDTH, foot / height, (WIDTH - left - right) / WIDTH, rows / height), facecolor=look.page
    )
    axes.tick_params(colors=look.ink, labelsize=SMALL, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.spines["bottom"].set(visible=foot > MARGIN, color=look.faint)
    axes.set_axisbelow(True)
    return Sheet(figure, axes, look)


def rows_of(axes: Any, count: int) -> None:
    axes.set_yticks([])
    axes.set_ylim(count - 0.5, -0.5)


def ticks(sheet: Sheet, label: str, show: Callable[[float], str], *, most: int = 5) -> None:
    """Round numbers, each with its unit, and below them what they count."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = sheet.axes.xaxis
    axis.grid(True, color=sheet.look.faint, linewidth=0.8)
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    sheet.figure.text(
        1 - MARGIN / WIDTH, 0.08 / sheet.figure.get_size_inches()[1], label,
        fontsize=SMALL, color=sheet.look.quiet, ha="right", va="bottom", parse_math=False,
    )  # fmt: skip


def times(value: float) -> str:
    return f"{value:g}x"


def png(figure: Any) -> bytes:
    """A palette of 64 colours is a quarter of the bytes and looks the same; rare colours keep their place in it."""
    from PIL import Image

    figure.canvas.draw()
    size = figure.canvas.get_width_height()
    drawn = Image.frombytes("RGBA", size, bytes(figure.canvas.buffer_rgba())).convert("RGB")
    buffer = BytesIO()
    few = drawn.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(buffer, format="PNG", compress_level=6, dpi=(DPI, DPI))
    return buffer.getvalue()


def said_of(campaign: Campaign, number: int) -> str:
    """`v3 is 1.42x over v0`, or what else can be said of it."""
    score = view.score_of(campaign, number)
    if score is None:
        return f"v{number} was not scored"
    if number and numbers.score(score).startswith("no significant change"):
        return f"v{number} shows no significant change"
    return f"v{number} is {numbers.labelled(numbers.ratio(numbers.speed(score)), score.evidence)} over v0"
