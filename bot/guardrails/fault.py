"""A variant that does not import, compile or end is out; the campaign goes on (L-50, L-64)."""

from __future__ import annotations

from bot.guardrails.hearing import Hearing, reject
from bot.model.verdict import Finding

NAME = "fault"
SAID = {
    "import_failed": "it cannot be imported",
    "crashed": "it crashed",
    "compile_failed": "it does not compile",
    "compile_timeout": "it took longer to compile than a candidate may",
    "run_timeout": "it did not come to an end in the time a run may take",
    "memory": "it touched or took memory that is not its own",
    "protocol": "it answered with something that is no answer",
}


def fault(hearing: Hearing) -> list[Finding]:
    found = hearing.candidate.fault
    if found is None:
        return []
    said = SAID[found.kind]
    return [reject(NAME, f"{said}: {found.detail}" if found.detail else said)]
