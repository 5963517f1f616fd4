"""A profile for the terminal, and as JSON for programs: the same analysis that a profile comment shows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from bot.model.campaign import Profile
from bot.model.measurement import Evidence
from bot.model.rivals import Rivalry
from bot.render import labels, mind, numbers, rival_rows, self_tuned
from bot.render import profile_rows as rows
from bot.render.escape import plain
from bot.render.profile_rows import Row
from bot.render.terminal import Paint, no_paint

SCHEMA = 1
WIDEST = 60
MOST_KERNELS = 4
SAID = 2000
"""Characters of a sentence below the plan: one names every idea that does not fit."""


def columns(head: Sequence[str], lines: Iterable[Row], paint: Paint = no_paint) -> list[str]:
    """Cells under each other, two blanks between them."""
    cells = [[plain(str(cell), WIDEST) for cell in line] for line in (head, *lines)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    shown = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return [paint("dim", shown[0].rstrip()), *(line.rstrip() for line in shown[1:])]


def origin(profile: Profile) -> str:
    runner = profile.baseline.runner
    if runner.evidence is Evidence.STATIC:
        return f"estimated for {labels.arch(runner.arch)}: compiled and modelled, no GPU timed anything (heuristic)"
    return f"measured on {plain(runner.gpu_name)}, driver {plain(runner.driver)}"


def _wrapped(words: str, width: int, first: str, then: str) -> list[str]:
    return textwrap.wrap(words, width, initial_indent=first, subsequent_indent=then)


def _section(title: str, lines: Sequence[str], paint: Paint) -> list[str]:
    return ["", paint("bold", title), *lines] if lines else []


def roofline_text(profile: Profile, width: int = 100, paint: Paint = no_paint) -> str:
    """Bytes, work, intensity, ridge, bound, share of the roof and the target."""
    diagnosis = profile.diagnosis
    lines = [paint("bold", f"{profile.site.kernel}: {origin(profile)}")]
    lines += _section("Roofline", columns(rows.ROOFLINE, rows.rooflines(profile), paint), paint)
    notes = [*rows.ceilings(profile), rows.ridge(profile), "stop target: 90 % of the roof"]
    for note in notes:
        lines += _wrapped(plain(note, 400), width, "  ", "    ")
    if diagnosis.roof_percent is not None:
        lines.append(
            f"  all cases: {rows.head(numbers.percent(diagnosis.roof_percent), profile)} of the roof (geomean)"
        )
    for error in rows.errors(profile):
        lines += [paint("bad", line) for line in _wrapped(plain(error, 400), width, "  error: ", "    ")]
    return "\n".join(lines)


def _clues(profile: Profile, width: int) -> list[str]:
    found = []
    for clue in rows.clues(profile):
        evidence, inference, action, sure = rows.told(clue)
        found += _wrapped(f"{plain(evidence, 300)} -> {inference} -> {action} ({sure})", width, "  - ", "    ")
    return found


def profile_text(profile: Profile, width: int = 100, paint: Paint = no_paint, rivals: Rivalry | None = None) -> str:
    diagnosis, names = profile.diagnosis, labels.case_names(profile.suite)
    cause = labels.BOTTLENECKS[diagnosis.bottleneck]
    lines = [roofline_text(profile, width, paint)]
    sure = f"{diagnosis.confidence}, certainty {diagnosis.certainty}"
    said = [f"held back by {cause} ({sure}); tier {rows.tier(profile)}", plain(diagnosis.sentence, 400)]
    said += [plain(other)] if (other := rows.dispatch(profile)) else []
    said += [f"mind: {one}" for one in mind.of_profile(profile)]
    lines += _section("Diagnosis", [part for words in said for part in _wrapped(words, width, "  ", "    ")], paint)
    lines += _section("Why: evidence -> inference -> action (confidence)", _clues(profile, width), paint)
    kernels = rows.busiest(profile.timelines, names, MOST_KERNELS)
    lines += _section("Where the time goes", columns(rows.KERNELS, kernels, paint) if kernels else [], paint)
    counted = rows.counted(profile.counters, names)
    heard = [f"  {plain(rows.status(profile), 400)}"]
    lines += _section("Nsight Compute", heard + (columns(rows.COUNTED, counted, paint) if counted else []), paint)
    moves = rows.moves(profile)
    lines += _section("Bytes, counted and read", columns(rows.MOVES, moves, paint) if moves else [], paint)
    lines += _section("Rivals", rival_rows.profile_lines(rivals, names, width), paint)
    plan, below = rows.plan(profile), [line for line in (self_tuned.said(profile), rows.unfit(profile)) if line]
    tries = columns(rows.PLAN, plan, paint) if plan else []
    tries += [part for line in below for part in _wrapped(plain(line, SAID), width, "  ", "  ")]
    lines += _section("What to try, in this order", tries, paint)
    stamps = rows.passports(profile.baseline.passports)
    lines += _section("Compiled for", columns(rows.PASSPORTS, stamps, paint) if stamps else [], paint)
    return "\n".join(lines)


def roofline_json(profile: Profile) -> dict[str, Any]:
    """What is not known is null; a share that cannot be is null with a reason code."""
    runner, diagnosis = profile.baseline.runner, profile.diagnosis
    us = {case.case: case.timing.median_us if case.timing else None for case in profile.baseline.cases}
    return {
        "schema_version": SCHEMA,
        "kernel": profile.site.kernel,
        "evidence": str(runner.evidence),
        "arch": runner.arch,
        "gpu": runner.gpu_name or None,
        "target_percent": 90,
        "roof_percent": diagnosis.roof_percent,
        "cases": [roof.model_dump(mode="json") | {"us": us.get(roof.case)} for roof in diagnosis.roofs],
        "hardware": [number.says() for number in profile.hardware],
    }


def profile_json(profile: Profile, rivals: Rivalry | None = None) -> dict[str, Any]:
    diagnosis = profile.diagnosis.model_dump(mode="json", exclude={"roofs", "roof_percent", "strategies"})
    return roofline_json(profile) | {
        "diagnosis": diagnosis,
        "mind": list(mind.of_profile(profile)),
        "counters": profile.counters.model_dump(mode="json") if profile.counters else None,
        "dispatch": [one.model_dump(mode="json") for one in profile.dispatch],
        "timelines": [one.model_dump(mode="json") for one in profile.timelines],
        "traffic": [one.model_dump(mode="json") for one in profile.traffic],
        "rivals": rival_rows.as_json(rivals),
        "passports": [one.model_dump(mode="json") for one in profile.baseline.passports],
        "launches": [
            {"case": case.case, "launches": [launch.model_dump(mode="json") for launch in case.launches]}
            for case in profile.baseline.cases
        ],
    }
