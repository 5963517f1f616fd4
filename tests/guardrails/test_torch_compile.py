"""torch_compile: whether a finalist goes where v0 goes under torch.compile."""

from __future__ import annotations

import pytest

from bot.guardrails import judge
from bot.guardrails.hearing import Hearing
from bot.guardrails.torch_compile import torch_compile
from bot.model.measurement import UnderCompile
from bot.model.verdict import Decision
from tests.guardrails import hearings as h

WHY = "backward-3x129-float32: InductorError: NameError: name 'WIDE' is not defined"


def went(status: str, detail: str = WHY) -> Hearing:
    return h.changed(h.hearing(), under_compile=UnderCompile.model_validate({"status": status, "detail": detail}))


def test_who_fails_where_v0_passes_is_refused_with_what_torch_said() -> None:
    verdict = judge(went("wrong"))
    assert verdict.decision is Decision.REJECTED
    assert h.rejections(verdict) == ["torch_compile"]
    assert verdict.reason == f"under torch.compile it fails and v0 does not, {WHY}"


def test_one_graph_that_becomes_several_is_a_price_to_be_known() -> None:
    verdict = judge(went("breaks", "backward-3x129-float32 as several graphs, of v0 as one: Unsupported: data_ptr"))
    assert verdict.decision is Decision.ACCEPTED_WITH_NOTE
    assert [(one.guardrail, one.severity) for one in verdict.findings] == [("torch_compile", "note")]
    assert verdict.findings[0].message.startswith("under torch.compile backward-3x129-float32 as several graphs")


@pytest.mark.parametrize("status", ["right", "v0_fails", "unknown"])
def test_nobody_else_is(status: str) -> None:
    assert torch_compile(went(status)) == []
    assert judge(went(status)).decision is Decision.ACCEPTED


def test_where_nobody_asked_nothing_is_said() -> None:
    assert h.hearing().candidate.under_compile is None
    assert torch_compile(h.hearing()) == []
