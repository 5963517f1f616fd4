"""runner: a machine that is not fit gives no verdict."""

from __future__ import annotations

import pytest

from bot.guardrails import Hearing, judge
from bot.guardrails.runner import runner
from bot.model.verdict import Decision
from tests.analysis.blocks import reading
from tests.guardrails import hearings as h


def voiding(kept: int, lost: int) -> Hearing:
    """Every case read in one search of so many blocks, and nowhere else."""
    return h.pairing(h.hearing(), search=reading(10.0, kept, voided=lost), confirm=(), control=())


@pytest.mark.parametrize(("kept", "lost", "fit"), [(100, 0, True), (80, 20, True), (79, 21, False), (0, 3, False)])
def test_one_block_in_five_may_be_voided(kept: int, lost: int, fit: bool) -> None:
    assert (runner(voiding(kept, lost)) == []) is fit


def test_the_verdict_is_that_there_is_none() -> None:
    verdict = judge(voiding(50, 50))
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason == "runner unhealthy, no verdict: 50.0 % of the blocks were voided, at most 20 % may be"
    assert verdict.score is None


@pytest.mark.parametrize("where", ["confirm", "control"])
def test_blocks_are_counted_wherever_they_were_read(where: str) -> None:
    sick = (reading(10.0, 12, voided=100),) * 6
    assert runner(h.pairing(h.hearing(), **{where: sick}))


def test_a_machine_without_a_gpu_is_not_asked() -> None:
    assert runner(h.modelled({})) == []
