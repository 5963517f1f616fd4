"""What the profile comment and profile.md show of a profile: tables and sentences, escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.model.campaign import Campaign, Profile
from bot.model.profiling import Timeline
from bot.render import labels, mind, numbers, self_tuned
from bot.render import profile_rows as rows
from bot.render.escape import SENTENCE_LIMIT, Trusted, code, text
from bot.render.profile_rows import Row
from bot.render.tables import grid, left_out

TARGET = 90
"""Percent; analysis/roofline.py stops there."""
SOURCE = 400
"""Characters of a citation."""
FEW_CASES = 2
FEW_KERNELS = 3
SHORT = ("Case", "FLOP/byte", "Bound by", "Roof", "Time", "Of the roof")
SHORT_CHIPS = ("Chip", "Kernel", "Registers", "Spills", "Shared memory", "Widest load")


def _grid(head: Sequence[str], body: Sequence[Row], most: int, what: str) -> Trusted:
    if not body:
        return Trusted("")
    return Trusted(
        grid(list(head), [list(row) for row in body[:most]]) + left_out(min(most, len(body)), len(body), what)
    )


def _without(columns: Sequence[int], body: Sequence[Row]) -> list[Row]:
    return [[cell for i, cell in enumerate(row) if i not in columns] for row in body]


def _slowest(timelines: Sequence[Timeline], most: int) -> list[Timeline]:
    """The longest passes, in the suite's order."""
    kept = sorted(timelines, key=lambda one: -one.wall_us)[:most]
    return [one for one in timelines if one in kept]


def where_time_goes(profile: Profile, *, cases: int, kernels: int) -> Trusted:
    names = labels.case_names(profile.suite)
    found = rows.busiest(_slowest(profile.timelines, cases), names, kernels)
    return _grid(rows.KERNELS, found, len(found), "row")


def clue(found: Any) -> Trusted:
    evidence, inference, action, sure = rows.told(found)
    return Trusted(f"{text(evidence)} → {text(inference)} → {text(action)} _({sure})_")


def strategy(name: str, at_most: float | None) -> Trusted:
    limit = f" (at most {numbers.ratio(at_most)}, estimated)" if at_most else ""
    return Trusted(f"{code(name)}{limit}")


def _dispatch(profile: Profile) -> Trusted:
    return Trusted(text(rows.dispatch(profile)))


def _basis(profile: Profile) -> str:
    """What the diagnosis rests on, in words."""
    if profile.diagnosis.confidence == "measured":
        return f"by the GPU's own counters, certainty {profile.diagnosis.certainty}"
    if profile.counters is not None and profile.counters.status not in ("read", "not_asked"):
        return f"heuristic: {rows.status(profile)}"
    return "heuristic: read from the code and the compiled kernels, not from a profiler"


def _roofs(head: Sequence[str], body: Sequence[Row], profile: Profile, most: int) -> Trusted:
    """The table, and below it each ceiling with its source."""
    if not body:
        return Trusted("")
    said = [code(line, SOURCE) for line in (*rows.ceilings(profile), rows.ridge(profile))]
    lines = "\n".join(f"- {line}" for line in (*said, f"stop target: {TARGET} % of the roof"))
    return Trusted(f"{_grid(head, body, most, 'case')}\n\n{lines}")


def _plan(profile: Profile, most: int) -> Trusted:
    """What fits, in order, and below it what does not."""
    below = (text(self_tuned.said(profile), SENTENCE_LIMIT), text(rows.unfit(profile), SOURCE))
    parts = (_grid(rows.PLAN, rows.plan(profile), most, "idea"), *below)
    return Trusted("\n\n".join(part for part in parts if part))


def _cells(profile: Profile) -> list[Row]:
    """The roofline on a phone: bytes and work are in the record."""
    return _without((1, 2), rows.rooflines(profile))


def of_comment(campaign: Campaign, profile: Profile, visible: int, folded: int) -> dict[str, Any]:
    chips = _without((1,), rows.passports(profile.baseline.passports))
    broken = [stamp for stamp in profile.baseline.passports if not stamp.ok]
    planned = {one.name: one.at_most for one in profile.diagnosis.plan}
    names, clues = labels.case_names(profile.suite), rows.clues(profile)
    head = list(SHORT)
    head[4], head[5] = rows.head(head[4], profile), rows.head(head[5], profile)
    return {
        "basis": _basis(profile),
        "tier": rows.tier(profile) if profile.diagnosis.tier else "",
        "clues": [clue(one) for one in clues[:visible]],
        "clues_left": max(0, len(clues) - visible),
        "strategies": [strategy(name, planned.get(name)) for name in profile.diagnosis.strategies[:visible][:3]],
        "errors": rows.errors(profile),
        "dispatch": _dispatch(profile),
        "minds": [text(said, SENTENCE_LIMIT) for said in mind.of_profile(profile)],
        "time": where_time_goes(profile, cases=FEW_CASES, kernels=FEW_KERNELS),
        "all_time": where_time_goes(profile, cases=folded, kernels=FEW_KERNELS),
        "roofs": _roofs(head, _cells(profile), profile, folded),
        "plan": _plan(profile, folded),
        "chips": _grid(SHORT_CHIPS, chips, folded, "kernel"),
        "broken": [labels.arch(stamp.arch) for stamp in broken],
        "counters": _grid(rows.COUNTED, rows.counted(profile.counters, names), folded, "counter"),
        "counters_status": rows.status(profile) if profile.counters is not None else "",
    }


def _signals(profile: Profile) -> Trusted:
    body = [[*rows.told(one)[:3], rows.told(one)[3]] for one in rows.clues(profile)]
    return _grid(("Signal", "Inference", "Action", "Confidence"), body, len(body), "clue")


def of_record(campaign: Campaign, profile: Profile) -> dict[str, Any]:
    """Files leave nothing out."""
    every = 10_000
    names = labels.case_names(profile.suite)
    head = list(rows.ROOFLINE)
    head[6], head[7] = rows.head(head[6], profile), rows.head(head[7], profile)
    return {
        "tier": rows.tier(profile),
        "dispatch": _dispatch(profile),
        "observations": rows.observations(profile),
        "basis": _basis(profile),
        "signals": _signals(profile),
        "roofs": _roofs(head, rows.rooflines(profile), profile, every),
        "errors": rows.errors(profile),
        "minds": [text(said, SENTENCE_LIMIT) for said in mind.of_profile(profile)],
        "plan": _plan(profile, every),
        "time": where_time_goes(profile, cases=every, kernels=every),
        "counters_status": rows.status(profile),
        "counters": _grid(rows.COUNTED, rows.counted(profile.counters, names), every, "counter"),
        "moves": _grid(rows.MOVES, rows.moves(profile), every, "kernel"),
        "chips": _grid(rows.PASSPORTS, rows.passports(profile.baseline.passports), every, "kernel"),
        "came_of": _grid(rows.CAME, rows.came_of(campaign), every, "round"),
    }
