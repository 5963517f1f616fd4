"""A decision made once more from a saved event: the same words, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli.entry import cli
from bot.errors import UserError
from bot.zones.replay import Replayed, event_name, replay
from tests.zones.conversation import LEE, MIRA, NOOR, Conversation
from tests.zones.places import At


def everything(talk: Conversation) -> tuple[object, ...]:
    reactions = sorted((r.comment, r.author, r.content) for r in talk.hub.world.reactions.values())
    return talk.branches, talk.hub.comments(1), reactions, len(talk.hub.world.statuses)


def replayed(talk: Conversation, event: tuple[str, Path], ledger: str | None = None) -> Replayed:
    before = everything(talk)
    again = replay(talk.settings("decide"), event[1].read_bytes(), ledger)
    assert everything(talk) == before
    return again


def test_a_decision_is_reproduced_and_nothing_is_written(at: At) -> None:
    talk = at("profile")
    stood = talk.branches["kernelwright/ledger"]
    talk.says(MIRA, "/optimize approve")
    event = talk.last_event()
    first = replayed(talk, event)
    report = talk.decides(event)
    again = replayed(talk, event, stood)
    for one in (first, again):
        assert one.report.model_copy(update={"ledger_commit": ""}) == report.model_copy(update={"ledger_commit": ""})
    assert {write.what for write in first.writes} >= {"push", "react", "set_status"}
    assert replayed(talk, event).report.reason_code == "duplicate_event", "the ledger has it by now"


def test_a_refusal_and_a_review_are_reproduced_too(at: At) -> None:
    talk = at("final")
    talk.says(LEE, "/optimize cancel")
    refused = replayed(talk, talk.last_event())
    assert refused.report.reason_code == "permission_denied"
    assert any("`permission_denied`" in write.to for write in refused.writes if write.what == "post_comment")
    talk.reviews(NOOR, "APPROVE")
    assert replayed(talk, talk.last_event()).report.reason_code == "approved"


def test_by_the_command_line(at: At, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.cli.test_jobs import environment

    talk = at("opened")
    talk.says(MIRA, "/optimize rms_norm")
    saved = talk.last_event()[1]
    for name, value in environment(talk.settings("decide")).items():
        monkeypatch.setenv(name, value)
    before = everything(talk)
    assert cli.main(["decide", "--replay", str(saved)], standalone_mode=False) == 0
    assert json.loads(capsys.readouterr().out)["report"]["reason_code"] == "accepted"
    assert everything(talk) == before
    with pytest.raises(UserError, match="is no commit"):
        cli.main(["decide", "--replay", str(saved), "--ledger", "main"], standalone_mode=False)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b'{"action": "created"}'])
def test_what_is_no_event_is_the_caller_s_to_mend(text: bytes) -> None:
    with pytest.raises(UserError, match="no event that we know"):
        event_name(text)
