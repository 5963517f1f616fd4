"""What people ask once something has happened: why was it dropped, do that again, begin anew. And what stays open."""

from __future__ import annotations

import pytest

from bot.errors import ForgeError
from bot.forge.rest import GithubForge
from bot.model.campaign import Outcome, Stage, Zone
from bot.model.facts import Cancelled, EffectRequested
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from bot.render import view
from tests.zones import gpu
from tests.zones.conversation import DANA, LEE, MIRA, NOOR, PATH, PULL, Conversation, said
from tests.zones.places import At

MOST_VISIBLE = 3


def push_another_kernel(talk: Conversation) -> str:
    text = (talk.repo.read(talk.head, PATH) or b"").decode()
    return talk.pushes(DANA, text + "# another kernel\n")


# Explain


def test_everybody_may_hear_why_a_variant_was_kept_or_dropped(at: At) -> None:
    talk = at("winner")
    assert said(talk.asks(LEE, "/optimize explain v2")) == ("answered", "explain_completed", "none")
    page = talk.answers()[-1]
    assert page.startswith("🔎 **`rms_norm`, v2: one warp; dropped**")
    assert "It crashed." in page and "Why it was dropped:" in page
    assert "+# v2 takes one warp" in page, "the change itself"
    assert "it moves bytes twice" in page, "the idea, as it was written down"
    talk.asks(MIRA, "/optimize explain")
    assert "v3: wider loads; recommended" in talk.answers()[-1], "the best one, where none is named"
    assert talk.asks(MIRA, "/optimize explain v9").reason_code == "no_such_variant"
    assert "/optimize explain v3" in talk.answers()[-1]


def test_the_lines_of_one_variant_count_as_its_commit_does(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "unified_diff", lambda *_, **__: ["+ of the standard library"] * 7)
    talk = at("winner")
    talk.asks(MIRA, "/optimize explain v1")
    added, removed, _ = talk.git("diff", "--numstat", talk.head, f"optimize/{talk.campaign.id}~1").split("\t")
    assert f"The change against v0 (+{added} -{removed})" in talk.answers()[-1]
    assert talk.campaign.stage is Stage.AWAIT_WINNER


# Retry


def test_a_job_that_was_lost_is_done_again_at_the_same_commit(at: At) -> None:
    talk = at("searching")
    pinned = talk.head
    assert talk.publishes(talk.leaves([])).reason_code == "artifact_missing"
    assert talk.ended == (Stage.ENDED, Outcome.FAILED, ReasonCode.ARTIFACT_MISSING)
    assert "\n/optimize retry\n" in talk.answers()[-1]
    assert talk.reactions(talk.campaign.comment_id) == ["confused"]
    assert len(talk.visible()) == 2, "the status and the end"

    report = talk.asks(NOOR, "/optimize retry")
    assert said(report) == ("acted", "accepted", "measure")
    assert (report.stage, report.pinned_sha) == (Stage.OPTIMIZING, pinned)
    assert report.order is not None and report.order.id == f"{talk.campaign.id}-3-optimize"
    assert talk.campaign.profile is not None, "what was found stays"
    assert talk.reactions(talk.campaign.comment_id) == ["eyes"]
    assert len(talk.visible()) == 1, "the end that was taken back is folded away"

    talk.searches([gpu.BROKEN])
    assert talk.ended == (Stage.ENDED, Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT)
    assert talk.reactions(talk.campaign.comment_id) == ["+1"]
    assert "A job that had failed was done again, 1 time." in talk.answers()[-1], "a second end is said as well"


def test_a_retry_that_is_delivered_twice_is_one_retry(at: At) -> None:
    talk = at("profiling")
    talk.publishes(talk.leaves([]))
    comment = talk.says(MIRA, "/optimize retry")
    assert talk.decides().reason_code == "accepted"
    assert talk.decides(talk.event_of(comment)).reason_code == "duplicate_event"
    assert (talk.campaign.retries, len(talk.campaign.orders)) == (1, 2)


# Restart


def test_when_the_head_moved_a_retry_points_to_a_restart_that_keeps_the_options(at: At) -> None:
    talk = at("searching")
    talk.publishes(talk.leaves([]))
    first, moved = talk.campaign, push_another_kernel(talk)
    assert said(talk.asks(MIRA, "/optimize retry")) == ("refused", "ref_changed", "none")
    assert "/optimize restart" in talk.answers()[-1]

    assert said(talk.asks(NOOR, "/optimize restart")) == ("acted", "accepted", "measure")
    assert len(talk.journals) == 2
    again = talk.campaign
    assert (again.restarts, again.command, again.requester.login if again.requester else "") == (
        first.id,
        first.command,
        NOOR,
    )
    assert again.pull is not None and again.pull.head_sha == moved
    assert any(f"Takes the place of campaign `{first.id}`" in answer for answer in talk.answers())


def test_a_restart_ends_the_open_campaign_and_says_so(at: At) -> None:
    talk = at("profile")
    first = talk.campaign.id
    assert talk.asks(MIRA, "/optimize restart").reason_code == "accepted"
    assert talk.journals.keys() == {first, talk.campaign.id}
    assert talk.campaign.stage is Stage.PROFILING
    assert any("Begun anew on the current head by mira" in answer for answer in talk.answers())
    assert len(talk.visible()) == 1, "only the new campaign's status"


def test_a_restart_cut_short_after_the_old_end_begins_when_it_is_delivered_again(at: At) -> None:
    talk = at("profile")
    comment = talk.says(MIRA, "/optimize restart")
    mira = Actor(id=talk.hub.user_id(MIRA), login=MIRA)
    talk.writes_down(Cancelled(actor=mira, comment_id=comment, detail="begun anew"))
    assert talk.decides(talk.event_of(comment)).reason_code == "accepted"
    assert [c.stage for c in (talk.campaign,)] == [Stage.PROFILING]
    assert talk.decides(talk.event_of(comment)).reason_code == "duplicate_event"
    assert len(talk.journals) == 2


def test_a_push_that_has_begun_is_not_restarted_away(at: At) -> None:
    talk = at("pushing")
    talk.writes_down(EffectRequested(key="push", zone=Zone.PUSH))
    assert talk.asks(MIRA, "/optimize restart").reason_code == "nothing_waiting"
    assert (len(talk.journals), talk.campaign.stage) == (1, Stage.PUSHING)


# Who may not write here


def test_an_outsider_is_told_why_once_and_then_by_a_reaction(at: At) -> None:
    talk = at("opened")
    first = talk.says(LEE, "/optimize rms_norm")
    assert talk.decides().reason_code == "permission_denied"
    assert "needs the role write, maintain or admin; yours is read" in talk.answers()[0]
    again = talk.says(LEE, "/optimize softmax")
    assert talk.decides().reason_code == "permission_denied"
    wrong = talk.says(LEE, "/optimize rms_nrm")
    assert talk.decides().reason_code == "unknown_kernel"
    assert len(talk.answers()) == 1
    assert [talk.reactions(comment) for comment in (first, again, wrong)] == [["-1"], ["-1"], ["confused"]]
    assert talk.asks(MIRA, "/optimize explain v1").reason_code == "no_campaign"
    assert len(talk.answers()) == 2, "who works here is answered each time"
    assert not talk.has_ledger


def test_an_explanation_is_due_on_every_pull_request(at: At) -> None:
    talk = at("opened")
    talk.pushes(DANA, "# another\n", branch="other", path="notes.md")
    number = talk.hub.open_pull(DANA, "other", "main", "Another one")
    for pull in (PULL, number):
        talk.asks(LEE, "/optimize rms_norm", pull)
        assert len(talk.answers(pull)) == 1


def test_an_outsider_who_keeps_asking_fills_one_comment_a_question(at: At) -> None:
    talk = at("winner")
    before = len(talk.answers())
    for text in ("status", "explain v1", "explain v2", "status"):
        assert talk.asks(LEE, f"/optimize {text}").decision == "answered"
    assert len(talk.answers()) == before + 2
    assert "v2: one warp" in talk.answers()[-1], "brought up to date"


# What stays in sight


def test_a_campaign_that_somebody_ends_shows_three_comments_at_most(at: At) -> None:
    talk = at("final")
    talk.asks(MIRA, "/optimize reject")
    assert len(talk.visible()) <= MOST_VISIBLE
    assert "nothing was pushed" in talk.visible()[-1]


def test_the_end_of_a_cancelled_campaign_says_it_all_and_its_status_is_folded_away(at: At) -> None:
    talk = at("winner")
    talk.asks(MIRA, "/optimize cancel")
    (only,) = talk.visible()
    assert only == talk.answers()[-1] and "cancelled by mira; nothing was pushed" in only


def test_a_comment_that_cannot_be_folded_stops_nothing(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: GithubForge, comment_id: int, why: str = "OUTDATED") -> None:
        raise ForgeError("GitHub answered 403, Resource not accessible by integration", hint="nothing")

    monkeypatch.setattr(GithubForge, "minimize", refuse)
    talk = at("profile")
    assert talk.asks(MIRA, "/optimize cancel").reason_code == "cancelled_by_user"
    assert talk.ended == (Stage.ENDED, Outcome.CANCELLED, ReasonCode.CANCELLED_BY_USER)
    assert len(talk.visible()) == 3
