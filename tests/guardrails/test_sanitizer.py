"""sanitizer: what compute-sanitizer saw of a finalist."""

from __future__ import annotations

from typing import Any

import pytest

from bot.guardrails import judge
from bot.guardrails.sanitizer import sanitizer
from bot.model.measurement import Sanitized
from bot.model.verdict import Decision
from tests.guardrails import hearings as h

BEYOND = "Invalid __global__ read of size 4 bytes in _k, 1 bytes after the nearest allocation"


def looked(**told: Any) -> Any:
    return h.changed(h.hearing(), sanitized=Sanitized.model_validate(told))


def test_a_finding_refuses_and_is_quoted() -> None:
    verdict = judge(looked(status="found", detail=BEYOND, version="2025.3"))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == f"compute-sanitizer: {BEYOND}; v0 does not do that"


@pytest.mark.parametrize("status", ["clean", "absent", "failed"])
def test_a_tool_that_saw_nothing_refuses_nobody(status: str) -> None:
    heard = looked(status=status, detail="60 s")
    assert sanitizer(heard) == []
    assert judge(heard).decision is Decision.ACCEPTED


def test_where_nobody_asked_nothing_is_said() -> None:
    assert h.hearing().candidate.sanitized is None
    assert sanitizer(h.hearing()) == []
