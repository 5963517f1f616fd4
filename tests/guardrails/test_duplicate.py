"""duplicate: no exact repeats (L-35), compared byte for byte as a restored source is (BC-08)."""

from __future__ import annotations

import pytest

from bot.guardrails import judge
from bot.guardrails.duplicate import duplicate
from bot.model.variant import sources_digest
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def earlier(**texts: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, sources_digest(h.files(text))) for name, text in texts.items())


def test_v0_itself_is_not_a_variant() -> None:
    verdict = judge(h.hearing(text=h.V0))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == "the source is v0's, byte for byte"


def test_an_idea_that_was_rejected_is_not_tried_again() -> None:
    (found,) = duplicate(h.hearing(earlier=earlier(v0=h.V0, v1="# one\n", v2=h.FASTER)))
    assert found.message == "the source is v2's, byte for byte"


@pytest.mark.parametrize("other", [h.FASTER + "\n", h.FASTER.replace("\n", "\r\n"), h.FASTER.replace(" = 8", "  = 8")])
def test_bc_08_one_byte_more_is_another_source(other: str) -> None:
    assert duplicate(h.hearing(earlier=earlier(v1=other))) == []


def test_the_same_text_in_another_file_is_another_source() -> None:
    elsewhere = (("v1", sources_digest(h.files(h.FASTER, h.OTHER))),)
    assert duplicate(h.hearing(earlier=elsewhere)) == []
