"""A person's commit becomes a variant like any other, once."""

from __future__ import annotations

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
