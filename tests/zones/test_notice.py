"""The dashboard, the pages of its pull requests, and the issue on a kernel that became slower."""

from __future__ import annotations

from bot.campaign.machine import fold
from bot.model.campaign import Origin, Outcome
from bot.model.facts import RoundOpened
from bot.render.dashboard import WARNING
from bot.zones.judging import unrun
from tests.zones import gpu
from tests.zones.conversation import BOT, DANA, KERNEL, MIRA
from tests.zones.night import BRANCH, FIRST, SECOND, Night, tried
from tests.zones.nights import Begin, begin

__all__ = ["begin"]

NEWER = gpu.RUNNER.model_copy(update={"triton": "3.7.0"})


def row(night: Night, kernel: str = KERNEL) -> str:
    return next(line for line in night.body(night.issues[0]).splitlines() if line.startswith(f"| `{kernel}`"))


def test_one_dashboard_says_where_every_kernel_stands(begin: Begin) -> None:
    night = begin("swept")
    report = night.sleeps().tells()
    (number,) = night.issues
    assert (report.issue, report.opened) == (number, ())
    thread, (pull,) = night.hub.world.threads[number], night.own_pulls
    assert (thread.author, thread.title) == (BOT, "Kernelwright: nightly sweep")
    assert "1 pull request waits for a review" in thread.body
    cells = [cell.strip() for cell in row(night).split("|")[1:-1]]
    assert cells[1] == "hopper: Hopper sm_90"
    assert cells[2].endswith("% (estimated)")
    assert "v1 is " in cells[3] and "(estimated)" in cells[3] and "[record](http" in cells[3]
    assert cells[4].endswith(" days") and float(cells[4].split()[0]) > 0.9
    assert cells[5] == f"[#{pull}]({night.hub.server_url}/{night.hub.repo}/pull/{pull})"
    assert "never swept" in row(night, "jsd")
    assert "Which kernel is next, and why" in thread.body and "1 night, 1 kernel" in thread.body
    light = f"campaigns/{FIRST}/plots/trend-light.png"
    assert f"{light}?raw=true" in thread.body
    assert night.repo.read("refs/heads/kernelwright/ledger", light)


def test_telling_it_again_changes_one_issue_in_place_and_writes_no_plot_twice(begin: Begin) -> None:
    night = begin("swept")
    theirs = night.hub.open_issue(DANA, "Mine", "<!-- kernelwright:v1 key=sweep/dashboard -->\n\nlook here")
    first = night.tells().issue
    ledger, said = night.branches["kernelwright/ledger"], night.body(first or 0)
    assert night.sleeps().tells().issue == first
    assert night.issues == [theirs, first]
    assert night.body(first or 0) != said, "its ages grew"
    assert "look here" in night.body(theirs)
    assert night.branches["kernelwright/ledger"] == ledger


def test_a_kernel_that_became_slower_has_an_issue_that_names_the_commits_between(begin: Begin) -> None:
    night = begin("changed")
    then = pinned(night)
    assert [commit for commit, _ in night.sweep(SECOND).tries] == [then], "its times alone made it suspicious"
    asked = fold(night.sweep(SECOND), tried(night.sweep(SECOND), night.repo, then, 2.0)[:1])
    assert unrun(asked, 1) is None, "it is run though it lacks a comment of today's"
    assert unrun(asked.model_copy(update={"origin": Origin.PERSON}), 1) is not None
    night.tried(SECOND, (then, 2.0))
    report = night.tells()
    (number,) = report.opened
    issue = night.hub.world.threads[number]
    assert issue.title == f"rms_norm became slower on hopper since {then[:7]}"
    assert "Make it clearer @&#8203;mira #&#8203;1" in issue.body, "named, and nobody is called"
    assert "Other words" not in issue.body
    assert "is 1.45x (estimated) over today's" in issue.body and "no GPU timed them" in issue.body
    assert f"slower since `{then[:7]}`" in row_of(night, report.issue or 0)
    assert night.sweep(SECOND).outcome is Outcome.NOTHING_TO_DO, "it lacks a comment of today's, so it is not pushed"
    night.hub.world.threads[number].closed_at = "2026-01-03T09:00:00Z"
    assert night.tells().opened == (), "closed or not, it is said once"


def pinned(night: Night) -> str:
    """The commit that the first night measured."""
    pull = night.sweep().pull
    assert pull is not None
    return pull.head_sha


def row_of(night: Night, issue: int) -> str:
    return next(line for line in night.body(issue).splitlines() if line.startswith(f"| `{KERNEL}`"))


def test_slower_times_that_no_second_look_confirms_open_nothing(begin: Begin) -> None:
    night = begin("changed")
    night.tried(SECOND, (pinned(night), 3.0))
    assert night.tells().opened == ()


def test_a_gpu_job_cannot_pass_off_other_text_as_an_earlier_source(begin: Begin) -> None:
    night = begin("changed")
    facts = tried(night.sweep(SECOND), night.repo, pinned(night), 1.0)
    opened = facts[0]
    assert isinstance(opened, RoundOpened)
    file = opened.variant.files[0].model_copy(update={"text": "import os\n"})
    forged = opened.model_copy(update={"variant": opened.variant.model_copy(update={"files": (file,)})})
    night.publishes(night.leaves((forged, *facts[1:])), campaign=SECOND)
    assert night.sweep(SECOND).reason == "artifact_rejected"
    assert "is not what stands at the commit it tries" in night.sweep(SECOND).detail


def test_a_merged_winner_is_validated_again_under_another_triton(begin: Begin) -> None:
    night = begin("swept")
    before = night.sweep().pull
    assert before is not None
    night.hub.merge_pull(MIRA, night.own_pulls[0])
    night.trusts().sleeps().starts(SECOND)
    night.profiled(SECOND, traffic=1.5, runner=NEWER)
    assert [commit for commit, _ in night.sweep(SECOND).tries] == [before.head_sha], "the source before it"
    night.tried(SECOND, (before.head_sha, 2.0))
    night.tells()
    assert "the winner of 2026-01-02 still wins under torch 2.13.0 and Triton 3.7.0" in row(night)


def test_a_waiting_winner_that_lost_says_so_on_its_page(begin: Begin) -> None:
    night = begin("again")
    (pull,), commit = night.own_pulls, night.branches[BRANCH]
    night.tried(SECOND, (commit, 2.5))
    night.tells()
    assert night.body(pull).startswith(f"{WARNING} The sweep of 2026-01-03 tried it again under torch 2.13.0")
    assert "no longer wins under" in row(night)


def test_a_page_that_warned_is_put_right_when_its_winner_wins(begin: Begin) -> None:
    night = begin("swept")
    (pull,) = night.own_pulls
    said = night.body(pull)
    night.hub.world.threads[pull].body = f"{WARNING} It was slower.\n\n{said}"
    night.tells()
    assert WARNING not in night.body(pull) and "Merging this is the approval" in night.body(pull)
