"""The ground moves under a campaign: pushes, rebases, other branches, closed pull requests, forks that go away."""

from __future__ import annotations

from bot.model.campaign import Outcome, Stage
from bot.model.reasons import ReasonCode
from tests.zones import gpu
from tests.zones.conversation import DANA, KERNEL, LEE, MIRA, NOOR, PATH, PULL, Conversation, said
from tests.zones.places import At

ENDED = (Stage.ENDED, Outcome.REVERTED)


def again(talk: Conversation, sha: str = "") -> bool:
    """Whether the last answer offers the line that starts anew."""
    return f"```\n/optimize {KERNEL}{f' sha={sha}' if sha else ''}\n```" in talk.answers()[-1]


# Harmless


def test_an_answer_after_a_harmless_move_counts_where_the_question_still_stands(at: At) -> None:
    talk = at("winner")
    moved = talk.pushes(DANA, "# notes\n", path="notes.md")
    assert said(talk.asks(MIRA, "/optimize approve")) == ("acted", "approved", "measure")
    campaign = talk.campaign
    assert campaign.pull is not None and campaign.pull.head_sha == moved
    assert talk.branches[f"optimize/{campaign.id}"], "the lineage of the old head"
    assert talk.finishes().pinned_sha == moved
    assert talk.repo.parents(talk.branches[f"optimize/{campaign.id}"]) != (), "and that of the new one"
    talk.asks(NOOR, "/optimize approve")
    assert talk.push().reason_code == "pushed"
    assert talk.repo.parents(talk.head) == (moved,)


def test_an_approval_of_the_old_head_is_told_that_it_will_be_asked_again(at: At) -> None:
    talk = at("final")
    moved = talk.pushes(DANA, "# notes\n", path="notes.md")
    report = talk.asks(NOOR, "/optimize approve")
    assert (report.reason_code, report.stage, report.next) == ("repinned", Stage.FINALIZING, "measure")
    assert any(f"the head moved to {moved[:7]}" in answer for answer in talk.answers())
    assert talk.is_untouched is False and talk.head == moved


def test_a_rebase_that_leaves_the_kernel_alone_is_harmless_too(at: At) -> None:
    """A force-push: the new head does not descend from the old one."""
    talk = at("winner")
    base = talk.repo.parents(talk.head)[0]
    same = {PATH: talk.repo.read(talk.head, PATH) or b""}
    moved = talk.repo.commit_files(base, same, "Amended\n", author=(DANA, "d@example.org"), date="2026-01-03T00:00:00Z")
    talk.hub.history.set_ref("refs/heads/topic", moved)
    assert talk.asks(MIRA, "/optimize approve").pinned_sha == moved


def test_results_of_a_job_that_ran_at_the_old_head_are_kept_when_the_move_was_harmless(at: At) -> None:
    talk = at("searching")
    facts = gpu.searched(talk.campaign)
    talk.pushes(DANA, "# notes\n", path="notes.md")
    assert talk.asks(MIRA, f"/optimize try {talk.head}").reason_code == "accepted"
    assert talk.campaign.pull is not None and talk.campaign.pull.head_sha == talk.head
    talk.publishes(talk.leaves(facts))
    assert len(talk.campaign.rounds) == 3


def test_the_tests_of_the_old_head_are_not_taken_for_those_of_the_new_one(at: At) -> None:
    talk = at("finishing")
    old = talk.leaves(gpu.finished(talk.campaign))
    talk.pushes(DANA, "# notes\n", path="notes.md")
    assert talk.reviewed_by(NOOR, "APPROVE").reason_code == "repinned", "whatever wakes a job, it looks"
    assert talk.campaign.order is not None and talk.campaign.order.id.endswith("-4-finalize")
    assert talk.publishes(old).next == "measure"
    assert talk.campaign.finalization is None
    assert [order for order, _ in talk.campaign.spent][-1].endswith("-3-finalize"), "and it is paid for"
    assert talk.finishes().stage is Stage.AWAIT_FINAL


# Not harmless


def test_a_stranger_s_new_commit_never_runs_unnamed(at: At) -> None:
    """However harmless it looks: on a fork the tests run at the commit that somebody named, and at no other."""
    talk = at("opened")
    fork = talk.hub.fork(LEE)
    head = talk.hub.push(LEE, "mine", {PATH: b"# mine\n" + (talk.repo.read("main", PATH) or b"")}, "Mine\n", repo=fork)
    number = talk.hub.open_pull(LEE, "mine", "main", "From a fork", head_repo=fork)
    assert talk.asks(MIRA, f"/optimize {KERNEL} sha={head}", number).reason_code == "accepted"
    assert talk.campaign.policy.oracle == "target", "nor do a stranger's own tests decide"
    moved = talk.hub.push(LEE, "mine", {"notes.md": b"mine\n"}, "More\n", repo=fork)
    report = talk.profiles()
    assert (report.reason_code, report.next) == ("ref_changed", "none")
    assert f"```\n/optimize {KERNEL} sha={moved}\n```" in talk.answers(number)[-1]


def test_a_writer_who_is_none_any_more_counts_as_a_stranger(at: At) -> None:
    talk = at("profile")
    talk.hub.add_user(DANA, "read")
    moved = talk.pushes(DANA, "# notes\n", path="notes.md")
    assert talk.asks(MIRA, "/optimize approve").reason_code == "ref_changed"
    assert again(talk, moved)
    refusal = talk.asks(MIRA, f"/optimize {KERNEL}")
    assert said(refusal) == ("refused", "fork_sha_required", "none")
    assert "somebody without write access" in talk.answers()[-1]


def test_a_pull_request_that_is_closed_during_a_job_gets_its_result_and_no_question(at: At) -> None:
    talk = at("searching")
    talk.hub.close_pull(PULL)
    assert talk.searches().reason_code == "pr_closed"
    assert talk.ended == (*ENDED, ReasonCode.PR_CLOSED)
    assert not any("Take it?" in answer for answer in talk.answers())
    assert len(talk.campaign.rounds) == 3, "what was found stays in the record"


def test_another_target_branch_ends_it(at: At) -> None:
    talk = at("winner")
    talk.pushes(MIRA, "# release\n", branch="release", path="release.md")
    talk.hub.world.pulls()[0][1].base_ref = "release"
    assert talk.asks(MIRA, "/optimize approve").reason_code == "base_changed"
    assert talk.ended == (*ENDED, ReasonCode.BASE_CHANGED)
    assert "it was for main and is for release now" in talk.answers()[-1].lower()
    assert again(talk)


def test_a_target_branch_that_was_renamed_is_the_same_one(at: At) -> None:
    talk = at("winner")
    talk.git("branch", "-m", "main", "trunk")
    talk.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    talk.hub.world.pulls()[0][1].base_ref = "trunk"
    assert talk.asks(MIRA, "/optimize approve").reason_code == "approved"
    assert talk.campaign.pull is not None and talk.campaign.pull.base_ref == "trunk"


def test_a_fork_that_is_deleted_during_a_job_ends_it(at: At) -> None:
    talk = at("opened")
    fork = talk.hub.fork(LEE)
    head = talk.hub.push(LEE, "mine", {"notes.md": b"mine\n"}, "Mine\n", repo=fork)
    number = talk.hub.open_pull(LEE, "mine", "main", "From a fork", head_repo=fork)
    talk.asks(MIRA, f"/optimize {KERNEL} sha={head}", number)
    facts = gpu.profiled(talk.campaign, talk.repo)
    talk.hub.delete_fork(fork)
    assert talk.publishes(talk.leaves(facts)).reason_code in ("head_repo_missing", "pr_closed")
    assert talk.campaign.stage is Stage.ENDED
