"""Whether a finalist still goes through torch.compile, where the untouched kernel does: models are trained in it. Where
it is not known nobody is blamed, and the report says so."""

from __future__ import annotations

from bot.guardrails.hearing import Hearing, note, reject
from bot.model.verdict import Finding

NAME = "torch_compile"


def torch_compile(hearing: Hearing) -> list[Finding]:
    found = hearing.candidate.under_compile
    if found is not None and found.status == "wrong":
        return [reject(NAME, f"under torch.compile it fails and v0 does not, {found.detail}")]
    if found is not None and found.status == "breaks":
        return [note(NAME, f"under torch.compile {found.detail}")]
    return []
