"""How near the best variant comes to the roof where memory is the limit, and what keeps it from there.

Its share of the roof is v0's times its own speed-up, both by the clock. What the rest of its time goes into is the
model's word, of the launches that were compiled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bot.analysis.bottleneck import SAYS, time_of_cases
from bot.analysis.paired import Estimate
from bot.hardware.catalog import for_runner
from bot.model.campaign import Profile
from bot.model.measurement import CaseResult, Measurement
from bot.model.rivals import BelowRoof, NearRoof

NEAR = 85.0
"""Percent of the roof that a kernel bound by memory should reach."""
WASTED = 1.1
"""Times the least bytes from which the rest is spoken of."""
LEAST, MOST = 0.1, 2
"""The share of it, and how many, that are named."""


def _facts(result: CaseResult) -> list[str]:
    """What was counted and compiled."""
    said = []
    if result.traffic_factor >= WASTED:
        said.append(f"it moves {result.traffic_factor:.2f}x the least bytes")
    for launch in result.launches:
        if launch.resources is not None and launch.resources.spill_bytes:
            said.append(f"{launch.kernel} spills {launch.resources.spill_bytes} B a thread")
    return said


def _estimated(parts: Mapping[str, float]) -> list[str]:
    """What takes most of the time that its bytes do not take."""
    others = sorted(((share, name) for name, share in parts.items() if name != "memory"), reverse=True)
    rest = math.fsum(share for share, _ in others)
    named = [(100 * share / rest, SAYS[name]) for share, name in others[:MOST] if share >= LEAST * rest > 0]
    told = " and ".join(
        f"{percent:.0f} % {'into' if at else 'goes into'} {what}" for at, (percent, what) in enumerate(named)
    )
    return [f"of the rest of its time, as estimated, {told}"] if told else []


def near_roof(profile: Profile, found: Measurement, best: Mapping[str, Estimate]) -> NearRoof:
    """Of the cases in which the best variant was confirmed, memory is the limit and there is something to move."""
    bound = {roof.case: roof.percent for roof in profile.diagnosis.roofs if roof.bound == "memory" and roof.percent}
    shares = {case: (percent, percent * best[case].ratio) for case, percent in bound.items() if case in best}
    sheet = for_runner(found.runner)
    parts = time_of_cases(found, profile.suite, sheet) if sheet is not None else {}
    results = {result.case: result for result in found.cases}
    below = [
        BelowRoof(case, before, after, (*_facts(results[case]), *_estimated(parts.get(case, {}))))
        for case, (before, after) in shares.items()
        if after < NEAR and case in results
    ]
    return NearRoof(NEAR, len(shares), tuple(sorted(below, key=lambda one: one.after)))
