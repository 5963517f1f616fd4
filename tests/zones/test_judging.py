"""A variant that its own text condemns is refused without being run, and the journal says so in the usual words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.campaign.effects import MeasureVariant
from bot.campaign.machine import fold
from bot.model.campaign import Campaign
from bot.model.facts import RoundOpened, VariantMeasured
from bot.model.variant import Hypothesis, SourceFile, Variant
from bot.model.verdict import Decision
from bot.zones.judging import unrun, verdict_of
from bot.zones.measure import Shift, Workshop
from tests.zones.places import At

IDEA = Hypothesis(title="wider loads", why="", expected="", technique="other")


def tried(campaign: Campaign, line: str) -> Campaign:
    """The campaign with a round open for v0 and this line after it."""
    assert campaign.profile is not None and campaign.order is not None
    files = tuple(SourceFile(path=file.path, text=f"{file.text}\n\n{line}\n") for file in campaign.profile.sources)
    variant = Variant(number=1, parent=0, files=files, hypothesis=IDEA, proposer="human")
    return fold(campaign, [RoundOpened(order=campaign.order.id, variant=variant)])


def test_hostile_text_is_never_run(at: At, tmp_path: Path) -> None:
    campaign = tried(at("searching").campaign, "exec('import os')")
    assert campaign.order is not None

    def no_bench(*_: object, **__: object) -> object:
        raise AssertionError("it would have been run")

    shop = Workshop(repo=at("searching").repo, python="python", scratch=tmp_path, open_bench=no_bench)  # type: ignore[arg-type]
    fact = Shift(campaign, shop).measure(MeasureVariant(order=campaign.order.id, number=1))
    assert isinstance(fact, VariantMeasured)
    assert (fact.measurement.checks, fact.measurement.cases, fact.measurement.fault) == ((), (), None)
    verdict = verdict_of(fold(campaign, [fact]), 1)
    assert verdict.decision is Decision.REJECTED
    assert {finding.guardrail for finding in verdict.findings} == {"honesty"}, "what was not run is not called wrong"


@pytest.mark.parametrize(("line", "run"), [("WIDTH = 8", True), ("exec('WIDTH = 8')", False)])
def test_only_what_the_text_condemns_stays_unrun(line: str, run: bool, at: At) -> None:
    campaign = tried(at("searching").campaign, line)
    assert (unrun(campaign, 1) is None) is run
