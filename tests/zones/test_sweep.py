"""A night on the embedded GitHub: the order, one campaign through all four zones, its branch and its pull request."""

from __future__ import annotations

import json

import pytest

from bot.errors import OperatorError, UserError
from bot.localhub.wire import Request, Response
from bot.localhub.wire import refusal as refusal_of
from bot.model.campaign import Origin, Outcome, Stage
from bot.model.facts import Pushed, PushRefused
from bot.model.reasons import ReasonCode
from bot.zones.doors import Doors, open_doors
from bot.zones.offer import push_winner
from bot.zones.push import _build
from tests.zones.conversation import BOT, DANA, KERNEL, MIRA, PATH
from tests.zones.night import BRANCH, FIRST, POLICY, SECOND, SWEEP, Night
from tests.zones.nights import Begin, begin

__all__ = ["begin"]


# Whether there is a sweep at all


def test_until_the_repository_allows_it_nothing_happens(begin: Begin) -> None:
    night = begin("allowed").rules(POLICY)
    before = night.branches
    for report in (night.plans(), night.starts(), night.tells()):
        assert (report.decision, report.reason_code) == ("ignored", "disabled")
    assert "[sweep] enabled = true" in night.plans().detail
    assert (night.branches, night.issues) == (before, [])


def test_the_order_is_explained_and_becomes_a_matrix(begin: Begin) -> None:
    report = begin("allowed").plans()
    cells = json.loads(report.matrix)["include"]
    assert (report.decision, report.count) == ("acted", len(cells))
    assert {cell["kernel"] for cell in cells} >= {"geglu", "jsd", "rms_norm", "softmax"}
    assert next(cell for cell in cells if cell["kernel"] == KERNEL) == {
        "campaign": FIRST,
        "kernel": KERNEL,
        "pool": "hopper",
        "labels": ["self-hosted", "gpu", "hopper"],
    }
    assert len(report.lines) == len(cells) and all("never swept" in line for line in report.lines)


def test_what_changed_comes_before_what_did_not(begin: Begin) -> None:
    night = begin("swept").sleeps()
    night.hub.merge_pull(MIRA, night.own_pulls[0])
    report = night.trusts().plans()
    mine = next(line for line in report.lines if line.split()[1] == KERNEL)
    assert "50 because it changed since then" in mine and "% of the roof" in mine and "days since" in mine


def test_a_name_of_nobody_s_campaign_is_the_caller_s_to_mend(begin: Begin) -> None:
    night = begin("allowed")
    for name in ("c1", "sweep-20260102-hopper-nothing"):
        with pytest.raises(UserError):
            night.starts(name)
    assert night.starts("sweep-20260102-ampere-rms_norm").reason_code == "disabled", "there is no such pool"


# People go first


def test_a_person_s_order_for_the_pool_goes_first_each_time(begin: Begin) -> None:
    night = begin("allowed")
    assert night.starts().next == "measure"
    asked = night.asks(MIRA, "/optimize jsd gpu=hopper")
    for name in (FIRST, "sweep-20260102-hopper-softmax"):
        report = night.starts(name)
        assert (report.decision, report.reason_code, report.next, report.order) == (
            "ignored",
            "already_running",
            "none",
            None,
        )
        assert asked.campaign in report.detail
    assert set(night.journals) == {asked.campaign, FIRST}


def test_a_kernel_that_somebody_works_on_is_left_out(begin: Begin) -> None:
    night = begin("allowed")
    every = night.plans().count
    night.rules(POLICY + SWEEP + 'ampere = ["self-hosted", "gpu", "ampere"]\n')
    night.asks(MIRA, f"/optimize {KERNEL} gpu=ampere")
    night.rules()
    assert night.starts().reason_code == "already_running"
    assert night.starts("sweep-20260102-hopper-jsd").next == "measure", "another pool's order is no hindrance"
    report = night.plans()
    assert report.count == every - 1
    assert "somebody is at it" in next(line for line in report.lines if f"{KERNEL} on hopper" in line)


# One campaign


def test_a_campaign_of_the_night_is_autonomous_and_says_nothing(begin: Begin) -> None:
    night = begin("ready")
    campaign = night.sweep()
    assert (campaign.origin, campaign.stage, campaign.requester and campaign.requester.login) == (
        Origin.SWEEP,
        Stage.PUSHING,
        BOT,
    ), "nobody was asked: the merge is the approval"
    assert (night.hub.world.comments, night.hub.world.statuses, night.own_pulls) == ({}, [], [])
    assert [name for name in night.branches if name.startswith(("optimize/", "kernelwright/sweep"))] == []
    assert night.starts().reason_code == "duplicate_event", "it goes on with what is under way"
    assert night.starts().next == "push"


def test_the_winner_becomes_one_commit_on_the_bot_s_own_branch_and_one_pull_request(begin: Begin) -> None:
    night = begin("swept")
    campaign, main = night.sweep(), night.branches["main"]
    assert (campaign.stage, campaign.outcome, campaign.reason) == (Stage.ENDED, Outcome.PUSHED, "pushed")
    assert night.branches[BRANCH] == campaign.pushed
    assert night.repo.parents(BRANCH) == (main,)
    assert night.repo.changed(main, night.branches[BRANCH]) == (PATH,)
    (number,) = night.own_pulls
    pull = night.hub.world.threads[number]
    assert (pull.author, pull.is_open) == (BOT, True)
    assert pull.title.startswith("[Perf] Optimize rms_norm kernel: ") and "(estimated)" in pull.title
    assert "Merging this is the approval" in pull.body and "no GPU timed it" in pull.body
    before = night.branches, night.own_pulls
    assert night.pushed().reason_code == "pushed"
    assert (night.branches, night.own_pulls) == before, "pushing again pushes and opens nothing again"


def test_a_winner_whose_pull_request_could_not_be_opened_is_offered_by_the_next_job(begin: Begin) -> None:
    night = begin("ready")
    words = "GitHub Actions is not permitted to create or approve pull requests."

    def forbidden(when: str, request: Request) -> Response | None:
        opens = request.method == "POST" and request.path.endswith("/pulls")
        return refusal_of(403, words) if opens and when == "before" else None

    night.hub.inject(forbidden)
    with pytest.raises(OperatorError, match="does not let GitHub Actions open pull requests"):
        night.pushed()
    night.hub.inject(None)
    assert night.own_pulls == [] and night.branches[BRANCH] == night.sweep().pushed
    assert night.pushed().reason_code == "pushed"
    assert len(night.own_pulls) == 1


def test_a_night_that_was_never_finished_gives_way_to_the_next(begin: Begin) -> None:
    night = begin("allowed")
    night.starts()
    night.sleeps().starts(SECOND)
    old = night.sweep(FIRST)
    assert (old.stage, old.outcome) == (Stage.ENDED, Outcome.CANCELLED)
    assert SECOND in old.detail
    assert night.sweep(SECOND).stage is Stage.PROFILING


def test_the_night_s_gpu_minutes_have_an_end(begin: Begin) -> None:
    night = begin("swept")
    night.rules(POLICY + SWEEP.replace("enabled = true", "enabled = true\nmax_gpu_minutes = 1\nminutes_per_kernel = 2"))
    report = night.plans()
    assert report.count == 0 and report.reason_code == "nothing_waiting"
    assert json.loads(report.matrix) == {"include": []}
    assert sum("max_gpu_minutes = 1" in line for line in report.lines) == len(report.lines) - 1
    assert sum("swept today already" in line for line in report.lines) == 1


# The branch is the bot's until somebody else touches it


def test_a_better_winner_replaces_the_commit_and_the_words_in_place(begin: Begin) -> None:
    night = begin("better")
    (number,), first = night.own_pulls, night.branches[BRANCH]
    assert [commit for commit, _ in night.sweep(SECOND).tries] == [first], "it began with the winner that waits"
    night.pushed(SECOND)
    assert night.own_pulls == [number]
    assert night.branches[BRANCH] == night.sweep(SECOND).pushed != first
    assert night.repo.parents(BRANCH) == (night.branches["main"],), "one commit, not a pile"
    assert SECOND in night.body(number) and FIRST not in night.body(number)


def test_the_same_winner_again_moves_nothing(begin: Begin) -> None:
    night = begin("same")
    (number,), first = night.own_pulls, night.branches[BRANCH]
    assert night.pushed(SECOND).reason_code == "pushed"
    assert (night.branches[BRANCH], night.own_pulls) == (first, [number])
    assert SECOND in night.body(number), "its figures are of today"


def test_a_commit_of_somebody_else_makes_the_branch_theirs(begin: Begin) -> None:
    night = begin("better")
    (number,), body = night.own_pulls, night.body(night.own_pulls[0])
    theirs = night.hub.push(DANA, BRANCH, {PATH: b"# mine\n"}, "My own words\n")
    assert night.pushed(SECOND).reason_code == "push_forbidden"
    assert night.branches[BRANCH] == theirs
    assert night.body(number) == body
    assert "somebody else pushed to it" in night.sweep(SECOND).detail
    line = next(line for line in night.sleeps().plans().lines if KERNEL in line)
    assert "left out, somebody else pushed to it" in line


def test_what_a_person_closed_is_not_offered_again(begin: Begin) -> None:
    night = begin("same")
    (number,), first = night.own_pulls, night.branches[BRANCH]
    night.hub.close_pull(number)
    assert night.pushed(SECOND).reason_code == "push_forbidden"
    assert (night.branches[BRANCH], night.own_pulls) == (first, [number])
    assert f"pull request {number} offered this very change" in night.sweep(SECOND).detail


def test_another_winner_than_the_closed_one_is_offered_anew(begin: Begin) -> None:
    night = begin("better")
    night.hub.close_pull(night.own_pulls[0])
    assert night.pushed(SECOND).reason_code == "pushed"
    assert len(night.own_pulls) == 2


def test_a_pull_request_that_somebody_opened_of_our_branch_stays_theirs(begin: Begin) -> None:
    night = begin("better")
    night.hub.close_pull(night.own_pulls[0])
    theirs = night.hub.open_pull(DANA, BRANCH, "main", "I take this", "My words")
    assert night.pushed(SECOND).reason_code == "pushed"
    assert night.own_pulls == [2, theirs] and night.body(theirs) == "My words"


# What is looked at again before a push


def refusal(night: Night, doors: Doors, **changes: object) -> tuple[ReasonCode, str]:
    """What the push zone says to a ledger that was told otherwise; nothing may have moved."""
    before = night.branches
    fact = push_winner(night.sweep().model_copy(update=changes), doors, _build)
    assert night.branches == before and night.own_pulls == []
    assert isinstance(fact, PushRefused)
    return fact.reason, fact.detail


def test_a_ledger_that_was_told_otherwise_pushes_nothing(begin: Begin) -> None:
    night = begin("ready")
    doors, campaign = open_doors(night.settings("push")), night.sweep()
    assert campaign.pull is not None and campaign.command is not None and campaign.finalization is not None
    pinned = campaign.pull.model_copy(update={"head_sha": night.branches["topic"]})
    code, words = refusal(night, doors, pull=pinned)
    assert code == "push_forbidden" and "no commit of the default branch" in words
    other = campaign.command.model_copy(update={"kernel": "jsd"})
    assert "its name is not that of one" in refusal(night, doors, command=other)[1]
    assert "its name is not that of one" in refusal(night, doors, id="c1")[1]
    file = campaign.finalization.files[0].model_copy(update={"path": ".github/workflows/own.yml"})
    done = campaign.finalization.model_copy(update={"files": (file,)})
    assert ".github/workflows/own.yml" in refusal(night, doors, finalization=done)[1]
    better = campaign.rounds[0].verdict
    assert better is not None and better.score is not None
    score = better.score.model_copy(update={"value": 9.0})
    lied = campaign.rounds[0].model_copy(update={"verdict": better.model_copy(update={"score": score})})
    code, words = refusal(night, doors, rounds=(lied,))
    assert code == "artifact_rejected" and "does not follow from its raw facts" in words


def test_where_a_ledger_says_to_push_counts_for_nothing(begin: Begin) -> None:
    night = begin("ready")
    topic, campaign = night.branches["topic"], night.sweep()
    assert campaign.pull is not None
    lied = campaign.pull.model_copy(update={"head_ref": "topic"})
    doors = open_doors(night.settings("push"))
    fact = push_winner(campaign.model_copy(update={"pull": lied}), doors, _build)
    assert isinstance(fact, Pushed)
    assert (night.branches["topic"], night.branches[BRANCH]) == (topic, fact.commit)


def test_the_rules_and_the_kernel_of_now_decide(begin: Begin) -> None:
    night = begin("ready").rules('[policy]\nevidence = "measured"\n' + SWEEP)
    assert refusal(night, open_doors(night.settings("push"))) == ("evidence_insufficient", "no GPU timed the winner")
    doors = open_doors(night.rules(POLICY).settings("push"))
    assert refusal(night, doors) == ("disabled", "[sweep] is no longer enabled on the default branch")
    doors = open_doors(night.rules("[sweep]\nenabled = 1\n").settings("push"))
    assert "while nobody can say" in refusal(night, doors)[1]
    night.rules()
    night.hub.push(DANA, "main", {PATH: b"# another kernel\n"}, "Rewrite\n")
    assert night.pushed().reason_code == "ref_changed"
    campaign = night.sweep()
    assert (campaign.stage, campaign.outcome, night.own_pulls) == (Stage.ENDED, Outcome.REVERTED, [])
    assert PATH in campaign.detail and "the next sweep begins there" in campaign.detail


def test_what_the_kernel_imports_is_part_of_it(begin: Begin) -> None:
    night = begin("ready")
    settings = "src/sample_kernels/ops/settings.py"
    text = night.repo.read("refs/heads/main", settings) or b""
    night.hub.push(DANA, "main", {settings: text + b"MORE = 1\n"}, "More\n")
    assert night.pushed().reason_code == "ref_changed"
    assert "what it depends on changed" in night.sweep().detail


def test_other_commits_on_the_default_branch_do_no_harm(begin: Begin) -> None:
    night = begin("ready")
    night.hub.push(DANA, "main", {"README.md": b"# Words\n"}, "Words\n")
    assert night.pushed().reason_code == "pushed"


def test_a_pushed_fact_of_nobody_offers_nothing(begin: Begin) -> None:
    night = begin("ready")
    night.writes_down(Pushed(commit=night.branches["topic"]))
    night.pushed()
    assert night.own_pulls == [] and BRANCH not in night.branches
