"""What compute-sanitizer saw a finalist do to memory that is not its own. Where the tool was not there nobody is
blamed, and the report says so."""

from __future__ import annotations

from bot.guardrails.hearing import Hearing, reject
from bot.model.verdict import Finding

NAME = "sanitizer"


def sanitizer(hearing: Hearing) -> list[Finding]:
    found = hearing.candidate.sanitized
    if found is None or found.status != "found":
        return []
    return [reject(NAME, f"compute-sanitizer: {found.detail}; v0 does not do that")]
