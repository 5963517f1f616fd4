"""Whoever shows a campaign hands its rivals on: comments, records, the terminal and the page to be mailed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from click.testing import CliRunner

from bot.campaign.effects import AskHuman, SayResult
from bot.campaign.machine import checkpoint_key, fold
from bot.cli.profile import profile
from bot.cli.show import show
from bot.ledger import journal
from bot.model.campaign import Campaign, Checkpoint, Outcome, Stage, Zone
from bot.model.facts import (
    Answered,
    EffectDone,
    EffectRequested,
    Fact,
    Profiled,
    RoundOpened,
    VariantJudged,
    VariantMeasured,
)
from bot.model.reasons import ReasonCode
from bot.render.links import Links
from bot.zones import conversation
from bot.zones.drawing import draw_records
from tests.render import builders as a

BEATEN = "torch.compile is 1.13x faster than v3"


def played() -> Campaign:
    return a.rivalled(a.measured(), compiled=60.0)


def facts() -> tuple[Fact, ...]:
    """The journal of a campaign on a GPU, rivals in its profile."""
    campaign = played()
    rounds: dict[int, Any] = {one.variant.number: one for one in campaign.rounds}
    found: list[Fact] = []
    for fact in a.facts():
        match fact:
            case Profiled():
                fact = fact.model_copy(update={"profile": campaign.profile})
            case RoundOpened():
                fact = fact.model_copy(update={"variant": rounds[fact.variant.number].variant})
            case VariantMeasured():
                fact = fact.model_copy(update={"measurement": rounds[fact.number].measurement})
            case VariantJudged():
                fact = fact.model_copy(update={"verdict": rounds[fact.number].verdict})
        found.append(fact)
    return tuple(found)


def written(folder: Path) -> Path:
    """With the questions that were asked before its answers."""
    kept: list[Fact] = []
    now = Campaign(id=a.CAMPAIGN_ID)
    for fact in facts():
        due: list[Fact] = [fact]
        if isinstance(fact, Answered):
            key = checkpoint_key(now)
            due.insert(0, EffectDone(key=key, zone=Zone.PUBLISH))
            due.insert(0, EffectRequested(key=key, zone=Zone.PUBLISH))
        kept += due
        now = fold(now, due)
    path = folder / "journal.jsonl"
    lines = journal.number(tuple(kept), zone=Zone.DECIDE, at="2026-11-20T09:00:00Z", first=0)
    path.write_text(journal.write(lines), encoding="utf-8")
    return path


def test_every_question_and_the_result_are_told_of_them(monkeypatch: Any) -> None:
    winner = AskHuman(checkpoint=Checkpoint.WINNER, turn=1)
    assert BEATEN in conversation._ask(winner, played(), Links())
    first = played().model_copy(update={"rounds": (), "lineage": (0,), "stage": Stage.AWAIT_PROFILE})
    assert "torch.compile is 1.60x" in conversation._ask(
        AskHuman(checkpoint=Checkpoint.PROFILE, turn=0), first, Links()
    )
    said: list[str] = []
    monkeypatch.setattr(conversation, "say_once", lambda forge, number, key, body: said.append(body))
    monkeypatch.setattr(conversation, "hush_everything_but", lambda *_: None)
    monkeypatch.setattr(conversation, "links", lambda *_: Links())
    ended = {"outcome": Outcome.REVERTED, "reason": ReasonCode.SUGGESTION_POSTED, "stage": Stage.CLOSING, "winner": 3}
    scribe: Any = SimpleNamespace(campaign=played().model_copy(update=ended | {"finalization": a.finalization()}))
    doors: Any = SimpleNamespace(forge=None)
    conversation.say(SayResult(), scribe, doors)
    assert BEATEN in said[0].partition("\n")[0]


def test_the_ledger_keeps_them() -> None:
    made = draw_records(played(), ())
    assert any(path.endswith("benchmarks/rivals.csv") for path in made)


def test_the_commands_show_them(tmp_path: Path) -> None:
    path = str(written(tmp_path))
    story = CliRunner().invoke(show, [path])
    assert "v3 over compiled" in story.output and BEATEN in story.output
    told = json.loads(CliRunner().invoke(show, [path, "--json"]).output)
    assert [one["rival"] for one in told["rivals"]] == ["eager", "compiled"]
    page = tmp_path / "page.html"
    CliRunner().invoke(show, [path, "--html", str(page)])
    assert BEATEN in page.read_text(encoding="utf-8")
    shown = CliRunner().invoke(profile, ["rms_norm", "--journal", path, "--repo", str(tmp_path)])
    assert "compiled over v0" in shown.output and "v3" not in shown.output
    as_json = CliRunner().invoke(profile, ["rms_norm", "--journal", path, "--repo", str(tmp_path), "--json"])
    assert len(json.loads(as_json.output)["rivals"]) == 2
