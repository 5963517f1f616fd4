"""The whole life of a campaign: `advance` folds one fact in, `owed` says what is still to be done.

Both are total and pure. A fact that does not fit the stage it meets changes nothing but is kept among `ignored`,
so that a late or doubled delivery is visible and harmless. Nothing is owed once a campaign has ENDED.
"""

from __future__ import annotations

from collections.abc import Iterable

from bot.campaign.effects import (
    AskHuman,
    Close,
    Effect,
    EndSearch,
    FinishWinner,
    JudgeVariant,
    MarkCommit,
    MeasureVariant,
    OfferPull,
    OpenRound,
    PlaceOrder,
    ProfileKernel,
    PushLineage,
    PushWinner,
    RaceNumbers,
    ReactFinally,
    SayResult,
    SayStatus,
)
from bot.campaign.lineage import has_race_ahead, next_number
from bot.campaign.stopping import OUT_OF_IDEAS, why_stop
from bot.campaign.turns import CHECKPOINT_OF, PHASE_OF, TURNS, checkpoint_key, evidence_suffices
from bot.campaign.unfit import Unfit
from bot.model.campaign import Campaign, Ignored, Origin, Outcome, Stage, Zone
from bot.model.facts import Fact

__all__ = ["CHECKPOINT_OF", "TURNS", "advance", "checkpoint_key", "evidence_suffices", "fold", "owed", "owed_in"]


def _open(campaign: Campaign, *effects: Effect) -> tuple[Effect, ...]:
    return tuple(effect for effect in effects if campaign.ref_of(effect.key) is None)


def _said(campaign: Campaign) -> tuple[Effect, ...]:
    stage, turn = campaign.stage, len(campaign.orders)
    late = (SayStatus(stage=stage, turn=turn, late=True),) if campaign.late is not None else ()
    return _open(campaign, SayStatus(stage=stage, turn=turn), MarkCommit(stage=stage, turn=turn), *late)


def _talk(campaign: Campaign) -> tuple[Effect, ...]:
    """What is told while the campaign goes on. Closing waits for no lineage: only publish could push one."""
    if campaign.origin is Origin.SWEEP:  # a night of fifty kernels is told in one dashboard
        return ()
    lineage = (PushLineage(incumbent=campaign.incumbent),) if campaign.incumbent else ()
    return (*_open(campaign, *lineage), *_said(campaign))


def _searching(campaign: Campaign) -> Effect:
    assert campaign.order is not None
    order = campaign.order.id
    last = campaign.rounds[-1] if campaign.rounds else None
    awaited = next((played for played in campaign.rounds if played.is_awaited), None)
    if awaited is not None:
        return JudgeVariant(order=order, number=awaited.variant.number)
    if campaign.stranded is not None:  # before anything is held against it, or the search ends with it
        return MeasureVariant(order=order, number=campaign.stranded)
    if last is not None and last.measurement is None:
        return MeasureVariant(order=order, number=last.variant.number)
    why = why_stop(campaign)
    if why in OUT_OF_IDEAS and has_race_ahead(campaign):
        return RaceNumbers(order=order, incumbent=campaign.incumbent)
    if why is not None:
        return EndSearch(order=order, why=why)
    return OpenRound(order=order, number=next_number(campaign))


def _work(campaign: Campaign) -> tuple[Effect, ...]:
    if campaign.order is None:
        return (PlaceOrder(phase=PHASE_OF[campaign.stage]),)
    match campaign.stage:
        case Stage.PROFILING:
            work: Effect = ProfileKernel(order=campaign.order.id)
        case Stage.OPTIMIZING:
            work = _searching(campaign)
        case _:
            work = FinishWinner(order=campaign.order.id, winner=campaign.winner or 0)
    return (*_talk(campaign), work)


def owed(campaign: Campaign) -> tuple[Effect, ...]:
    """The outstanding effects, first things first. Empty before the request and after the end."""
    match campaign.stage:
        case Stage.NEW | Stage.ENDED:
            return ()
        case Stage.PROFILING | Stage.OPTIMIZING | Stage.FINALIZING:
            return _work(campaign)
        case Stage.AWAIT_PROFILE | Stage.AWAIT_WINNER | Stage.AWAIT_FINAL:
            question = AskHuman(checkpoint=CHECKPOINT_OF[campaign.stage], turn=len(campaign.orders))
            return (*_talk(campaign), *_open(campaign, question))
        case Stage.PUSHING:
            return (*_talk(campaign), PushWinner(winner=campaign.winner or 0))
        case Stage.CLOSING if campaign.origin is Origin.SWEEP:
            offer = (OfferPull(),) if campaign.outcome is Outcome.PUSHED else ()
            return _open(campaign, *offer) or (Close(),)
        case Stage.CLOSING:
            said = (*_said(campaign), *_open(campaign, SayResult(), ReactFinally()))
            return said or (Close(),)


def owed_in(campaign: Campaign, zone: Zone) -> tuple[Effect, ...]:
    """What this zone may carry out of what is owed."""
    return tuple(effect for effect in owed(campaign) if zone in effect.zones)


def _after(campaign: Campaign, fact: Fact) -> Campaign:
    try:
        return TURNS[type(fact)](campaign, fact)
    except Unfit as unfit:
        return campaign.model_copy(update={"ignored": (*campaign.ignored, Ignored(fact=fact.kind, why=str(unfit)))})


def advance(campaign: Campaign, fact: Fact) -> tuple[Campaign, tuple[Effect, ...]]:
    """Fold one fact in. A fact that does not fit is kept among `ignored` and changes nothing else."""
    after = _after(campaign, fact)
    return after, owed(after)


def fold(campaign: Campaign, facts: Iterable[Fact]) -> Campaign:
    """A campaign is the fold of its facts. What each of them left owed on the way is not asked for."""
    for fact in facts:
        campaign = _after(campaign, fact)
    return campaign
