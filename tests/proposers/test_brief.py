"""What a proposer is told about a campaign."""

from __future__ import annotations

import pytest

from bot.model.campaign import Campaign, Profile, Round
from bot.model.commands import Optimize
from bot.model.measurement import Evidence
from bot.model.variant import Hypothesis, SourceFile, Variant, sources_digest
from bot.model.verdict import Decision, Score, Verdict
from bot.proposers.brief import brief_of
from tests.analysis import made
from tests.proposers.scene import brief, tried

TOLD = brief()
BETTER = (SourceFile(path=TOLD.sources[0].path, text="better = 1\n"),)
WORSE = (SourceFile(path=TOLD.sources[0].path, text="worse = 1\n"),)


def played(number: int, files: tuple[SourceFile, ...], decision: Decision, score: float) -> Round:
    idea = Hypothesis(title="t", why="w", expected="1 %", technique="tile_rows")
    variant = Variant(number=number, parent=0, files=files, hypothesis=idea, proposer="engine")
    verdict = Verdict(decision=decision, score=Score(evidence=Evidence.STATIC, value=score))
    return Round(variant=variant, measurement=made.measurement(seconds=number), verdict=verdict)


def campaign(*rounds: Round, lineage: tuple[int, ...] = (0,)) -> Campaign:
    profile = Profile(
        site=TOLD.site,
        suite=TOLD.suite,
        sources=TOLD.original,
        baseline=TOLD.baseline,
        survey=TOLD.surveys,
        diagnosis=TOLD.diagnosis,
    )
    command = Optimize(kernel="rms_norm", max_variants=3)
    return Campaign(id="c1", command=command, profile=profile, rounds=rounds, lineage=lineage)


def test_before_the_first_round_the_incumbent_is_the_untouched_kernel() -> None:
    told = brief_of(campaign())
    assert told.sources == told.original == TOLD.original
    assert (told.incumbent, told.best, told.budget) == (0, 1.0, 3)
    assert told.facts == told.baseline


def test_after_an_accepted_round_its_sources_and_facts_are_built_on() -> None:
    told = brief_of(campaign(played(1, BETTER, Decision.ACCEPTED, 1.3), lineage=(0, 1)))
    assert told.sources == BETTER and told.original == TOLD.original
    assert (told.incumbent, told.best, told.budget) == (1, 1.3, 2)
    assert told.facts.seconds == 1


def test_after_two_rejections_in_a_row_the_last_accepted_source_is_back_byte_for_byte() -> None:
    rounds = (
        played(1, BETTER, Decision.ACCEPTED, 1.3),
        played(2, WORSE, Decision.REJECTED, 0.9),
        played(3, (SourceFile(path=WORSE[0].path, text="even worse"),), Decision.REJECTED, 0.8),
    )
    told = brief_of(campaign(*rounds, lineage=(0, 1)))
    assert told.sources == BETTER
    assert told.budget == 0


def test_what_was_judged_needs_no_second_verdict() -> None:
    told = brief_of(campaign(played(1, WORSE, Decision.REJECTED, 0.9)))
    assert told.judged == {sources_digest(TOLD.original), sources_digest(WORSE)}
    assert [r.variant.number for r in told.rounds_with("tile_rows")] == [1]
    assert told.rounds_with("more_programs") == ()


def test_commits_that_people_asked_for_are_handed_on() -> None:
    mine = tried("a", "x = 1\n")
    assert brief_of(campaign(), tried=[mine]).tries == (mine,)


def test_there_is_no_brief_without_a_profile() -> None:
    with pytest.raises(AssertionError):
        brief_of(Campaign(id="c1"))
