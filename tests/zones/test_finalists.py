"""compute-sanitizer and torch.compile take seconds of a GPU: only who would win is put under them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.campaign.effects import MeasureVariant
from bot.campaign.machine import fold
from bot.git.repo import Repo
from bot.model.campaign import Campaign
from bot.model.commands import Mode
from bot.model.facts import Answered, CampaignRequested, Fact, RoundOpened, VariantMeasured
from bot.model.measurement import Measurement, Sanitized, UnderCompile
from bot.model.variant import Proposal, SourceFile
from bot.model.verdict import Decision, Verdict
from bot.proposers.brief import Brief
from bot.zones import finalists, measure
from bot.zones.finalists import asked_last
from bot.zones.measure import Shift
from bot.zones.workshop import Workshop, stepped, until_checked
from tests.fakes.bench import FakeBench
from tests.render import builders as a

SAID = {"sanitized": Sanitized(status="clean"), "under_compile": UnderCompile(status="right", detail="a as one graph")}
NUMBER = 2


class Silent(FakeBench):
    """A bench with a GPU, whose measurement is given."""

    def __init__(self, found: Measurement) -> None:
        self._found = found

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        return self._found


class Tools(Silent):
    """And one that has tools."""

    def asked_last(
        self,
        files: tuple[SourceFile, ...],
        found: Measurement,
        following: Callable[[], tuple[SourceFile, ...]] = tuple,
    ) -> Measurement:
        assert found == self._found
        self.following = following()
        return found.model_copy(update=SAID)


def found() -> Measurement:
    played = a.measured().round_of(NUMBER)
    assert played is not None and played.measurement is not None
    return played.measurement.model_copy(update=dict.fromkeys(SAID))


def ending(monkeypatch: pytest.MonkeyPatch, decision: Decision) -> None:
    """Whatever is measured of this round, such is its verdict."""

    def verdict(campaign: Campaign, number: int, measurement: Measurement) -> Verdict:
        assert (number, measurement) == (NUMBER, found())
        return Verdict(decision=decision)

    monkeypatch.setattr(finalists, "verdict_on", verdict)


@pytest.mark.parametrize("decision", Decision)
def test_who_is_accepted_without_the_tools_is_put_under_them(
    decision: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, decision)
    last = asked_last(Tools(found()), a.measured(), NUMBER, (), found())
    assert last == (found().model_copy(update=SAID) if decision.is_accepted else found())


def test_a_bench_without_tools_has_said_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ending(monkeypatch, Decision.ACCEPTED)
    assert asked_last(Silent(found()), a.measured(), NUMBER, (), found()) == found()


def test_what_they_say_is_in_the_journal_and_how_long_each_step_took_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, Decision.ACCEPTED)
    heard: list[str] = []
    repo = Repo.init(tmp_path / "a.git", bare=True)
    shop = Workshop(repo=repo, python="python", scratch=tmp_path, passed=heard.append)
    shift = Shift(a.measured(), shop)
    shift._bench = Tools(found())  # there is no tree here that one could be opened on
    fact = shift.measure(MeasureVariant(order="o", number=NUMBER))
    assert heard == [f"v{NUMBER} checked and measured, 0 s", f"tools asked about v{NUMBER}, 0 s"]
    assert isinstance(fact, VariantMeasured)
    assert {name: getattr(fact.measurement, name) for name in SAID} == SAID


def test_how_much_of_a_round_went_to_its_checks_is_told_where_it_is_known() -> None:
    assert until_checked(found()) == ""
    assert until_checked(found().model_copy(update={"checked_seconds": 41.4})) == ", of which 41 s for the checks"
    heard: list[str] = []
    assert stepped(heard.append, "a step", lambda: 7, lambda seven: f" and {seven}") == 7
    assert heard == ["a step, 0 s and 7"]


# -- what follows -----------------------------------------------------------------------------------------------------


def until_the_first_round(**command: Any) -> tuple[Fact, ...]:
    requested, *rest = (fact for fact in a.facts() if not isinstance(fact, Answered))
    assert isinstance(requested, CampaignRequested)
    asked = requested.command.model_copy(update={"mode": Mode.AUTONOMOUS, **command})
    opened = next(place for place, fact in enumerate(rest) if isinstance(fact, RoundOpened))
    return (requested.model_copy(update={"command": asked}), *rest[: opened + 1])


def foreseen(
    facts: tuple[Fact, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, has_ideas: bool = True
) -> tuple[str, ...]:
    """What the first round is followed by, once it is accepted: each proposal is a comment that names the incumbent."""

    def proposed(brief: Brief) -> Proposal | None:
        if not has_ideas:
            return None
        text = f"# after v{brief.incumbent}\n"
        files = (SourceFile(path="ops/rms_norm.py", text=text),)
        return Proposal(files=files, hypothesis=a.rounds()[0].variant.hypothesis, proposer="engine")

    monkeypatch.setattr(measure, "next_proposal", proposed)
    shop = Workshop(repo=Repo.init(tmp_path / "a.git", bare=True), python="python", scratch=tmp_path)
    shift, first = Shift(fold(Campaign(id=a.CAMPAIGN_ID), facts), shop), a.rounds()[0]
    assert first.measurement is not None and first.verdict is not None and first.verdict.decision.is_accepted
    effect = MeasureVariant(order="o-optimize", number=first.variant.number)
    before = shift.campaign
    found = shift._following(effect, first.measurement, first.verdict)
    assert shift.campaign == before, "it is foreseen, and has not happened"
    return tuple(file.text for file in found)


def test_what_is_made_ready_builds_on_the_finalist_whose_verdict_is_not_written_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert foreseen(until_the_first_round(), monkeypatch, tmp_path) == ("# after v1\n",)


def test_who_will_race_is_thought_of_where_there_is_no_idea_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes seconds, and a GPU would wait for it."""
    thought: list[int] = []
    monkeypatch.setattr(measure, "starters", lambda brief: thought.append(brief.incumbent))
    monkeypatch.setattr(measure, "has_race_ahead", lambda campaign: True)
    assert foreseen(until_the_first_round(), monkeypatch, tmp_path / "a", has_ideas=False) == ()
    assert thought == [1]
    foreseen(until_the_first_round(), monkeypatch, tmp_path / "b")
    monkeypatch.setattr(measure, "has_race_ahead", lambda campaign: False)
    foreseen(until_the_first_round(), monkeypatch, tmp_path / "c", has_ideas=False)
    assert thought == [1], "somebody has an idea, or nobody races"


def test_nothing_is_made_ready_where_the_search_ends_with_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert foreseen(until_the_first_round(max_variants=1), monkeypatch, tmp_path) == ()


def test_the_bench_is_told_what_follows_who_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    ending(monkeypatch, Decision.ACCEPTED)
    tools, files = Tools(found()), a.sources("# the next")
    asked_last(tools, a.measured(), NUMBER, (), found(), lambda verdict: files if verdict.decision.is_accepted else ())
    assert tools.following == files
