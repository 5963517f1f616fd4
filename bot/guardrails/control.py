"""The hidden control, v0 against a copy of itself, must show nothing; where it does, no other number counts."""

from __future__ import annotations

from bot.analysis.measured import controls
from bot.analysis.paired import MIN_GAIN, pace
from bot.guardrails.hearing import Hearing, note
from bot.model.verdict import Finding, Pace

NAME = "control"
MOST = MIN_GAIN
"""What a control may seem to gain or lose: less than anybody is accepted for."""


def control(hearing: Hearing) -> list[Finding]:
    try:
        found = controls(hearing.candidate)
    except (ValueError, ArithmeticError):
        return [note(NAME, "the control moved: it shows times that no clock can show")]
    return [
        note(NAME, f"the control moved: v0 against itself shows {100 * estimate.gain:+.2f} % at {case}", case)
        for case, estimate in found.items()
        if pace(estimate, MOST) in (Pace.FASTER, Pace.SLOWER)
    ]
