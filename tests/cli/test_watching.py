"""What the page says of a campaign, in each stage."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from bot.campaign.machine import owed
from bot.cli.watching import STAGES, Watcher, card, commands_for
from bot.ledger.branch import Ledger
from bot.ledger.journal import Segment
from bot.model.campaign import Campaign, Order, Outcome, Phase, Stage
from bot.model.facts import RoundOpened
from bot.model.reasons import ReasonCode
from bot.zones.intake import SEGMENT
from tests.render import builders


def settled(campaign: Campaign) -> Campaign:
    """With everything said that there was to say."""
    while effects := owed(campaign):
        done = tuple((effect.key, "1") for effect in effects)
        campaign = campaign.model_copy(update={"done": (*campaign.done, *done)})
    return campaign


def test_every_stage_has_words() -> None:
    assert set(STAGES) | {Stage.ENDED} == set(Stage)


@pytest.mark.parametrize("made", [builders.profiled, builders.searched, builders.finalized])
def test_a_person_is_asked_when_the_question_stands_there_and_not_sooner(made: type[Campaign]) -> None:
    campaign = made()
    assert owed(campaign) and card(campaign).state == "busy"
    assert card(settled(campaign)).state == "asks"


def test_the_variants_are_listed_with_their_word() -> None:
    shown = card(builders.searched())
    campaign = builders.searched()
    assert [attempt.name for attempt in shown.attempts] == [f"v{r.variant.number}" for r in campaign.rounds]
    assert shown.best.startswith("v3 is ") and "(estimated)" in shown.best
    by_state = {attempt.name: attempt.state for attempt in shown.attempts}
    assert by_state["v3"] == "good" and by_state["v2"] == "bad"


def test_the_variant_in_hand_is_busy_and_left_undone_at_an_end() -> None:
    rounds = builders.rounds()
    begun = rounds[-1].model_copy(update={"verdict": None, "measurement": None})
    running = builders.searched(stage=Stage.OPTIMIZING, rounds=(*rounds[:-1], begun))
    assert (card(running).attempts[-1].state, card(running).attempts[-1].words) == ("busy", "compiled and checked now")
    ended = running.model_copy(update={"stage": Stage.ENDED, "outcome": Outcome.CANCELLED})
    assert (card(ended).attempts[-1].state, card(ended).words) == ("quiet", "cancelled")


def test_only_a_search_has_a_budget_and_only_what_runs_a_clock() -> None:
    searching = builders.searched(stage=Stage.OPTIMIZING)
    assert card(searching, "2026-01-02T03:04:05Z").since and card(searching).budget > 0
    waiting = settled(builders.profiled())
    assert (card(waiting, "2026-01-02T03:04:05Z").since, card(waiting).budget) == ("", 0)


def test_a_segment_that_was_made_a_moment_ago_has_nothing_to_say_yet(tmp_path: Path) -> None:
    """Opened, and its first line is still on its way: whoever looks then must not fall over it."""
    order = Order(id="c1-2-optimize", campaign=builders.CAMPAIGN_ID, phase=Phase.OPTIMIZE)
    told = builders.profiled(stage=Stage.OPTIMIZING, order=order)
    watcher = Watcher(cast(Ledger, None))
    watcher._told = {told.id: told}
    segment = Segment(tmp_path / SEGMENT)
    segment.path.touch()
    assert watcher.campaigns(None, {told.id: tmp_path}) == [told]
    segment.append(RoundOpened(order=order.id, variant=builders.rounds()[0].variant), "2026-01-02T03:04:05Z")
    (now,) = watcher.campaigns(None, {told.id: tmp_path})
    assert [played.variant.number for played in now.rounds] == [1]


def test_an_end_is_told_when_all_is_said() -> None:
    closing = builders.ended(Outcome.PUSHED, ReasonCode.PUSHED)
    assert card(closing).state == "busy"
    assert card(closing.model_copy(update={"stage": Stage.ENDED})).words == "pushed"


@pytest.mark.parametrize("campaign", [None, builders.profiled(), builders.searched(), builders.finalized()])
def test_suggestions_can_be_sent_as_they_are(campaign: Campaign | None) -> None:
    offered = commands_for(campaign, "rms_norm")
    assert offered and all(command.startswith("/optimize ") for command in offered)
    assert not any(set("[]<>N") & set(command) for command in offered)
