"""One campaign as one HTML file that can be mailed: nothing is loaded, nothing runs, everything is in it.

What variants, people and tools wrote is shown as text: jinja escapes all of it, invisible characters are taken out
first, and the page's policy allows its own style and its own pictures alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from shlex import join
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bot.model.campaign import Campaign, Outcome, Round
from bot.model.facts import JournalLine
from bot.model.ids import VariantNumber
from bot.model.rivals import Rivalry
from bot.model.verdict import Decision
from bot.render import bars, from_roof, labels, machines, mind, numbers, plots, report_rows, rival_rows, steps, view
from bot.render.environment import templates_dir
from bot.render.escape import plain, visible, visible_lines
from bot.render.report_rows import Table
from bot.render.terminal import ended, reason_of
from bot.render.view import Differ

MOST_LINES = 1500
"""Lines of one diff; the record holds all of it."""
TITLES = {
    "variants": "Every variant",
    "speedup": "Case by case",
    "roofline": "How near the roof",
    "lineage": "Which idea led where",
}
KINDS = {"+": "add", "-": "del", "@": "hunk"}


@dataclass(frozen=True, slots=True)
class Picture:
    """One plot, light and dark, as data addresses."""

    title: str
    alt: str
    light: str
    dark: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One variant with all that is known of it."""

    name: str
    played: Round
    state: str
    """accepted, rejected or open: how its card is marked."""
    verdict: str
    speed: str
    is_best: bool
    believed: bool
    """Whether its verdict follows from its raw facts, computed again by whoever made this page."""
    diff: list[tuple[str, str]]
    size: str
    cases: Table | None
    findings: Table | None
    facts: Table


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def pictures(campaign: Campaign, drawn: Mapping[str, tuple[bytes, bytes]]) -> list[Picture]:
    """In the order they are read: what was tried, what it brought, what is left, how it came."""
    return [
        Picture(title, plots.alt(name, campaign), *map(_data, drawn[name]))
        for name, title in TITLES.items()
        if name in drawn
    ]


def diff_rows(diff: str) -> list[tuple[str, str]]:
    """Each line of a unified diff with what it is."""
    rows = []
    for line in visible_lines(diff, MOST_LINES):
        kind = "file" if line.startswith(("+++ ", "--- ")) else KINDS.get(line[:1], "same")
        rows.append((kind, line))
    return rows if diff else []


def _state(played: Round) -> str:
    if played.verdict is None or played.verdict.decision is Decision.INCONCLUSIVE:
        return "open"
    return "accepted" if view.is_accepted(played) else "rejected"


def _piece(campaign: Campaign, played: Round, believed: bool, differ: Differ) -> Piece:
    number, verdict = played.variant.number, played.verdict
    diff = differ(view.sources_of(campaign, played.variant.parent), played.variant.files)
    return Piece(
        name=f"v{number}",
        played=played,
        state=_state(played),
        verdict=labels.DECISIONS[verdict.decision] if verdict else "not judged yet",
        speed=numbers.score(verdict.score) if verdict else "not scored",
        is_best=number == view.best(campaign) and view.is_accepted(played),
        believed=believed,
        diff=diff_rows(diff),
        size=view.diff_size(diff),
        cases=report_rows.cases(campaign, number),
        findings=report_rows.findings(campaign, played),
        facts=report_rows.idea(campaign, played),
    )


def headline(campaign: Campaign) -> str:
    """The verdict in one sentence."""
    name, best = view.kernel(campaign), view.best(campaign)
    if not best:
        judged = len(view.judged(campaign))
        nothing = f"none of {numbers.many(judged, 'variant')} is better" if judged else "no variant was judged yet"
        return f"{name}: {nothing}"
    over = view.pinned(campaign) or "v0"
    passed, total = view.right(view.measurement_of(campaign, best))
    faster = numbers.over(view.score_of(campaign, best), over)
    return f"{name}: v{best} is {faster}, correct on {passed} of {total} cases"


def ending(campaign: Campaign) -> str:
    if campaign.outcome is None:
        return f"Not over: {steps.headline(campaign)}."
    return f"{ended(campaign).capitalize()}{reason_of(campaign) if campaign.reason else ''}."


def evidence(campaign: Campaign) -> str:
    runner = view.runner(campaign)
    if runner is None:
        return "Nothing is known of it yet."
    if view.is_static(campaign):
        where = labels.arch(runner.arch)
        return f"Every time and speed-up here is estimated: compiled for {where} and modelled. No GPU timed anything."
    moved = machines.sentence(campaign)
    return f"Measured on {plain(runner.gpu_name or 'a GPU without a name', 80)}.{f' {moved}.' if moved else ''}"


def reproduce(campaign: Campaign) -> list[tuple[str, str]]:
    """What to type, in order, each with what it is for."""
    found: list[tuple[str, str]] = []
    if campaign.pull is not None:
        found.append(("the commit that was measured", f"git checkout {campaign.pull.head_sha}"))
    command, site = campaign.command, campaign.profile.site if campaign.profile else None
    if command is not None:
        words = ["kernelwright", "optimize", command.kernel, "--repo", ".", "--goal", str(command.goal)]
        words += ["--scope", str(command.scope), "--gpu", str(command.gpu), "--max-variants", str(command.max_variants)]
        found.append(("the same campaign", join(words)))
    if site is not None:
        tested = [part.replace("{test}", site.test_file).replace("{python}", "python") for part in site.test_command]
        set_ = [f"{name}={value}" for name, value in site.environment]
        found.append(("the kernel's tests", join([*(["env", *set_] if set_ else []), *tested])))
        found.append(("its benchmark", join(site.benchmark_command)))
    if campaign.pushed:
        found.append(("to undo it", f"git revert {campaign.pushed}"))
    return [(what, plain(typed)) for what, typed in found]


@lru_cache(maxsize=1)
def _style() -> str:
    return (templates_dir() / "report" / "style.css").read_text(encoding="utf-8")


def _said(value: str) -> Markup:
    """Running text; words between single backticks become code. Each part is escaped by itself."""
    parts = re.split(r"(?<!`)`([^`]{1,80})`(?!`)", visible(value))
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    loader = FileSystemLoader(templates_dir() / "report")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else _seen(value),
    )  # fmt: skip
    made.filters["said"] = _said
    return made


def _seen(value: object) -> object:
    """Every word on the page comes through here, whoever wrote it."""
    if value is None or isinstance(value, float | bool | bytes | list | tuple | dict):
        raise TypeError(f"a page printed {value!r}: say it in words")
    return visible(value) if isinstance(value, str) else value


def _values(campaign: Campaign, lines: tuple[JournalLine, ...], differ: Differ) -> dict[str, Any]:
    done, number = campaign.finalization, view.best(campaign)
    final = differ(view.sources_of(campaign, 0), view.committed(campaign)) if number else ""
    return {
        "campaign": campaign,
        "kernel": view.kernel(campaign),
        "headline": headline(campaign),
        "ending": ending(campaign),
        "evidence": evidence(campaign),
        "static": view.is_static(campaign),
        "good": campaign.outcome is Outcome.PUSHED,
        "detail": plain(campaign.detail, 600),
        "notes": (*mind.of_ending(campaign), *view.notes(campaign)),
        "diagnosis": campaign.profile.diagnosis if campaign.profile else None,
        "held_back": steps.held_back(campaign),
        "searched": steps.searched(campaign) if campaign.rounds else "",
        "stopped": labels.STOPPED.get(campaign.stopped, "") if campaign.stopped else "",
        "asked": report_rows.asked(campaign),
        "variants": report_rows.variants(campaign),
        "baseline": report_rows.baseline(campaign),
        "resources": report_rows.resources(campaign),
        "passports": report_rows.passports(campaign),
        "machine": report_rows.machine(campaign),
        "checks": report_rows.checks(done),
        "story": report_rows.story(lines),
        "final": diff_rows(final),
        "final_size": view.diff_size(final),
        "best": number,
        "reproduce": reproduce(campaign),
    }


def _rivals(campaign: Campaign, found: Rivalry | None) -> dict[str, Any]:
    names = view.case_names(campaign)
    return {
        "beaten": plain(rival_rows.beaten(found, names), 900),
        "rivals": report_rows.rivals(campaign, found),
        "rival_notes": rival_rows.notes(found, names, best=True) if found is not None else [],
        "from_roof_head": from_roof.headline(found),
        "from_roof": from_roof.lines(found, names, MOST_LINES),
    }


def page(
    campaign: Campaign,
    lines: tuple[JournalLine, ...],
    drawn: Mapping[str, tuple[bytes, bytes]],
    *,
    doubted: Sequence[VariantNumber] = (),
    sources: Sequence[str] = (),
    differ: Differ = view.diff,
    rivals: Rivalry | None = None,
) -> str:
    """The whole file. `doubted` are variants whose verdict does not follow from their raw facts when computed again;
    `sources` say where the numbers of the hardware were read."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    every = tuple(played.variant.number for played in campaign.rounds)
    return _environment().get_template("report.html.j2").render(
        **_values(campaign, lines, differ),
        style=Markup(style),  # our own file, and no stranger's word is in it
        style_hash=f"sha256-{digest}",
        pictures=pictures(campaign, drawn),
        bars=bars.lines(campaign, (0, *every)) if every else [],
        pieces=[_piece(campaign, played, played.variant.number not in doubted, differ) for played in campaign.rounds],
        doubted=[f"v{number}" for number in doubted],
        sources=list(sources),
        **_rivals(campaign, rivals),
    ) + "\n"  # fmt: skip
