"""A winner whose tests were all skipped has been heard by the judge alone, and everybody who is asked is told so."""

from __future__ import annotations

import json

import pytest

from bot.model.campaign import Stage
from bot.model.facts import Finalized
from bot.model.finalization import CommandRun
from bot.render import comments, json_lines, steps
from bot.render.terminal import checkpoint_text
from tests.render import builders as a


def ended_with(summary: str, passed: bool = True) -> CommandRun:
    return a.run(("python", "-m", "pytest", "test_it.py"), passed, summary)


@pytest.mark.parametrize(
    ("summary", "result"),
    [
        ("19 skipped, 57 deselected, 1 warning in 1.43s", "skipped"),
        ("1 passed, 18 skipped in 1.43s", "passed"),
        ("1 xpassed, 18 skipped in 1.43s", "passed"),
        ("0 passed, 19 skipped", "skipped"),
        ("ok", "passed"),
        ("12 passed, 0 skipped", "passed"),
    ],
)
def test_tests_that_were_all_skipped_passed_nothing(summary: str, result: str) -> None:
    assert ended_with(summary).result == result


def test_one_that_failed_was_not_skipped() -> None:
    assert ended_with("19 skipped, 1 error in 1.43s", passed=False).result == "failed"


def test_one_file_that_ran_is_enough() -> None:
    skipped, ran = ended_with("19 skipped in 1.43s"), ended_with("3 passed in 0.1s")
    assert a.finalization((skipped,)).untested
    assert not a.finalization((skipped, ran)).untested
    assert not a.finalization(()).untested


def test_who_has_the_last_word_is_told() -> None:
    campaign = a.finalized(finalization=a.finalization((ended_with("19 skipped in 1.43s"),)))
    assert campaign.stage is Stage.AWAIT_FINAL
    assert steps.finished(campaign) == "no test ran (19 skipped in 1.43s), style check passed"
    assert "| tests | **skipped** | 19 skipped in 1.43s |" in " ".join(comments.checkpoint_final(campaign).split())
    assert "NONE 19 skipped in 1.43s" in checkpoint_text(campaign)


@pytest.mark.parametrize(("summary", "ran"), [("19 skipped in 1.43s", False), ("3 passed, 16 skipped in 1.43s", True)])
def test_a_program_that_listens_is_told_too(summary: str, ran: bool) -> None:
    fact = Finalized(order="o-finalize", finalization=a.finalization((ended_with(summary),)))
    line = json_lines.of_fact(fact, a.finalized(), "2026-11-24T02:52:34Z")
    assert line is not None
    assert json.loads(line)["tests_ran"] is ran
