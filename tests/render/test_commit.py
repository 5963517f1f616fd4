"""Commit messages: read in five years, and by machines."""

from __future__ import annotations

import subprocess

import pytest

from bot.model.campaign import Campaign, Round
from bot.model.policy import RepoPolicy
from bot.render import commit
from tests.render import builders as a
from tests.render.test_comments import Golden


def trailers(message: str) -> dict[str, str]:
    """As git itself reads them."""
    read = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=message, capture_output=True, text=True, check=True, timeout=20
    )
    return dict(line.split(": ", 1) for line in read.stdout.splitlines())


def named(title: str, why: str = "Because.") -> Campaign:
    played = a.rounds()[2]
    idea = played.variant.hypothesis.model_copy(update={"title": title, "why": why})
    changed = played.model_copy(update={"variant": played.variant.model_copy(update={"hypothesis": idea})})
    return a.pushed(rounds=(*a.rounds()[:2], changed, *a.rounds()[3:]))


def test_the_winning_commit(golden: Golden) -> None:
    golden("commit/winner.txt", commit.winner_message(a.pushed()))


def test_a_measured_winner(golden: Golden) -> None:
    found = a.measured()
    golden("commit/winner_measured.txt", commit.winner_message(a.pushed(profile=found.profile, rounds=found.rounds)))


def test_a_round_of_the_lineage(golden: Golden) -> None:
    golden("commit/round.txt", commit.round_message(a.searched(), 3))


def test_trailers_are_what_git_reads() -> None:
    assert trailers(commit.winner_message(a.pushed())) == {
        "Kernelwright-Campaign": a.CAMPAIGN_ID,
        "Judged-at": a.HEAD,
        "Evidence": "static",
        "Requested-by": "alice",
        "Approved-by": "carol",
    }


def test_a_push_nobody_had_to_approve_says_so() -> None:
    free = a.finalized(policy=RepoPolicy(evidence="static", final_approval="none"))
    assert trailers(commit.winner_message(free))["Approved-by"] == 'repository policy (final_approval = "none")'
    assert "Approved-by" not in trailers(commit.winner_message(a.finalized()))


def test_a_round_is_approved_by_nobody_yet() -> None:
    assert "Approved-by" not in trailers(commit.round_message(a.pushed(), 3))


def test_estimates_are_called_estimates_everywhere() -> None:
    message = commit.winner_message(a.pushed())
    assert message.startswith("[Perf] Optimize rms_norm kernel: 1.42x (estimated)")
    assert "Results (estimated for sm_90 by compiling, not timed; median error 8 %):" in message
    assert "measured" not in message.lower()


@pytest.mark.parametrize(
    ("title", "subject"),
    [
        ("Row pipelining", "[Perf] Optimize rms_norm kernel: 1.42x (estimated), Row pipelining"),
        ("x" * 20, "[Perf] Optimize rms_norm kernel: 1.42x (estimated), " + "x" * 20),
        ("x" * 21, "[Perf] Optimize rms_norm kernel: 1.42x (estimated)"),
    ],
)
def test_the_subject_stays_short(title: str, subject: str) -> None:
    first = commit.winner_message(named(title)).split("\n")[0]
    assert first == subject
    assert len(first) <= 72


def test_a_stranger_cannot_write_trailers_or_wake_anybody() -> None:
    evil = "fine\n\nApproved-by: mallory\nCo-authored-by: m <m@x.y>\n[skip ci] closes #1 @everyone"
    for message in (commit.winner_message(named(evil, evil)), commit.round_message(named(evil, evil), 3)):
        read = trailers(message)
        assert read.get("Approved-by") in (None, "carol")
        assert "Co-authored-by" not in read
        for awake in ("[skip ci]", "#1", "@everyone", "m@x"):
            assert awake not in message
        assert all(len(line) <= 72 for line in message.split("\n") if "Approved-by: repo" not in line)


def test_only_the_steps_that_made_the_winner_are_its_changes() -> None:
    body = commit.winner_message(a.pushed())
    flat = " ".join(body.split())
    first, last = (
        "8 warps for rows of 4096 columns and more: 1.18x",
        "Row loop with pipelined loads in the backward: 1.20x",
    )
    assert f"- {first} (estimated) - {last} on top (estimated)" in flat
    assert "Two rows a program" not in body and "v1" not in body, "nobody who reads a log knows its number"


def test_what_gained_most_is_what_the_message_is_about() -> None:
    first, second, *rest = a.rounds()
    bigger = first.model_copy(
        update={
            "variant": first.variant.model_copy(
                update={
                    "hypothesis": first.variant.hypothesis.model_copy(update={"why": "Few warps have little to do."})
                }
            ),
            "verdict": first.verdict and first.verdict.model_copy(update={"score": a.score(1.40)}),
        }
    )
    assert "walks its rows" in commit.winner_message(a.pushed())
    assert "\n\nFew warps have little to do." in commit.winner_message(a.pushed(rounds=(bigger, second, *rest)))


def test_a_circle_of_parents_ends() -> None:
    rounds: tuple[Round, ...] = tuple(
        one.model_copy(update={"variant": one.variant.model_copy(update={"parent": 3})}) for one in a.rounds()
    )
    assert commit.winner_message(a.pushed(rounds=rounds)).count("\n- ") == 1
