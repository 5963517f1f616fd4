"""Reviews: which of them answer a question, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from bot.localhub.wire import Refused
from bot.model.campaign import Outcome, Stage
from bot.model.reasons import ReasonCode
from bot.zones.approving import variants_named
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
    "somebody comments": ("final", {"who": MIRA, "state": "COMMENT", "body": "/optimize approve"}),
    "a bot approves": ("final", {"who": BOT, "state": "APPROVE"}),
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
    assert said(talk.reviewed_by(MIRA, "APPROVE", commit=older)) == ("refused", "approval_stale", "wait")
    assert talk.campaign.stage is Stage.AWAIT_FINAL
    assert f"this review is of {older[:7]}" in talk.answers()[-1]


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
    assert talk.reviewed_by(NOOR, "APPROVE").reason_code == "awaiting_approval"
    assert talk.asks(NOOR, "/optimize approve").reason_code == "approved"


@pytest.mark.parametrize("place", ["profile", "winner"])
def test_an_approval_where_only_a_command_counts_is_told_so_once(at: At, place: str) -> None:
    talk = at(place)
    stage = talk.campaign.stage
    assert said(talk.reviewed_by(MIRA, "APPROVE")) == ("refused", "awaiting_approval", "wait")
    assert "this question needs `/optimize approve" in talk.answers()[-1]
    before = talk.answers()
    talk.reviewed_by(MIRA, "APPROVE")
    assert (talk.answers(), talk.campaign.stage) == (before, stage)


def test_a_review_event_delivered_again_goes_on_where_the_first_job_died(at: At) -> None:
    talk = at("final")
    talk.reviewed_by(MIRA, "APPROVE")
    event = ("workflow_run", max((talk.hub.root / "outbox").glob("*")) / "event.json")
    assert said(talk.decides(event)) == ("acted", "duplicate_event", "push")
    assert len(talk.campaign.answers) == 3


# A review that is no answer is explained, once to each person


def test_a_reader_s_approval_is_explained_once(at: At) -> None:
    talk = at("final")
    assert said(talk.reviewed_by(LEE, "APPROVE")) == ("refused", "permission_denied", "wait")
    assert "yours is read" in talk.answers()[-1]
    before = talk.answers()
    talk.reviewed_by(LEE, "APPROVE")
    assert talk.answers() == before
    assert talk.campaign.stage is Stage.AWAIT_FINAL


def test_a_dismissed_approval_is_explained(at: At) -> None:
    talk = at("final")
    talk.hub.dismiss_review(talk.reviews(NOOR, "APPROVE"))
    assert said(talk.decides()) == ("refused", "approval_stale", "wait")
    assert "was dismissed" in talk.answers()[-1]


def test_where_policy_says_so_the_requester_s_review_is_explained(at: At) -> None:
    talk = at("final").retold(policy={"requester_approval": False})
    assert said(talk.reviewed_by(MIRA, "APPROVE")) == ("refused", "requester_approval", "wait")
    assert talk.reviewed_by(NOOR, "APPROVE").reason_code == "approved"


def test_a_review_may_name_the_variant(at: At) -> None:
    talk = at("winner").retold(policy={"review_answers": "all"})
    assert said(talk.reviewed_by(NOOR, "APPROVE", "v9 is the one")) == ("refused", "no_such_variant", "wait")
    assert said(talk.reviewed_by(NOOR, "APPROVE", "v1 or v3, both fine")) == ("refused", "bad_value", "wait")
    assert "names v1 and v3" in talk.answers()[-1]
    assert talk.reviewed_by(NOOR, "APPROVE", "> v3?\n\nRather v1, it is simpler.").reason_code == "approved"
    assert talk.campaign.winner == 1


NAMES = {
    "v2": (2,),
    "Take v2.": (2,),
    "(v2)": (2,),
    "v2 and v2": (2,),
    "v12, not v3": (3, 12),
    "> v3": (),
    "driver v2.1 is installed": (),
    "rev2 kv2 v2x v1234": (),
    "": (),
}


@pytest.mark.parametrize("body", NAMES)
def test_the_variants_a_review_names(body: str) -> None:
    assert variants_named(body) == NAMES[body]


def test_one_review_answers_one_question(at: At) -> None:
    talk = at("profile").retold(policy={"review_answers": "all"})
    assert talk.reviewed_by(NOOR, "APPROVE").reason_code == "approved"
    event = ("workflow_run", max((talk.hub.root / "outbox").glob("*")) / "event.json")
    talk.searches()
    assert talk.decides(event).reason_code == "duplicate_event"
    assert talk.campaign.stage is Stage.AWAIT_WINNER


def test_a_standing_change_request_blocks_an_approving_comment(at: At) -> None:
    talk = at("final")
    talk.reviews(NOOR, "REQUEST_CHANGES", "not like this")  # and its event is lost
    assert said(talk.asks(MIRA, "/optimize approve")) == ("refused", "changes_requested", "none")
    assert "a review by noor requests changes" in talk.answers()[-1]
    assert talk.campaign.stage is Stage.AWAIT_FINAL
