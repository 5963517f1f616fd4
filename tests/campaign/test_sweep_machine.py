"""A campaign that nobody asked for: what the machine leaves out of it, and what it adds."""

from __future__ import annotations

from bot.campaign.effects import Close, OfferPull, PlaceOrder, ProfileKernel, PushWinner
from bot.campaign.machine import fold, owed
from bot.model.campaign import Campaign, Origin, Outcome, Phase, Stage, StopReason, Zone
from bot.model.commands import Mode
from bot.model.facts import CampaignClosed, EffectDone, EffectRequested, Finalized, Profiled, Pushed, SearchEnded
from bot.model.policy import RepoPolicy
from tests.campaign.story import (
    ACCEPTED,
    CAMPAIGN,
    COMMIT,
    F3,
    O2,
    P1,
    finalization,
    placed,
    profile,
    requested,
    round_facts,
)

STRICT = RepoPolicy(evidence="static", final_approval="required")
BEGUN = requested(Mode.AUTONOMOUS, policy=STRICT).model_copy(update={"origin": Origin.SWEEP})
FOUND = (
    BEGUN,
    placed(1, Phase.PROFILE),
    Profiled(order=P1, profile=profile()),
    placed(2, Phase.OPTIMIZE),
    *round_facts(1, O2, ACCEPTED),
    SearchEnded(order=O2, why=StopReason.IDEAS_EXHAUSTED),
)
FINISHED = (*FOUND, placed(3, Phase.FINALIZE, winner=1), Finalized(order=F3, finalization=finalization()))


def after(*facts: object) -> Campaign:
    return fold(Campaign(id=CAMPAIGN), facts)  # type: ignore[arg-type]


def test_it_says_nothing_while_it_works() -> None:
    assert owed(after(BEGUN)) == (PlaceOrder(phase=Phase.PROFILE),)
    assert owed(after(*FOUND[:2])) == (ProfileKernel(order=P1),)


def test_it_asks_nobody_even_where_people_must_be_asked() -> None:
    campaign = after(*FINISHED)
    assert campaign.stage is Stage.PUSHING
    assert owed(campaign) == (PushWinner(winner=1),)
    person = [BEGUN.model_copy(update={"origin": Origin.PERSON}), *FINISHED[1:]]
    assert after(*person).stage is Stage.AWAIT_FINAL


def test_a_pushed_winner_is_offered_and_then_it_closes() -> None:
    pushed = (*FINISHED, Pushed(commit=COMMIT))
    assert owed(after(*pushed)) == (OfferPull(),)
    offered = (
        *pushed,
        EffectRequested(key="pull", zone=Zone.PUSH),
        EffectDone(key="pull", zone=Zone.PUSH, ref="5"),
    )
    assert owed(after(*offered)) == (Close(),)
    assert after(*offered).ref_of(OfferPull.key) == "5"
    assert owed(after(*offered, CampaignClosed(outcome=Outcome.PUSHED))) == ()


def test_without_a_winner_nothing_is_offered() -> None:
    nothing = (*FOUND[:4], SearchEnded(order=O2, why=StopReason.IDEAS_EXHAUSTED))
    assert after(*nothing).outcome is Outcome.NOTHING_TO_DO
    assert owed(after(*nothing)) == (Close(),)
