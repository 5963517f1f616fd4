"""One variant against v0, case by case: how much faster, how sure that is, and what is only noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.model.campaign import Campaign, Round
from bot.model.ids import VariantNumber
from bot.model.measurement import Evidence
from bot.model.verdict import CaseScore, Score
from bot.render import gains, labels, numbers, view
from bot.render import plot_canvas as canvas
from bot.render.plot_canvas import FONT, MARGIN, MOST_ROWS, SMALL, Look, Sheet
from bot.render.plot_data import Figures, Spread

MOST_SHAPES = 6
"""More are left to the table of cases."""
ROW = 0.5
BAR = 0.46
GAP = 7
"""Points between a bar and its figure."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case as it is drawn."""

    name: str
    case: CaseScore
    low: float
    high: float
    said: str
    """faster, slower, or same: within the noise, or an interval that holds 1."""


def scored(campaign: Campaign) -> list[tuple[Round, Score]]:
    """The best ones when there are too many for a page, in the order they were tried."""
    found = [(played, played.verdict.score) for played in campaign.rounds if played.verdict and played.verdict.score]
    kept = sorted(found, key=lambda pair: pair[1].value, reverse=True)[: MOST_ROWS - 1]
    return sorted(kept, key=lambda pair: pair[0].variant.number)


def subject(campaign: Campaign) -> tuple[Round, Score]:
    """The winner or the best so far; where nothing was accepted, the one that came nearest."""
    found = [(played, score) for played, score in scored(campaign) if score.cases]
    assert found, "no variant has cases to draw"
    return max(found, key=lambda pair: (pair[0].variant.number == view.best(campaign), pair[1].value))


def state_of(case: CaseScore, spread: Spread) -> str:
    low, high = spread.cases.get(case.case, (case.speedup, case.speedup))
    noise = (spread.noise_percent or 0.0) / 100
    if low <= 1 <= high or abs(case.speedup - 1) <= noise:
        return "same"
    return "faster" if case.speedup > 1 else "slower"


def _rows(score: Score, spread: Spread, names: dict[str, str]) -> list[Row]:
    """The worst cases when there are too many, in the suite's order."""
    worst = sorted(score.cases, key=lambda case: case.speedup)[:MOST_ROWS]
    found = []
    for case in (case for case in score.cases if case in worst):
        low, high = spread.cases.get(case.case, (case.speedup, case.speedup))
        name = canvas.words(names.get(case.case, case.case))
        found.append(Row(name, case, low, high, state_of(case, spread)))
    return found


def counted(score: Score, spread: Spread) -> str:
    """`8 of 9 cases faster, 1 slower`."""
    states = [state_of(case, spread) for case in score.cases]
    slower = f", {states.count('slower')} slower" if "slower" in states else ""
    return f"{states.count('faster')} of {numbers.many(len(states), 'case')} faster{slower}"


def _notes(campaign: Campaign, number: VariantNumber, score: Score, spread: Spread, rows: list[Row]) -> str:
    marks = {"slower": "hatched is slower", "same": "hollow is within the noise"}
    shown = [words for state, words in marks.items() if any(row.said == state for row in rows)]
    notes = [canvas.origin(score.evidence, campaign)]
    told = gains.explained(campaign, number)
    if told and len(gains.shapes(campaign, number)) <= MOST_SHAPES:
        notes.append(f"{told}.")
    if spread.cases:
        notes.append("Whiskers: 95 % interval.")
    if spread.noise_percent is not None:
        notes.append(f"Grey band: noise floor, ±{numbers.percent(spread.noise_percent)}.")
    if shown:
        notes.append(f"{', '.join(shown).capitalize()}.")
    if len(rows) < len(score.cases):
        notes.append(f"The {len(rows)} slowest of {len(score.cases)} cases.")
    return " ".join(notes)


def _bar(page: Sheet, i: int, row: Row) -> None:
    look = page.look
    style: dict[str, Any] = {
        "faster": {"facecolor": look.best, "edgecolor": look.best},
        "slower": {"facecolor": look.page, "edgecolor": look.refused, "hatch": "////"},
        "same": {"facecolor": look.page, "edgecolor": look.refused},
    }[row.said]
    page.axes.barh(i, row.case.speedup - 1, left=1, height=BAR, linewidth=1.2, **style)
    if row.low < row.high:
        page.axes.errorbar(
            row.case.speedup, i, xerr=[[row.case.speedup - row.low], [row.high - row.case.speedup]],
            color=look.ink, linewidth=1.4, capsize=4, capthick=1.4,
        )  # fmt: skip
    page.write(
        (max(row.case.speedup, row.high, 1), i), numbers.ratio(row.case.speedup), move=(GAP, 0), bbox=page.paper()
    )


def _name(page: Sheet, i: int, row: Row) -> None:
    """The case, and under it both times."""
    times = f"{numbers.duration(row.case.before_us)} → {numbers.duration(row.case.after_us)}"
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "right"}
    page.write((0, i), row.name, move=(-8, 8), **place)
    page.write((0, i), times, move=(-8, -8), size=SMALL, ink=page.look.quiet, **place)


def _limits(rows: list[Row], noise: float) -> tuple[float, float]:
    values = [1.0, 1 - noise, 1 + noise, *(value for row in rows for value in (row.low, row.high))]
    room = max(values) - min(values) or 1.0
    return min(values) - 0.06 * room, max(values) + 0.34 * room


def figure(campaign: Campaign, known: Figures, look: Look) -> Any:
    played, score = subject(campaign)
    number = played.variant.number
    spread = known.spread(number)
    rows = _rows(score, spread, labels.case_names(campaign.profile.suite if campaign.profile else None))
    finding = f"{canvas.words(view.kernel(campaign), 64)}: {title(campaign, known)}"
    wide = max(canvas.width_of(words, size) for row in rows for words, size in ((row.name, FONT), ("9.99 us", SMALL)))
    left = MARGIN + 0.15 + max(wide, canvas.width_of("99.9 us → 99.9 us", SMALL))
    notes = _notes(campaign, number, score, spread, rows)
    page = canvas.sheet(finding, notes, look, rows=ROW * len(rows), left=left)
    canvas.rows_of(page.axes, len(rows))
    noise = (spread.noise_percent or 0.0) / 100
    if noise:
        page.axes.axvspan(1 - noise, 1 + noise, color=look.faint, zorder=0.4)
    page.axes.axvline(1, color=look.before, linewidth=1.6, zorder=0.6)
    for i, row in enumerate(rows):
        _bar(page, i, row)
        _name(page, i, row)
    page.axes.set_xlim(*_limits(rows, noise))
    estimated = ", estimated" if score.evidence is Evidence.STATIC else ""
    canvas.ticks(page, f"speed-up over v0{estimated} (right is better)", canvas.times, most=4)
    return page.figure


def headline(campaign: Campaign) -> str:
    """What is said of the variant that is drawn; of a campaign without one, that nothing was scored."""
    if not any(score.cases for _, score in scored(campaign)):
        return "no variant was scored"
    played, _ = subject(campaign)
    return canvas.said_of(campaign, played.variant.number) + ("" if view.is_accepted(played) else " (not accepted)")


def title(campaign: Campaign, known: Figures) -> str:
    played, score = subject(campaign)
    return f"{headline(campaign)}, {counted(score, known.spread(played.variant.number))}"
