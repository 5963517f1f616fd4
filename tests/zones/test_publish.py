"""Publish joins a segment once, shows what was found, and goes on where a job before it died."""

from __future__ import annotations

import pytest

from bot.errors import ForgeError, OperatorError
from bot.ledger.layout import campaign_dir
from bot.localhub.wire import Request, Response, refusal
from bot.model.campaign import Outcome, Stage
from bot.model.facts import HeadMoved
from bot.model.reasons import ReasonCode
from tests.zones import gpu
from tests.zones.conversation import DANA, LEE, MIRA, PATH, Conversation
from tests.zones.places import At


def test_the_lineage_has_one_commit_for_each_accepted_round(at: At) -> None:
    talk = at("winner")
    lineage = f"optimize/{talk.campaign.id}"
    subjects = talk.git("log", "--reverse", "--format=%s", f"topic..{lineage}").splitlines()
    assert [subject.partition(": ")[2] for subject in subjects] == [gpu.BETTER.title, gpu.BEST.title]
    last, first = talk.git("rev-list", f"topic..{lineage}").splitlines()
    assert talk.repo.parents(first) == (talk.head,)
    assert talk.repo.changed(talk.head, last) == (PATH,)
    for commit, idea in ((first, gpu.BETTER), (last, gpu.BEST)):
        assert idea.line.encode() in (talk.repo.read(commit, PATH) or b"")
        assert f"Kernelwright-Campaign: {talk.campaign.id}" in talk.repo.message(commit)


def test_records_and_plots_stand_in_the_commit_that_joined_the_segment(at: At) -> None:
    talk = at("winner")
    tip, folder = talk.branches["kernelwright/ledger"], campaign_dir(talk.campaign.id)
    names = {path.removeprefix(f"{folder}/") for path in talk.repo.list(tip, folder)}
    assert {"journal.jsonl", "plots/variants-light.png", "plots/speedup-dark.png"} <= names
    joined = next(c for c in talk.git("rev-list", tip).splitlines() if "segment_joined" in talk.repo.message(c))
    assert f"{folder}/plots/variants-light.png" in talk.repo.changed(talk.repo.parents(joined)[0], joined)
    assert f"{folder}/journal.jsonl" in talk.repo.changed(talk.repo.parents(joined)[0], joined)


def test_publishing_twice_joins_once(at: At) -> None:
    talk = at("profiling")
    segment = talk.leaves(gpu.profiled(talk.campaign, talk.repo))
    first = talk.publishes(segment)
    before = talk.facts(), talk.answers(), talk.branches
    again = talk.publishes(segment)
    assert (again.stage, again.next) == (first.stage, first.next) == (Stage.AWAIT_PROFILE, "wait")
    assert (talk.facts(), talk.answers(), talk.branches) == before
    assert talk.facts().count("segment_joined") == 1


def test_publishing_twice_does_not_take_the_old_segment_for_the_next_order(at: At) -> None:
    """In an autonomous campaign the next order is open already when a job that died is run again."""
    talk = at("opened")
    talk.asks(MIRA, "/optimize rms_norm mode=autonomous")
    segment = talk.leaves(gpu.profiled(talk.campaign, talk.repo))
    first = talk.publishes(segment)
    again = talk.publishes(segment)
    assert (again.reason_code, again.order) == (ReasonCode.ACCEPTED, first.order)
    assert talk.campaign.stage is Stage.OPTIMIZING


def test_a_late_segment_of_a_cancelled_campaign_is_dropped(at: At) -> None:
    talk = at("profiling")
    segment = talk.leaves(gpu.profiled(talk.campaign, talk.repo))
    talk.asks(MIRA, "/optimize cancel")
    before = talk.facts(), talk.answers(), talk.branches
    assert talk.publishes(segment).next == "none"
    assert talk.campaign.outcome is Outcome.CANCELLED
    assert (talk.facts(), talk.answers(), talk.branches) == before


def moved(talk: Conversation, now: str) -> None:
    campaign = talk.campaign
    assert (campaign.stage, campaign.outcome, campaign.reason) == (
        Stage.ENDED,
        Outcome.REVERTED,
        ReasonCode.REF_CHANGED,
    )
    assert campaign.detail == now
    assert f"head is now `{now[:7]}`" in talk.answers()[-1]


def test_a_head_that_moved_during_the_job_gets_its_result_and_no_question(at: At) -> None:
    talk = at("searching")
    now = talk.pushes(DANA, "# something else\n")
    report = talk.searches([gpu.BEST])
    assert (report.reason_code, report.next) == (ReasonCode.REF_CHANGED, "none")
    moved(talk, now)
    assert "1.56x (estimated)" in talk.answers()[-1]
    assert "segment_joined" in talk.facts()[-20:]
    assert talk.head == now
    assert not any("Take it?" in answer for answer in talk.answers())


def test_a_head_that_was_replaced_during_the_job_is_told_apart_too(at: At) -> None:
    """The pinned commit is on no branch any more."""
    talk = at("profiling")
    base = talk.branches["main"]
    now = talk.repo.commit_files(
        base, {"a.py": b""}, "Again\n", author=(DANA, "d@example.org"), date="2026-01-03T00:00:00Z"
    )
    facts = gpu.profiled(talk.campaign, talk.repo)
    talk.hub.history.set_ref("refs/heads/topic", now)
    assert talk.publishes(talk.leaves(facts)).reason_code == ReasonCode.REF_CHANGED
    moved(talk, now)


def test_the_head_of_a_fork_is_read_though_no_branch_of_ours_holds_it(at: At) -> None:
    talk = at("opened")
    fork = talk.hub.fork(LEE)
    head = talk.hub.push(LEE, "mine", {"notes.md": b"mine\n"}, "Mine\n", repo=fork)
    number = talk.hub.open_pull(LEE, "mine", "main", "From a fork", head_repo=fork)
    talk.asks(MIRA, f"/optimize rms_norm sha={head}", number)
    assert talk.profiles().stage is Stage.AWAIT_PROFILE
    assert talk.campaign.profile is not None


def test_a_fact_about_the_head_that_says_nothing_is_kept_as_ignored(at: At) -> None:
    talk = at("profile")
    talk.writes_down(HeadMoved(measured=talk.head, now=talk.head))
    assert talk.campaign.stage is Stage.AWAIT_PROFILE
    assert talk.campaign.ignored[-1].why == "the head did not move"


def test_publish_without_a_segment_goes_on_where_the_last_job_died(at: At) -> None:
    talk = at("profiling")
    segment = talk.leaves(gpu.profiled(talk.campaign, talk.repo))

    def no_more_comments(moment: str, request: Request) -> Response | None:
        posting = moment == "before" and request.method == "POST" and request.path.endswith("/comments")
        return refusal(422, "GitHub is in a bad mood") if posting else None

    talk.hub.inject(no_more_comments)
    with pytest.raises(ForgeError, match="bad mood"):
        talk.publishes(segment)
    assert talk.campaign.stage is Stage.AWAIT_PROFILE, "what was found out is safe"
    assert not any("Shall I go on?" in answer for answer in talk.answers())
    talk.hub.inject(None)
    assert talk.publishes().next == "wait"
    assert sum("Shall I go on?" in answer for answer in talk.answers()) == 1


def test_no_campaign_of_that_name_is_an_operator_s_mistake(at: At) -> None:
    with pytest.raises(OperatorError, match="no campaign c404"):
        at("opened").publishes(campaign="c404")


def test_a_rule_on_the_lineage_s_branches_costs_nobody_the_result(at: At) -> None:
    """The branch is a convenience; the ledger holds every variant."""
    talk = at("searching")
    hook = talk.hub.root / "hooks" / "pre-receive"
    rule = 'while read -r before after ref; do\n  case "$ref" in refs/heads/optimize/*) exit 1;; esac\ndone'
    hook.write_text(f"#!/bin/sh\n{rule}\n", encoding="utf-8")
    report = talk.searches()
    assert (report.stage, report.next) == (Stage.AWAIT_WINNER, "wait")
    assert "Take it?" in talk.answers()[-1]
    assert f"optimize/{talk.campaign.id}" not in talk.branches
    assert dict(talk.campaign.done)["lineage/v3"] == "the rules of the branch do not let us push it"
