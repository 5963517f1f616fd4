"""Which idea led where: v0 on top, every variant below it, a line from each to the one it grew from."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Round
from bot.model.ids import VariantNumber
from bot.model.verdict import Decision
from bot.render import numbers, view
from bot.render import plot_canvas as canvas
from bot.render.bars import SHORT
from bot.render.plot_canvas import MARGIN, MOST_ROWS, SMALL, WIDTH, Look, Sheet
from bot.render.plot_data import Figures

ROW = 0.52
KEPT, LEFT = 0.0, 1.0
"""Lanes: of what was accepted, and of what was not."""
LANES = 2.0
TITLE_CHARS = 50
"""Characters of a title that fit beside the lanes."""


def shown(campaign: Campaign) -> tuple[Round, ...]:
    """All of it, or what was accepted and the latest of the rest."""
    rounds = campaign.rounds
    if len(rounds) < MOST_ROWS:
        return rounds
    kept = [played for played in rounds if view.is_accepted(played)][-(MOST_ROWS - 1) :]
    rest = [played for played in rounds if played not in kept]
    more = rest[len(rest) - (MOST_ROWS - 1 - len(kept)) :]
    return tuple(played for played in rounds if played in kept or played in more)


def code_of(played: Round) -> str:
    """The rule that decided, by its name in docs/guardrails.md."""
    verdict = played.verdict
    if verdict is None:
        return "not judged yet"
    if verdict.decision is Decision.ACCEPTED:
        return ""
    weights = ("reject",) if verdict.decision is Decision.REJECTED else ("note",)
    found = [finding.guardrail for finding in verdict.findings if finding.severity in weights]
    rule = found[-1] if verdict.decision is Decision.INCONCLUSIVE and found else next(iter(found), "")
    head = "with a note" if verdict.decision is Decision.ACCEPTED_WITH_NOTE else SHORT[verdict.decision]
    return f"{head}: {canvas.words(rule, 30)}" if rule else head


def title(campaign: Campaign) -> str:
    judged = view.judged(campaign)
    kept = sum(view.is_accepted(played) for played in judged)
    told = f"{numbers.many(len(judged), 'idea')}, {kept} kept"
    return f"{told}; {canvas.said_of(campaign, view.best(campaign))}" if view.best(campaign) and kept else told


def _lane(played: Round | None) -> float:
    return KEPT if played is None or view.is_accepted(played) else LEFT


def _edge(page: Sheet, start: tuple[float, float], end: tuple[float, float], colour: str, *, kept: bool) -> None:
    """Straight down a lane; into the other one with a bend at its end."""
    (x0, y0), (x1, y1) = start, end
    style = {"color": colour, "linewidth": 2.6 if kept else 1.5, "zorder": 1, "solid_capstyle": "round"}
    if x0 == x1:
        page.axes.plot([x0, x1], [y0, y1], **style)
        return
    bend = y1 - 0.5
    page.axes.plot([x0, x0, x1, x1], [y0, bend, bend + 0.22, y1], **style)


def _node(page: Sheet, at: tuple[float, float], campaign: Campaign, played: Round | None) -> None:
    look, (x, y) = page.look, at
    number = played.variant.number if played else 0
    if played is None:
        face, edge, mark = look.page, look.before, "o"
    elif not view.is_accepted(played):
        undecided = played.verdict is None or played.verdict.decision is Decision.INCONCLUSIVE
        face, edge, mark = (look.page, look.refused, "o") if undecided else (look.refused, look.refused, "X")
    else:
        best = number == view.best(campaign)
        face = edge = look.best if best else look.accepted
        mark = "D" if best else "o"
    page.axes.scatter([x], [y], s=110 if mark == "X" else 90, marker=mark, facecolor=face, edgecolor=edge,
                      linewidth=1.8, zorder=3)  # fmt: skip


def _words(page: Sheet, y: int, campaign: Campaign, played: Round | None) -> None:
    place: dict[str, Any] = {"xycoords": "data", "ha": "left"}
    look = page.look
    if played is None:
        page.write((LANES, y), "v0  untouched", **place)
        return
    number, score = played.variant.number, view.score_of(campaign, played.variant.number)
    best = view.is_accepted(played) and number == view.best(campaign)
    code = code_of(played)
    figure = numbers.ratio(numbers.speed(score)) if score else ""
    head = "  ".join(part for part in (f"v{number}", figure, "best" if best else "", code) if part)
    idea = canvas.words(played.variant.hypothesis.title, TITLE_CHARS)
    ink = look.ink if view.is_accepted(played) else look.quiet
    page.write((LANES, y), head, move=(0, 8), ink=ink, weight="bold" if best else "normal", **place)
    page.write((LANES, y), idea, move=(0, -8), size=SMALL, ink=look.quiet, **place)


def figure(campaign: Campaign, known: Figures, look: Look) -> Any:
    rounds = shown(campaign)
    assert rounds, "no idea was tried, so there is nothing to draw"
    notes = [canvas.origin(view.evidence(campaign), campaign)]
    notes += ["Grey: left behind, with the rule that said so."] * any(not view.is_accepted(r) for r in rounds)
    if len(rounds) < len(campaign.rounds):
        notes.append(f"{len(rounds)} of {len(campaign.rounds)} ideas.")
    finding = f"{canvas.words(view.kernel(campaign), 64)}: {title(campaign)}"
    page = canvas.sheet(finding, " ".join(notes), look, rows=ROW * (len(rounds) + 1), foot=MARGIN, right=MARGIN)
    canvas.rows_of(page.axes, len(rounds) + 1)
    page.axes.set_xticks([])
    page.axes.set_xlim(-0.6, (WIDTH - 2 * MARGIN) / 0.27 - 0.6)
    places: dict[VariantNumber, tuple[float, float]] = {0: (KEPT, 0)}
    lineage = set(campaign.lineage)
    for y, played in enumerate((None, *rounds)):
        number = played.variant.number if played else 0
        places[number] = at = (_lane(played), float(y))
        if played is not None:
            # A parent that is not shown is told by the nearest one of the lineage that is.
            parent = max((n for n in places if n <= played.variant.parent and n in lineage), default=0)
            kept = view.is_accepted(played)
            start = places.get(played.variant.parent, places[parent])
            _edge(page, start, at, look.accepted if kept else look.refused, kept=kept)
        _node(page, at, campaign, played)
        _words(page, y, campaign, played)
    return page.figure
