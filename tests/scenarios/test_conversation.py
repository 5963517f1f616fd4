"""Whole conversations: people comment and review, jobs answer, over real HTTP and with real git."""

from __future__ import annotations

import re

import pytest

from bot.model.campaign import Outcome, Stage
from bot.model.commands import Mode
from bot.model.reasons import ReasonCode
from bot.render import view
from tests.zones import gpu
from tests.zones.conversation import DANA, LEE, MIRA, NOOR, PATH, said
from tests.zones.places import At

# A campaign to its end


def test_an_interactive_campaign_ends_in_one_commit(at: At) -> None:
    talk = at("opened")
    pinned = talk.head

    talk.asks(MIRA, "/optimize help")
    talk.asks(LEE, "/optimize rms_norm")
    chatter = len(talk.answers())
    asked = talk.asks(MIRA, "Could this be faster?\n\n/optimize rms-norm goal=speed max_variants=3")
    assert said(asked) == ("acted", "accepted", "measure")
    assert asked.stage is Stage.PROFILING
    assert asked.pinned_sha == pinned
    assert asked.order is not None and asked.order.phase == "profile"
    assert "profiling" in talk.answers()[chatter]

    profiled = talk.profiles()
    assert (profiled.stage, profiled.next) == (Stage.AWAIT_PROFILE, "wait")
    assert "Shall I go on?" in talk.answers()[-1]

    assert talk.asks(MIRA, "/optimize approve").order == talk.campaign.order
    searched = talk.searches()
    assert (searched.stage, searched.next) == (Stage.AWAIT_WINNER, "wait")
    assert "Take it?" in talk.answers()[-1]
    assert sum("Take it?" in body or "go on?" in body for body in talk.visible()) == 1, "one question"
    assert talk.status()[0] == "pending"

    assert said(talk.asks(MIRA, "/optimize approve v3")) == ("acted", "approved", "measure")
    finished = talk.finishes()
    assert (finished.stage, finished.next) == (Stage.AWAIT_FINAL, "wait")
    assert "Push it?" in talk.answers()[-1]

    assert said(talk.reviewed_by(MIRA, "APPROVE")) == ("acted", "approved", "push")
    assert talk.is_untouched
    pushed = talk.push()
    assert (pushed.reason_code, pushed.stage, pushed.next) == ("pushed", Stage.ENDED, "none")

    assert talk.repo.parents("refs/heads/topic") == (pinned,)
    assert talk.repo.changed(pinned, talk.head) == (PATH,)
    text = talk.repo.read(talk.head, PATH)
    assert text is not None and text.startswith(b"# a line of the author\n") and b"# v3 loads wider" in text
    assert talk.ended == (Stage.ENDED, Outcome.PUSHED, ReasonCode.PUSHED)
    assert talk.campaign.pushed == talk.head
    assert [answer.actor.login for answer in talk.campaign.answers] == [MIRA, MIRA, MIRA]
    assert [answer.via for answer in talk.campaign.answers] == ["comment", "comment", "review"]
    assert len(talk.answers()) == chatter + 5
    assert f"pushed as [`{talk.head[:7]}`]" in talk.answers()[-1]
    assert talk.answers()[chatter].startswith("✅"), "the living status comment tells how it ended"
    assert talk.visible() == [talk.answers()[chatter], talk.answers()[-1]], "and all that is settled is folded away"
    assert talk.status()[0] == "success"
    on_commit = talk.hub.world.latest_statuses(talk.head)
    assert [(one.state, one.description) for one in on_commit] == [talk.status()], "and on the commit that was pushed"
    assert talk.reactions(talk.campaign.comment_id) == ["hooray"]
    assert not talk.campaign.ignored


@pytest.mark.long
def test_the_last_question_counts_the_lines_as_the_pushed_commit_does(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "unified_diff", lambda *_, **__: ["+ of the standard library"] * 7)
    talk = at("finishing")
    talk.finishes()
    said_size = re.search(r"The change \((\+\d+ -\d+)\)", talk.answers()[-1])
    talk.asks(MIRA, "/optimize approve")
    talk.push()
    added, removed, _ = talk.git("diff", "--numstat", f"{talk.head}~1", talk.head).split("\t")
    assert said_size is not None and said_size[1] == f"+{added} -{removed}"


def test_an_autonomous_campaign_asks_only_before_the_push(at: At) -> None:
    talk = at("opened")
    talk.asks(MIRA, "/optimize rms_norm mode=autonomous")
    assert talk.profiles().next == "measure"
    assert talk.searches().next == "measure"
    assert talk.campaign.winner == 3
    assert (talk.finishes().stage, talk.campaign.answers) == (Stage.AWAIT_FINAL, ())
    assert len(talk.answers()) == 2, "the status comment and one question"
    talk.asks(NOOR, "/optimize approve")
    assert talk.push().reason_code == "pushed"
    assert "Approved-by: noor" in talk.repo.message(talk.head)


def test_a_repository_may_do_without_the_final_question(at: At) -> None:
    talk = at("finishing").retold(policy={"final_approval": "none"}, command={"mode": Mode.AUTONOMOUS})
    talk.allows('evidence = "static"\nfinal_approval = "none"')
    assert talk.finishes().next == "push"
    assert talk.push().reason_code == "pushed"
    assert 'Approved-by: repository policy (final_approval = "none")' in talk.repo.message(talk.head)


def test_where_estimates_do_not_suffice_they_are_shown_and_nothing_is_pushed(at: At) -> None:
    talk = at("searching").retold(policy={"evidence": "measured"})
    assert talk.searches([gpu.BEST]).next == "none"
    assert talk.ended == (Stage.ENDED, Outcome.REVERTED, ReasonCode.EVIDENCE_INSUFFICIENT)
    assert talk.is_untouched
    assert "1.56x (estimated)" in talk.answers()[-1]


def test_a_search_that_finds_nothing_ends_there(at: At) -> None:
    talk = at("searching")
    assert talk.searches([gpu.BROKEN]).next == "none"
    assert talk.ended == (Stage.ENDED, Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT)
    assert talk.is_untouched
    assert f"optimize/{talk.campaign.id}" not in talk.branches


def test_a_winner_that_fails_its_tests_is_not_offered(at: At) -> None:
    talk = at("finishing")
    report = talk.publishes(talk.leaves(gpu.finished(talk.campaign, tests=False)))
    assert (report.reason_code, report.next) == ("tests_failed", "none")
    assert talk.ended == (Stage.ENDED, Outcome.REVERTED, ReasonCode.TESTS_FAILED)
    assert "`tests_failed`" in talk.answers()[-1]
    assert talk.is_untouched


# Somebody says no


@pytest.mark.parametrize("place", ["profile", "winner", "final"])
def test_a_no_at_any_question_ends_the_campaign(at: At, place: str) -> None:
    talk = at(place)
    assert said(talk.asks(NOOR, "/optimize reject it's not worth it, @everyone")) == (
        "acted",
        "rejected_by_user",
        "none",
    )
    assert talk.ended == (Stage.ENDED, Outcome.REJECTED, ReasonCode.REJECTED_BY_USER)
    assert talk.campaign.answers[-1].reason == "it's not worth it, @everyone"
    assert "noor" in talk.answers()[-1]
    assert "@everyone" not in talk.answers()[-1]
    assert talk.reactions(talk.campaign.comment_id) == ["+1"]
    assert talk.is_untouched


@pytest.mark.parametrize("place", ["profiling", "winner", "finishing", "pushing"])
def test_cancel_stops_it_wherever_it_is(at: At, place: str) -> None:
    talk = at(place)
    assert said(talk.asks(MIRA, "/optimize cancel")) == ("acted", "cancelled_by_user", "none")
    assert talk.ended == (Stage.ENDED, Outcome.CANCELLED, ReasonCode.CANCELLED_BY_USER)
    assert talk.is_untouched
    if place == "pushing":
        assert talk.push().next == "none", "the push job that starts anyway finds nothing to do"
        assert talk.is_untouched


def test_whoever_asked_may_cancel_though_they_may_not_write_any_more(at: At) -> None:
    talk = at("profile")
    talk.hub.add_user(MIRA, "read")
    assert talk.asks(MIRA, "/optimize approve").reason_code == "permission_denied"
    assert talk.asks(MIRA, "/optimize cancel").reason_code == "cancelled_by_user"


def test_after_the_end_there_is_nothing_to_answer_and_a_new_campaign_may_begin(at: At) -> None:
    talk = at("profile")
    talk.asks(MIRA, "/optimize cancel")
    first = talk.campaign.id
    assert talk.asks(MIRA, "/optimize approve").reason_code == "nothing_waiting"
    assert talk.asks(MIRA, "/optimize cancel").reason_code == "nothing_waiting"
    assert said(talk.asks(MIRA, "/optimize softmax")) == ("acted", "accepted", "measure")
    assert talk.campaign.id != first
    assert talk.campaign.command is not None and talk.campaign.command.kernel == "softmax"


# The choice of the winner


def test_another_accepted_variant_can_be_picked(at: At) -> None:
    talk = at("winner")
    assert talk.asks(MIRA, "/optimize approve v1").order is not None
    assert talk.campaign.winner == 1
    assert talk.campaign.order is not None and talk.campaign.order.winner == 1


NOT_A_CHOICE = {
    "v2": "variant_not_accepted",
    "v0": "variant_not_accepted",
    "v7": "no_such_variant",
    "120": "bad_value",
    "the best": "unknown_option",
}


def test_what_was_not_accepted_cannot_be_picked(at: At) -> None:
    talk = at("winner")
    for answer, code in NOT_A_CHOICE.items():
        assert said(talk.asks(MIRA, f"/optimize approve {answer}")) == ("refused", code, "none")
        assert f"`{code}`" in talk.answers()[-1]
    assert talk.campaign.stage is Stage.AWAIT_WINNER


def test_at_the_end_only_what_was_tested_can_be_approved(at: At) -> None:
    talk = at("final")
    assert talk.asks(MIRA, "/optimize approve v1").reason_code == "variant_not_accepted"
    assert talk.asks(MIRA, "/optimize approve v3").reason_code == "approved"


# A commit of one's own


def test_a_commit_on_any_branch_can_be_tried(at: At) -> None:
    talk = at("profile")
    text = (talk.repo.read(talk.head, PATH) or b"").decode()
    commit = talk.pushes(DANA, text + "# my idea\n", branch="dana/idea")
    assert said(talk.asks(DANA, f"/optimize try {commit[:9]}")) == ("acted", "accepted", "wait")
    assert [(sha, actor.login) for sha, actor in talk.campaign.tries] == [(commit, DANA)]
    assert talk.asks(DANA, f"/optimize try {commit}").reason_code == "duplicate_event"
    assert len(talk.campaign.tries) == 1


def test_a_commit_tried_before_the_choice_opens_the_search_again(at: At) -> None:
    talk = at("winner")
    text = (talk.repo.read(talk.head, PATH) or b"").decode()
    commit = talk.pushes(DANA, text + "# my idea\n", branch="dana/idea")
    report = talk.asks(DANA, f"/optimize try {commit[:7]}")
    assert (report.next, report.stage) == ("measure", Stage.OPTIMIZING)
    assert report.order is not None and report.order.id == f"{talk.campaign.id}-3-optimize"
    talk.searches([gpu.Idea("Try dana's", "# dana's idea\n", traffic=1.1, commit=commit)])
    assert (talk.campaign.stage, talk.campaign.lineage) == (Stage.AWAIT_WINNER, (0, 1, 3, 4))
    assert sum("Take it?" in answer for answer in talk.answers()) == 2, "the choice is asked anew"


def test_a_commit_nobody_has_is_refused_with_what_to_do(at: At) -> None:
    talk = at("profile")
    assert said(talk.asks(DANA, "/optimize try deadbeef")) == ("refused", "bad_value", "none")
    assert "no commit deadbeef was found" in talk.answers()[-1]
    assert talk.campaign.tries == ()


def test_a_commit_cannot_be_tried_while_nothing_is_searched(at: At) -> None:
    talk = at("final")
    assert talk.asks(DANA, f"/optimize try {talk.head}").reason_code == "nothing_waiting"


# Questions that change nothing


def test_help_list_and_status_are_open_to_everybody(at: At) -> None:
    talk = at("profile")
    before = talk.branches
    assert said(talk.asks(LEE, "/optimize help")) == ("answered", "help_completed", "none")
    assert said(talk.asks(LEE, "/optimize list")) == ("answered", "list_completed", "none")
    assert said(talk.asks(LEE, "/optimize status")) == ("answered", "status_completed", "none")
    help_page, listing, status = talk.answers()[-3:]
    assert "/optimize approve" in help_page
    assert all(kernel in listing for kernel in ("rms_norm", "softmax", "geglu", "jsd"))
    assert "waiting for you" in status
    assert talk.branches == before


def test_status_without_a_campaign_says_so(at: At) -> None:
    talk = at("opened")
    assert talk.asks(LEE, "/optimize status").reason_code == "status_completed"
    assert "Nothing is running on this pull request" in talk.answers()[0]
    assert not talk.has_ledger


def test_a_second_campaign_is_refused_while_one_is_open(at: At) -> None:
    talk = at("searching")
    comment = talk.says(NOOR, "/optimize softmax")
    assert said(talk.decides()) == ("refused", "already_running", "none")
    assert talk.reactions(comment) == ["-1"]
    assert len(talk.journals) == 1
    assert talk.campaign.stage is Stage.OPTIMIZING


def test_two_pull_requests_have_campaigns_of_their_own(at: At) -> None:
    talk = at("profile")
    talk.pushes(DANA, "# another\n", branch="other", path="notes.md")
    number = talk.hub.open_pull(DANA, "other", "main", "Another one")
    assert talk.asks(MIRA, "/optimize softmax", number).reason_code == "accepted"
    assert len(talk.journals) == 2
    assert talk.asks(MIRA, "/optimize approve", number).reason_code == "nothing_waiting"
    assert talk.asks(MIRA, "/optimize cancel", number).reason_code == "cancelled_by_user"
    assert talk.asks(MIRA, "/optimize approve").reason_code == "approved", "the first goes on untouched"


# The head moves


def test_an_answer_to_a_head_that_moved_ends_the_campaign(at: At) -> None:
    talk = at("winner")
    text = (talk.repo.read(talk.head, PATH) or b"").decode()
    moved = talk.pushes(DANA, text + "# another kernel\n")
    assert said(talk.asks(MIRA, "/optimize approve")) == ("acted", "ref_changed", "none")
    assert talk.ended == (Stage.ENDED, Outcome.REVERTED, ReasonCode.REF_CHANGED)
    assert talk.head == moved
    assert f"head is now `{moved[:7]}`" in talk.answers()[-1]
