"""A machine that keeps being disturbed cannot say anything about a variant."""

from __future__ import annotations

from bot.analysis.paired import MOST_VOIDED, voided_share
from bot.guardrails.hearing import ROUNDING, Hearing, note
from bot.model.verdict import Finding

NAME = "runner"


def runner(hearing: Hearing) -> list[Finding]:
    paired = [result.paired for result in hearing.candidate.cases if result.paired is not None]
    readings = [reading for one in paired for reading in (one.search, *one.confirm, *one.control)]
    readings += [reading for one in hearing.candidate.unseen for reading in one.confirm]
    lost = voided_share(readings)
    if lost <= MOST_VOIDED + ROUNDING:
        return []
    share = f"{100 * lost:.1f} % of the blocks were voided, at most {100 * MOST_VOIDED:.0f} % may be"
    return [note(NAME, f"runner unhealthy, no verdict: {share}")]
