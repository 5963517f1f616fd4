"""What a report says is to be done next."""

from __future__ import annotations

import pytest

from bot.model.campaign import Campaign, StopReason, Zone
from bot.model.facts import JournalLine, SearchEnded
from bot.render.advice import advice
from bot.render.records import records
from tests.render import builders as a
from tests.render.test_rivals import nothing, pushed

NOTE = "the next idea would have been: Walk rows | <b>x</b>"


def told(why: StopReason | None, campaign: Campaign | None = None, note: str = NOTE) -> str:
    found = (campaign or pushed()).model_copy(update={"stopped": why})
    return str(advice(found, lines(note)))


def lines(note: str) -> tuple[JournalLine, ...]:
    fact = SearchEnded(order="o", why=StopReason.BUDGET_SPENT, note=note)
    return (JournalLine(seq=1, at="2026-11-28T18:00:00Z", zone=Zone.MEASURE, fact=fact),)


def test_a_search_whose_budget_ended_first_goes_on_with_more_variants() -> None:
    campaign = pushed()
    said = told(StopReason.BUDGET_SPENT)
    more = len(campaign.rounds) + 4
    assert "The search ended because the budget of variants is spent; the next idea would have been: Walk rows" in said
    assert f"`kernelwright optimize rms_norm --resume journal.jsonl --max-variants {more}` goes on with it." in said
    assert "<b>" not in said, "a title is a stranger's"


def test_one_that_ran_out_of_minutes_goes_on_with_as_many_variants_as_it_had() -> None:
    said = told(StopReason.TIME_OVER, note="")
    assert "`--minutes`" in said.replace("\\", "") and "; the next" not in said
    campaign = pushed()
    assert campaign.command is not None
    most = max(campaign.command.max_variants, len(campaign.rounds) + 1)
    assert f"--resume journal.jsonl --max-variants {most}` goes on" in said


def test_minutes_that_the_repository_gives_are_not_for_a_command_to_raise() -> None:
    said = told(StopReason.GPU_TIME_SPENT)
    assert "max_gpu_minutes" in said.replace("\\", "") and "--resume" not in said


@pytest.mark.parametrize("why", [None, StopReason.IDEAS_EXHAUSTED, StopReason.EFFICIENT, StopReason.STAGNATION])
def test_one_that_had_all_its_ideas_leaves_nothing_to_do(why: StopReason | None) -> None:
    assert told(why) == "" and told(why, nothing()) == ""


def test_what_was_estimated_is_timed_and_what_was_not_pushed_lies_where_it_is_said() -> None:
    static = pushed().model_copy(update={"profile": a.profile()})
    assert "Time v3 on a GPU before its figure is quoted" in told(None, static)
    left = pushed().model_copy(update={"pushed": None})
    assert "The change is in `rms_norm_v3.py`. It was not applied." in told(None, left)


def test_the_report_has_it_or_says_none() -> None:
    spent = pushed().model_copy(update={"stopped": StopReason.BUDGET_SPENT})
    report = records(spent, lines(NOTE))["report.md"].decode()
    assert "## 8. Recommendations\n\n- The search ended because" in report
    done = pushed().model_copy(update={"stopped": StopReason.IDEAS_EXHAUSTED})
    assert "## 8. Recommendations\n\nnone" in records(done, lines(""))["report.md"].decode()
