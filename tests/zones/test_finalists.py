"""compute-sanitizer and torch.compile take seconds of a GPU: only who would win is put under them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.campaign.effects import MeasureVariant
from bot.git.repo import Repo
from bot.model.campaign import Campaign
from bot.model.facts import VariantMeasured
from bot.model.measurement import Measurement, Sanitized, UnderCompile
from bot.model.variant import SourceFile
from bot.model.verdict import Decision, Verdict
from bot.zones import finalists
from bot.zones.finalists import asked_last
from bot.zones.measure import Shift, Workshop
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

    def asked_last(self, files: tuple[SourceFile, ...], found: Measurement) -> Measurement:
        assert found == self._found
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


def test_what_they_say_is_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ending(monkeypatch, Decision.ACCEPTED)
    shop = Workshop(repo=Repo.init(tmp_path / "a.git", bare=True), python="python", scratch=tmp_path)
    shift = Shift(a.measured(), shop)
    shift._bench = Tools(found())  # there is no tree here that one could be opened on
    fact = shift.measure(MeasureVariant(order="o", number=NUMBER))
    assert isinstance(fact, VariantMeasured)
    assert {name: getattr(fact.measurement, name) for name in SAID} == SAID
