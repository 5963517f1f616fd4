"""The same comment more than once, late, or at the same moment as another: said once, done once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bot.model.campaign import Checkpoint, Stage
from bot.zones.decide import decide
from tests.zones.conversation import MIRA, NOOR, said
from tests.zones.places import At


def test_five_deliveries_of_one_comment_make_one_campaign(at: At) -> None:
    talk = at("opened")
    talk.says(MIRA, "/optimize rms_norm")
    event = talk.last_event()
    reports = [talk.decides(event) for _ in range(5)]
    assert [report.reason_code for report in reports] == ["accepted", *["duplicate_event"] * 4]
    assert {report.order.id for report in reports if report.order} == {f"{talk.campaign.id}-1-profile"}
    assert len(talk.journals) == 1
    assert talk.facts().count("order_placed") == 1
    assert len(talk.answers()) == 1


def test_two_deliveries_at_the_same_moment_make_one_campaign(at: At) -> None:
    talk = at("opened")
    talk.says(MIRA, "/optimize rms_norm")
    event = talk.last_event()
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(decide, talk.settings("decide", event)) for _ in range(2)]
        reports = [job.result() for job in jobs]
    assert sorted(report.reason_code for report in reports) == ["accepted", "duplicate_event"]
    assert {report.order.id for report in reports if report.order} == {f"{talk.campaign.id}-1-profile"}
    assert len(talk.journals) == 1
    assert len(talk.campaign.orders) == 1
    assert sum("posted twice" not in answer for answer in talk.answers()) == 1


def test_of_two_people_who_ask_at_the_same_moment_one_is_first(at: At) -> None:
    talk = at("opened")
    asked = [talk.says(MIRA, "/optimize rms_norm"), talk.says(NOOR, "/optimize softmax")]
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(decide, talk.settings("decide", talk.event_of(comment))) for comment in asked]
        reports = [job.result() for job in jobs]
    assert sorted(report.reason_code for report in reports) == ["accepted", "already_running"]
    assert sorted(report.next for report in reports) == ["measure", "none"]


def test_a_yes_delivered_again_does_not_answer_the_next_question(at: At) -> None:
    talk = at("winner")
    yes = talk.campaign.answers[0]
    assert yes.checkpoint is Checkpoint.PROFILE
    assert talk.decides(talk.event_of(yes.source_id)).reason_code == "duplicate_event"
    assert talk.campaign.stage is Stage.AWAIT_WINNER
    assert talk.reactions(yes.source_id) == ["+1"]


def test_two_deliveries_of_a_yes_at_the_same_moment_are_one_yes(at: At) -> None:
    talk = at("profile")
    comment = talk.says(MIRA, "/optimize approve")
    event, before = talk.last_event(), len(talk.answers())
    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(decide, talk.settings("decide", event)) for _ in range(2)]:
            assert job.result().next == "measure"
    assert len(talk.campaign.answers) == 1
    assert talk.reactions(comment) == ["+1"]
    assert len(talk.answers()) == before, "nobody is told that they came too late"


@pytest.mark.parametrize("words", ["/optimize cancel", "/optimize reject no", "/optimize rms_norm"])
def test_a_comment_delivered_after_it_ended_the_campaign_stays_answered(at: At, words: str) -> None:
    talk = at("profile" if words != "/optimize rms_norm" else "opened")
    comment = talk.says(MIRA, words)
    event = talk.last_event()
    talk.decides(event)
    if words == "/optimize rms_norm":
        talk.asks(MIRA, "/optimize cancel")
        talk.asks(MIRA, "/optimize softmax")
    before = talk.answers(), talk.branches, talk.reactions(comment)
    assert talk.decides(event).reason_code == "duplicate_event"
    assert (talk.answers(), talk.branches, talk.reactions(comment)) == before


def test_a_comment_older_than_the_question_does_not_answer_it(at: At) -> None:
    talk = at("profiling")
    talk.says(MIRA, "/optimize approve")
    late = talk.last_event()
    talk.profiles()
    assert said(talk.decides(late)) == ("refused", "nothing_waiting", "none")
    assert talk.campaign.stage is Stage.AWAIT_PROFILE
    assert "older than the question" in talk.answers()[-1]


def test_a_question_that_was_deleted_is_not_answered(at: At) -> None:
    talk = at("profile")
    question = next(c for c in talk.hub.world.comments.values() if "Shall I go on?" in c.body)
    del talk.hub.world.comments[question.id]
    assert talk.asks(MIRA, "/optimize approve").reason_code == "nothing_waiting"
    assert talk.asks(MIRA, "/optimize cancel").reason_code == "cancelled_by_user"
