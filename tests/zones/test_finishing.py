"""A job that is stopped in the target's tests goes on with the file that it was at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.campaign.machine import fold
from bot.ledger.journal import Segment
from bot.model.campaign import Campaign
from bot.model.facts import FilePassed, Finalized
from bot.model.finalization import Finalization, PassedFile
from bot.zones import intake
from bot.zones.intake import SEGMENT
from bot.zones.measure import work
from bot.zones.workshop import Workshop
from tests.zones import gpu
from tests.zones.conversation import Conversation
from tests.zones.places import At


class Stopped(BaseException):
    pass


def shop(talk: Conversation, folder: Path, finish: Callable[..., Finalization]) -> Workshop:
    return Workshop(repo=talk.repo, python="python", scratch=folder / "scratch", finish=finish)


def honest(campaign: Campaign) -> tuple[PassedFile, Finalization]:
    passed, whole = gpu.finished(campaign)
    assert isinstance(passed, FilePassed) and isinstance(whole, Finalized)
    return passed.file, whole.finalization


def test_what_passed_before_a_stop_is_written_down_and_handed_on(at: At, tmp_path: Path) -> None:
    talk = at("finishing")
    campaign = talk.campaign
    assert campaign.order is not None
    file, whole = honest(campaign)
    heard: list[tuple[PassedFile, ...]] = []

    def cut(*_: Any, passed: Callable[[PassedFile], None], **__: Any) -> Finalization:
        passed(file)
        raise Stopped

    def through(*_: Any, earlier: tuple[PassedFile, ...], **__: Any) -> Finalization:
        heard.append(earlier)
        return whole

    with pytest.raises(Stopped):
        work(campaign.order, campaign, shop(talk, tmp_path, cut), tmp_path / "out")
    facts = Segment(tmp_path / "out" / SEGMENT).facts()
    assert [fact.kind for fact in facts] == ["order_taken", "file_passed"]
    assert intake.accept(facts, campaign, talk.repo).tested == (file,), "also where nothing follows"

    after = work(campaign.order, campaign, shop(talk, tmp_path, through), tmp_path / "out")
    assert heard == [(file,)] and after.finalization == whole
    again = work(campaign.order, fold(campaign, facts), shop(talk, tmp_path, through), tmp_path / "another job")
    assert heard == [(file,)] * 2 and again.finalization == whole
