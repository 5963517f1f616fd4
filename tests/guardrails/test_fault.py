"""fault: what did not run is out, and the campaign goes on."""

from __future__ import annotations

from typing import get_args

import pytest

from bot.guardrails import judge
from bot.guardrails.fault import SAID, fault
from bot.model.measurement import Fault
from bot.model.verdict import Decision
from tests.guardrails import hearings as h

KINDS = get_args(Fault.model_fields["kind"].annotation)


def test_there_are_words_for_every_kind_of_fault() -> None:
    assert set(SAID) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_rejects_and_is_told_alone(kind: str) -> None:
    verdict = judge(h.changed(h.hearing(), fault=Fault(kind=kind), cases=(), checks=()))
    assert verdict.decision is Decision.REJECTED and verdict.score is None
    assert [finding.message for finding in verdict.findings] == [SAID[kind]]


def test_the_detail_is_shown_on_one_line_and_not_for_pages() -> None:
    noisy = Fault(kind="compile_failed", detail="error:\n" + "x" * 5000)
    (found,) = fault(h.changed(h.hearing(), fault=noisy))
    assert found.message.startswith("it does not compile: error: xxx") and found.message.endswith("...")
    assert len(found.message) == 400


def test_what_ran_is_no_fault() -> None:
    assert fault(h.hearing()) == []
