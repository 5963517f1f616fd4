"""Reviews: which of them answer a question, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from bot.localhub.wire import Refused
from bot.model.campaign import Outcome, Stage
from bot.model.reasons import ReasonCode
from tests.zones.conversation import BOT, DANA, LEE, MIRA, NOOR, said
from tests.zones.places import At


def test_a_change_request_blocks_though_somebody_else_approved(at: At) -> None:
    talk = at("final")
    talk.reviews(NOOR, "APPROVE")
    talk.reviews(MIRA, "REQUEST_CHANGES", "this needs a comment")
    assert said(talk.decides()) == ("acted", "changes_requested", "none")
    assert talk.ended == (Stage.ENDED, Outcome.REJECTED, ReasonCode.REJECTED_BY_USER)
    assert talk.campaign.answers[-1].reason == "this needs a comment"
    assert talk.is_untouched


def test_the_last_word_of_a_reviewer_counts(at: At) -> None:
    talk = at("final")
    talk.reviews(MIRA, "REQUEST_CHANGES", "wait")
    talk.reviews(MIRA, "APPROVE")
    talk.reviews(MIRA, "COMMENT", "and thank you")
    assert talk.decides().reason_code == "approved"


Given = dict[str, Any]
WITHOUT_EFFECT: dict[str, tuple[str, Given]] = {
    "a reader approves": ("final", {"who": LEE, "state": "APPROVE"}),
    "somebody comments": ("final", {"who": MIRA, "state": "COMMENT", "body": "/optimize approve"}),
    "a bot approves": ("final", {"who": BOT, "state": "APPROVE"}),
    "policy: the profile is not answered by review": ("profile", {"who": MIRA, "state": "APPROVE"}),
    "policy: the winner is not answered by review": ("winner", {"who": MIRA, "state": "APPROVE"}),
    "nothing is asked": ("finishing", {"who": MIRA, "state": "APPROVE"}),
    "no campaign": ("opened", {"who": MIRA, "state": "APPROVE"}),
}


@pytest.mark.parametrize("why", WITHOUT_EFFECT)
def test_a_review_without_effect(at: At, why: str) -> None:
    place, given = WITHOUT_EFFECT[why]
    talk = at(place)
    before = talk.answers(), talk.branches
    assert said(talk.reviewed_by(**given)) == ("ignored", "nothing_waiting", "none")
    assert (talk.answers(), talk.branches) == before


def test_a_review_of_an_older_commit_has_no_effect(at: At) -> None:
    talk = at("final")
    older = talk.repo.parents(talk.head)[0]
    assert talk.reviewed_by(MIRA, "APPROVE", commit=older).reason_code == "nothing_waiting"
    assert talk.campaign.stage is Stage.AWAIT_FINAL


def test_a_review_given_before_the_question_does_not_answer_it(at: At) -> None:
    talk = at("finishing")
    talk.reviewed_by(MIRA, "APPROVE")
    event = ("workflow_run", max((talk.hub.root / "outbox").glob("*")) / "event.json")
    talk.finishes()
    assert talk.decides(event).reason_code == "nothing_waiting"
    assert talk.campaign.stage is Stage.AWAIT_FINAL
    assert talk.reviewed_by(NOOR, "APPROVE").reason_code == "approved"


def test_the_author_cannot_approve_their_own_pull_request(at: At) -> None:
    talk = at("final")
    with pytest.raises(Refused, match="Can not approve your own pull request"):
        talk.reviews(DANA, "APPROVE")
    assert said(talk.asks(DANA, "/optimize approve")) == ("refused", "self_approval", "none")
    assert talk.campaign.stage is Stage.AWAIT_FINAL


def test_the_author_may_answer_before_the_end(at: At) -> None:
    talk = at("profile")
    assert talk.asks(DANA, "/optimize approve").reason_code == "approved"


def test_where_policy_says_all_a_review_answers_every_question(at: At) -> None:
    talk = at("profile").retold(policy={"review_answers": "all"})
    assert said(talk.reviewed_by(NOOR, "APPROVE")) == ("acted", "approved", "measure")
    talk = at("winner").retold(policy={"review_answers": "all"})
    assert said(talk.reviewed_by(NOOR, "APPROVE")) == ("acted", "approved", "measure")
    assert talk.campaign.winner == 3


def test_where_policy_says_none_only_comments_answer(at: At) -> None:
    talk = at("final").retold(policy={"review_answers": "none"})
    assert talk.reviewed_by(NOOR, "APPROVE").reason_code == "nothing_waiting"
    assert talk.asks(NOOR, "/optimize approve").reason_code == "approved"


def test_a_review_event_delivered_again_goes_on_where_the_first_job_died(at: At) -> None:
    talk = at("final")
    talk.reviewed_by(MIRA, "APPROVE")
    event = ("workflow_run", max((talk.hub.root / "outbox").glob("*")) / "event.json")
    assert said(talk.decides(event)) == ("acted", "duplicate_event", "push")
    assert len(talk.campaign.answers) == 3
