"""Heads that move, forks and closed pull requests, as the workflow files play them.

Two campaigns are played from their comment to their end. Whatever may come between begins in a copy of the world as one
of their jobs found it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.git.repo import Repo
from bot.localhub.history import History
from bot.localhub.steps import Ran
from bot.model.campaign import Outcome
from bot.model.campaign import Stage as Where
from bot.model.reasons import ReasonCode
from tests.workflows.heads import (
    ENVIRONMENT,
    OWN_RULES,
    Turned,
    answers,
    changes_the_kernel,
    deletes_the_fork,
    keep,
    pinned_in,
    pull_of_a_fork,
    rewrites_at_the_push,
    turned,
    typed,
    write_telling_python,
)
from tests.workflows.stage import DANA, KERNEL, MIRA, PULL, Stage, told
from tests.zones.conversation import NOOR, PATH

ASKED = f"/optimize {KERNEL} mode=autonomous max_variants=1"
STARTED = [("decide", "success"), ("start", "success")]
ORDER = [("take", "success"), ("measure", "success"), ("publish", "success")]
PUSH = [("take", "success"), ("push", "success")]
OWN = ("kernelwright/", "optimize/")
"""How the names of the bot's own branches begin."""
Folders = pytest.TempPathFactory


def ended(stage: Stage) -> tuple[Outcome | None, ReasonCode | None, str | None]:
    assert stage.campaign.stage is Where.ENDED
    return stage.campaign.outcome, stage.campaign.reason, stage.campaign.pushed


def nothing_pushed(reason: ReasonCode) -> tuple[Outcome, ReasonCode, None]:
    return Outcome.REVERTED, reason, None


def measured(jobs: list[Ran]) -> list[Ran]:
    return [ran for ran in jobs if ran.job == "measure"]


# A branch of this repository


@dataclass
class Moved:
    """One campaign to its commit. A harmless push came between its question and the first Approve."""

    stage: Stage
    old: str
    new: str
    asked: list[Ran]
    early: list[Ran]
    """What mira's Approve of the old head did."""
    head_after_early: str
    stale: list[Ran]
    """What noor's did, once the new head was asked about."""
    stale_answer: str
    approved: list[Ran]
    searching: Path
    """The world as the second GPU job found it."""
    pushing: Path
    """And the push job."""


@pytest.fixture(scope="module")
def moved(tmp_path_factory: Folders, python: Path) -> Iterator[Moved]:
    folder = tmp_path_factory.mktemp("moved")
    stage, searching, pushing = Stage(folder / "stage", python), folder / "searching", folder / "pushing"
    keep(stage, searching, "measure", turn=2)
    asked, old = stage.says(MIRA, ASKED), stage.head
    new = stage.hub.push(DANA, "topic", {"notes.md": b"# notes\n"}, "Notes\n")
    stage.hub.review(MIRA, PULL, "APPROVE", commit=old)
    early, head_after_early = stage.plays(), stage.head
    stage.hub.review(NOOR, PULL, "APPROVE", commit=old)
    stale, stale_answer = stage.plays(), stage.answers()[-1]
    keep(stage, pushing, "push")
    approved = stage.approves(MIRA)
    yield Moved(
        *(stage, old, new, asked, early, head_after_early, stale, stale_answer, approved),
        searching=searching,
        pushing=pushing,
    )
    stage.close()


def test_a_harmless_move_ends_in_one_commit_on_the_new_head(moved: Moved) -> None:
    stage, repo = moved.stage, Repo(moved.stage.hub.bare)
    assert told(moved.approved) == [*STARTED, *PUSH]
    assert ended(stage) == (Outcome.PUSHED, ReasonCode.PUSHED, stage.head)
    assert repo.parents(stage.head) == (moved.new,), "a direct child of what the author pushed last"
    assert repo.parents(moved.new) == (moved.old,), "and one commit in all"
    assert repo.changed(moved.new, stage.head) == (PATH,)
    assert f"Judged-at: {moved.old}" in repo.message(stage.head), "where its figures come from"


def test_an_approval_of_the_old_head_pushes_nothing_and_has_the_tests_run_again(moved: Moved) -> None:
    assert told(moved.early) == [*STARTED, *ORDER]
    assert moved.early[0].report["reason_code"] == ReasonCode.REPINNED
    assert moved.head_after_early == moved.new
    before, again = (answer for answer in moved.stage.answers() if "Push it?" in answer)
    assert f"over `{moved.old[:7]}`" in before
    assert f"over `{moved.new[:7]}`" in again
    assert typed(again) == ["/optimize approve v1", "/optimize reject"]


def test_the_gpu_job_after_a_harmless_move_starts_from_the_new_head(moved: Moved) -> None:
    heads = [pinned_in(ran).resolve("HEAD") for ran in measured(moved.asked + moved.early)]
    assert heads == [moved.old, moved.old, moved.old, moved.new]


def test_a_review_of_the_old_head_that_comes_after_the_new_question_is_explained(moved: Moved) -> None:
    assert told(moved.stale) == [("decide", "success")]
    assert moved.stale[0].report["reason_code"] == ReasonCode.APPROVAL_STALE
    assert f"this review is of {moved.old[:7]}, and the question is about {moved.new[:7]}" in moved.stale_answer
    assert typed(moved.stale_answer) == ["/optimize approve"]
    assert [answer.actor.login for answer in moved.stage.campaign.answers] == [MIRA], "of the new head alone"


@pytest.fixture(scope="module")
def changed(moved: Moved, tmp_path_factory: Folders, python: Path) -> Iterator[Turned]:
    with turned(moved.searching, tmp_path_factory.mktemp("changed"), python, "measure", changes_the_kernel) as story:
        yield story


def test_a_kernel_that_changes_while_it_is_measured_ends_the_campaign(changed: Turned, moved: Moved) -> None:
    stage = changed.stage
    assert told(changed.jobs) == ORDER
    assert pinned_in(changed.jobs[1]).resolve("HEAD") == moved.old, "what was ordered, though the head had moved"
    assert ended(stage) == nothing_pushed(ReasonCode.REF_CHANGED)
    assert stage.head == changed.head
    assert len(stage.campaign.rounds) == 1, "what was found stays in the record"


def test_its_end_names_both_heads_and_one_line_to_paste(changed: Turned, moved: Moved) -> None:
    answer = changed.stage.answers()[-1]
    assert f"at `{moved.old[:7]}`, head is now `{changed.head[:7]}`; nothing was pushed.** (`ref_changed`)" in answer
    assert typed(answer) == [ASKED]


# Between the approval and the push


@pytest.fixture(scope="module")
def overtaken(moved: Moved, tmp_path_factory: Folders, python: Path) -> Iterator[Turned]:
    with turned(moved.pushing, tmp_path_factory.mktemp("overtaken"), python, "push", rewrites_at_the_push) as story:
        yield story


def test_a_force_push_at_the_last_moment_is_refused_by_the_lease(overtaken: Turned, moved: Moved) -> None:
    stage = overtaken.stage
    assert overtaken.head == moved.new, "every look of the push job saw what had been approved"
    assert told(overtaken.jobs) == PUSH
    assert ended(stage) == nothing_pushed(ReasonCode.REF_CHANGED)
    assert Repo(stage.hub.bare).message(stage.head) == "Rewritten\n"
    assert f"head is now `{stage.head[:7]}`; nothing was pushed.** (`ref_changed`)" in stage.answers()[-1]
    assert typed(stage.answers()[-1]) == ["/optimize restart"]


# A fork


@dataclass
class Forked:
    """The campaign of an outsider's pull request, from a command without its commit to the patch."""

    stage: Stage
    number: int
    fork: str
    head: str
    before: dict[str, str]
    """The branches before anybody spoke."""
    refused: list[Ran]
    asked: list[Ran]
    approved: list[Ran]
    searching: Path
    pushing: Path


def branches(stage: Stage, repo: str = "") -> dict[str, str]:
    """Without those that are the bot's own."""
    heads = History(stage.hub.root / "git" / f"{repo or stage.hub.repo}.git").heads()
    named = {ref.removeprefix("refs/heads/"): sha for ref, sha in heads.items() if ref.startswith("refs/heads/")}
    return {name: sha for name, sha in named.items() if not name.startswith(OWN)}


@pytest.fixture(scope="module")
def forked(tmp_path_factory: Folders, python: Path) -> Iterator[Forked]:
    folder = tmp_path_factory.mktemp("forked")
    stage, searching, pushing = Stage(folder / "stage", python), folder / "searching", folder / "pushing"
    telling = str(write_telling_python(folder / "telling", python))
    stage.runner = stage.runner_with(KERNELWRIGHT_PYTHON=telling, KERNELWRIGHT_HOSTED_PYTHON=telling)
    fork, number = pull_of_a_fork(stage)
    before, head = branches(stage), branches(stage, fork)["mine"]
    stage.hub.comment(MIRA, number, ASKED)
    refused = stage.plays()
    (line,) = typed(answers(stage, number)[-1])
    keep(stage, searching, "measure", turn=2)
    stage.hub.comment(MIRA, number, line)
    asked = stage.plays()
    keep(stage, pushing, "push")
    stage.hub.review(MIRA, number, "APPROVE")
    yield Forked(stage, number, fork, head, before, refused, asked, stage.plays(), searching, pushing)
    stage.close()


def test_a_fork_is_not_begun_without_the_commit_that_somebody_looked_at(forked: Forked) -> None:
    """Threat: the head moves between look and act."""
    assert told(forked.refused) == [("decide", "success")]
    assert forked.refused[0].outputs["reason_code"] == ReasonCode.FORK_SHA_REQUIRED
    answer = answers(forked.stage, forked.number)[0]
    assert "a pull request from a fork needs the commit you looked at" in answer
    assert typed(answer) == [f"{ASKED} sha={forked.head}"]


def test_the_line_that_the_refusal_offers_begins_the_campaign(forked: Forked) -> None:
    assert told(forked.asked) == [*STARTED, *ORDER * 3]
    assert told(forked.approved) == [*STARTED, *PUSH]


def test_the_gpu_job_has_the_fork_s_commit_and_the_rules_of_the_default_branch(forked: Forked) -> None:
    main = Repo(forked.stage.hub.bare)
    assert len(measured(forked.asked)) == 3
    for ran in measured(forked.asked):
        workspace = ran.folder / "workspace"
        assert Repo(workspace).resolve("HEAD") == main.resolve("refs/heads/main")
        assert pinned_in(ran).resolve("HEAD") == forked.head
        assert (workspace / "kernelwright-pinned" / "kernelwright.toml").read_bytes() == OWN_RULES
        assert (workspace / "kernelwright.toml").read_bytes() == main.read("main", "kernelwright.toml")
    assert forked.stage.campaign.policy.oracle == "target", "nor do a stranger's own tests decide"


def test_no_token_reaches_the_job_that_holds_a_stranger_s_code(forked: Forked) -> None:
    """Threat: token theft. Every variable that the zone of a job was called with, and every file that it leaves."""
    tokens = forked.stage.hub.world.tokens
    may_push = {text for text, token in tokens.items() if "push" in token.scopes}
    given = {
        ran.job: {text for text in tokens if text in (ran.temp / ENVIRONMENT).read_text(encoding="utf-8")}
        for ran in forked.asked + forked.approved
        if ran.zone
    }
    assert given.pop("measure") == set()
    assert set(given) == {"decide", "take", "publish", "push"}
    assert all(given.values()), "they speak to GitHub"
    assert [job for job, held in given.items() if held & may_push] == ["push"]
    for ran in measured(forked.asked):
        left = b"".join(path.read_bytes() for path in ran.folder.rglob("*") if path.is_file())
        assert [text for text in tokens if text.encode() in left] == []


def test_the_winner_of_a_fork_is_a_patch_and_every_branch_stays(forked: Forked) -> None:
    stage = forked.stage
    assert ended(stage) == nothing_pushed(ReasonCode.SUGGESTION_POSTED)
    assert branches(stage) == forked.before
    assert branches(stage, forked.fork) == {**forked.before, "mine": forked.head}
    assert len(stage.hub.world.threads) == 2, "and no pull request of ours"
    said = answers(stage, forked.number)[-1]
    assert "I pushed nothing: the head of this pull request is in a fork" in said


def test_the_line_of_the_patch_makes_the_commit_that_was_measured(forked: Forked, tmp_path: Path) -> None:
    """As it stands in the answer, in a clone as the answer asks for one."""
    (line,) = typed(answers(forked.stage, forked.number)[-1])
    clone = f"git clone -q '{forked.stage.hub.bare}' here && cd here"
    pull = f"git fetch -q origin refs/pull/{forked.number}/head && git checkout -q FETCH_HEAD"
    mira = "git config user.name Mira && git config user.email mira@example.org"
    script = f"{clone} && {pull} && {mira} && {line}"
    subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    made, final = Repo(tmp_path / "here"), forked.stage.campaign.finalization
    assert made.parents("HEAD") == (forked.head,)
    assert made.changed(forked.head, "HEAD") == (PATH,)
    assert final is not None
    assert made.read("HEAD", PATH) == final.files[0].text.encode()


@pytest.fixture(scope="module")
def deleted(forked: Forked, tmp_path_factory: Folders, python: Path) -> Iterator[Turned]:
    with turned(forked.searching, tmp_path_factory.mktemp("deleted"), python, "measure", deletes_the_fork) as story:
        yield story


@pytest.fixture(scope="module")
def gone(forked: Forked, tmp_path_factory: Folders, python: Path) -> Iterator[Turned]:
    with turned(forked.pushing, tmp_path_factory.mktemp("gone"), python, "push", deletes_the_fork) as story:
        yield story


@pytest.mark.parametrize(("story", "jobs"), [("deleted", ORDER), ("gone", PUSH)])
def test_a_fork_that_goes_away_ends_the_campaign(
    story: str, jobs: list[tuple[str, str]], forked: Forked, request: pytest.FixtureRequest
) -> None:
    """While it is measured, or after the approval: nobody is told that the approval was at fault."""
    found: Turned = request.getfixturevalue(story)
    assert told(found.jobs) == jobs
    assert ended(found.stage) == nothing_pushed(ReasonCode.HEAD_REPO_MISSING)
    assert branches(found.stage) == forked.before
    assert len(found.stage.campaign.rounds) == 1, "what was found stays in the record"
    said = answers(found.stage, forked.number)[-1]
    assert "the fork this pull request came from is gone; nothing was pushed" in said
    assert "Next: push the branch to this repository, open a new pull request from it and ask there." in said


def test_the_commit_of_a_fork_that_went_away_was_measured_all_the_same(deleted: Turned, forked: Forked) -> None:
    assert pinned_in(deleted.jobs[1]).resolve("HEAD") == forked.head, "GitHub keeps what a pull request brought"


# All of them

STORIES = ("moved", "changed", "overtaken", "forked", "deleted", "gone")


@pytest.mark.parametrize("story", STORIES)
def test_nothing_is_asked_of_github_that_is_not_there_and_every_comment_ends_with_what_can_be_typed(
    story: str, request: pytest.FixtureRequest
) -> None:
    stage: Stage = request.getfixturevalue(story).stage
    assert stage.hub.unknown == []
    said = [comment.body for comment in stage.hub.world.comments.values() if "kernelwright:v1" in comment.body]
    assert len(said) >= 2, "a status and a result"
    for body in said:
        assert body.rstrip().rpartition("\n")[2].startswith("commands: `/optimize ")
    for body in (body for body in said if "nothing was pushed" in body or "🚫" in body):
        assert "\nNext: " in body
