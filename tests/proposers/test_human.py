"""A person's commit becomes a variant like any other, once."""

from __future__ import annotations

import dataclasses

import pytest

from bot.model.verdict import Decision
from bot.proposers import PROPOSERS, human, next_proposal
from tests.proposers.scene import TRY_TECHNIQUE, after, brief, tried

MINE, YOURS = tried("a", "mine = 1\n"), tried("b", "yours = 2\n")


def test_a_commit_is_proposed_with_who_asked_and_what_is_expected() -> None:
    proposal = human.propose(brief(tries=(MINE,), best=1.1))
    assert proposal is not None
    assert proposal.files == MINE.files
    assert proposal.proposer == "human"
    assert proposal.hypothesis.technique == TRY_TECHNIQUE
    assert proposal.hypothesis.references == ("a" * 40,)
    assert "alice asked" in proposal.hypothesis.why
    assert "1.111x" in proposal.hypothesis.expected


def titled(*ideas: str) -> str:
    proposal = human.propose(brief(tries=(dataclasses.replace(MINE, ideas=ideas),)))
    assert proposal is not None
    return proposal.hypothesis.title


def test_its_title_says_what_is_in_it_where_that_is_known() -> None:
    assert titled() == "Try aaaaaaaaaaaa"
    assert titled("quick_log", "base_two") == "Try aaaaaaaaaaaa: quick_log, base_two"
    assert titled(*"abcdef") == "Try aaaaaaaaaaaa: a, b, c, d, e, f"
    assert titled(*"abcdefgh") == "Try aaaaaaaaaaaa: a, b, c, d, e, f and 2 more"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("try the winner of one\n\nMade of: quick_log, base_two, quick_log\n", ("quick_log", "base_two")),
        ("Made of: launch_parameters, more_warps, fewer_warps", ("launch_parameters", "more_warps", "fewer_warps")),
        ("Made of: fixes #1, @everyone, quick_log:whatever, <b>\n", ("quick_log",)),
        ("Made of: quick_log\nMade of: base_two\n", ("quick_log",)),
        ("Faster\n\nThis is Made of: quick_log\n", ()),
        ("Faster\n", ()),
        ("\n" * 4000 + "Made of: quick_log\n", ()),
    ],
)
def test_of_a_commit_s_words_only_names_of_ours_are_taken(message: str, told: tuple[str, ...]) -> None:
    assert human.ideas_in(message) == told


def test_commits_are_tried_in_the_order_they_were_asked_for_and_once_each() -> None:
    told = brief(tries=(MINE, YOURS))
    first = human.propose(told)
    assert first is not None
    told = after(told, first, Decision.REJECTED)
    second = human.propose(told)
    assert second is not None and second.hypothesis.references == ("b" * 40,)
    assert human.propose(after(told, second, Decision.ACCEPTED)) is None


def test_without_a_commit_a_person_has_no_idea() -> None:
    assert human.propose(brief()) is None


def test_a_person_is_asked_before_the_engine() -> None:
    assert list(PROPOSERS) == ["human", "engine"]
    told = brief(tries=(MINE,))
    first = next_proposal(told)
    assert first is not None and first.proposer == "human"
    second = next_proposal(after(told, first, Decision.REJECTED))
    assert second is not None and second.proposer == "engine"


def test_when_nobody_has_an_idea_there_is_none() -> None:
    assert next_proposal(brief(surveys=(), budget=0)) is None


def test_a_commit_that_lacks_the_kernel_is_proposed_as_it_is_and_judged_for_that() -> None:
    empty = MINE.__class__(commit="c" * 40, actor=MINE.actor, files=())
    proposal = human.propose(brief(tries=(empty,)))
    assert proposal is not None and proposal.files == ()
