"""An idea that was judged before costs a round and teaches nothing (L-35)."""

from __future__ import annotations

from bot.guardrails.hearing import Hearing, reject
from bot.model.verdict import Finding

NAME = "duplicate"


def duplicate(hearing: Hearing) -> list[Finding]:
    digest = hearing.variant.digest
    same = next((name for name, known in hearing.earlier if known == digest), None)
    return [reject(NAME, f"the source is {same}'s, byte for byte")] if same else []
