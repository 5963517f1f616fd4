"""A race of ideas or launch numbers in words: who ran, who was ahead, who left."""

from __future__ import annotations

from bot.model.ids import variant_name
from bot.model.race import Numbers, Race, Racer
from bot.render import numbers
from bot.render.escape import Trusted, code, text
from bot.render.tables import grid


def _said(one: Numbers) -> str:
    if one.warps is not None:
        return f"{one.kernel}: {numbers.many(one.warps, 'warp')}"
    steps = f", steps of at most {one.cap} columns" if one.cap is not None else ""
    return f"{one.kernel}: {one.each} elements a thread{steps}"


def named(racer: Racer) -> str:
    return racer.title or racer.idea or "; ".join(_said(one) for one in racer.numbers)


def what(race: Race) -> str:
    """What such a race is of, whoever came."""
    return "ideas" if race.opening else "launch numbers"


def _starters(race: Race) -> str:
    near = sum(racer.is_nearby for racer in race.others)
    ideas = sum(bool(racer.idea) for racer in race.others) - near
    sets = len(race.others) - ideas - near
    said = [numbers.many(ideas, "idea")] if ideas else []
    said += [f"{numbers.many(sets, 'set')} of launch numbers"] if sets else []
    said += [f"{numbers.many(near, 'number')} nearby"] if near else []
    return numbers.listed(said)


def sentence(race: Race) -> str:
    """Without its full stop, fit for a terminal as it is."""
    if not race.racers:
        return f"no {what(race)} raced beside {variant_name(race.of)}: {race.note}"
    left = sum(bool(racer.left) for racer in race.others)
    recording = f", {numbers.seconds(race.recording_seconds)} of them to record" if race.recording_seconds else ""
    took = f"{numbers.seconds(race.seconds)}{recording}, {numbers.seconds(race.gpu_ms / 1000)} of GPU time"
    head = f"{_starters(race)} raced beside {variant_name(race.of)} in {took}{f', {left} left' if left else ''}"
    first = race.first
    gain = race.gain(first) if first is not None else None
    if first is None or gain is None:
        return f"{head}; nobody came home{' to be chosen' if any(racer.spills for racer in race.others) else ''}"
    return f"{head}; first home at {gain:.2f}x (measured, a dozen blocks a case): {named(first)}"


def table(race: Race) -> Trusted:
    """Everybody who raced: the fastest first, and below them who left."""
    ranked = sorted(race.others, key=lambda racer: (bool(racer.left), -(race.gain(racer) or 0.0)))
    rows: list[list[object]] = []
    for racer in ranked:
        gain = race.gain(racer)
        speed = f"{gain:.3f}x" if gain is not None else "—"
        cost = f", {racer.gpu_ms:.0f} ms of the GPU" if racer.gpu_ms else ""
        name = text(named(racer), 120) if racer.idea else code(named(racer))
        spills = f", spills {racer.most_spilled} bytes a thread" if racer.spills else ""
        rows.append([name, speed, text(racer.left, 120) if racer.left else f"came home{spills}{cost}"])
    head = "Launch numbers" if not any(racer.idea for racer in race.others) else "Idea or numbers"
    return grid(["Idea" if race.opening else head, f"Over {variant_name(race.of)}, measured", "How it went"], rows)
