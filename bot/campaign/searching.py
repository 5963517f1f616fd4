"""The turns of a search: rounds, races, and what is measured again where it goes on on another machine."""

from __future__ import annotations

from typing import Any

from bot.campaign.effects import PushLineage
from bot.campaign.lineage import has_opening_ahead, has_race_ahead, next_number
from bot.campaign.stopping import STAGNANT_PAIR, budget_spent, is_stagnant
from bot.campaign.unfit import change, need, of_open_order
from bot.model.campaign import Campaign, LeftMachine, Phase, Round
from bot.model.facts import MachineChanged, NumbersRaced, RoundOpened, VariantJudged, VariantMeasured
from bot.model.ids import VariantNumber
from bot.model.measurement import Measurement
from bot.model.verdict import Verdict

STRANDED = "v{} was not measured on this machine yet"
UNJUDGED = "what was measured before has no verdict yet"


def _all_judged(campaign: Campaign) -> None:
    need(all(played.verdict is not None for played in campaign.rounds), "the round before has no verdict yet")
    need(campaign.stranded is None, STRANDED.format(campaign.stranded))


def _with(campaign: Campaign, number: VariantNumber, **fields: Any) -> Campaign:
    """The campaign with some fields of one round changed."""
    rounds = campaign.rounds
    changed = (one.model_copy(update=fields) if one.variant.number == number else one for one in rounds)
    return change(campaign, rounds=tuple(changed))


def raced(campaign: Campaign, fact: NumbersRaced) -> Campaign:
    of_open_order(campaign, fact, Phase.OPTIMIZE)
    need(fact.race.of == campaign.incumbent, f"v{fact.race.of} is not the incumbent")
    ahead = has_opening_ahead if fact.race.opening else has_race_ahead
    need(ahead(campaign), f"no race of v{fact.race.of} was asked for")
    _all_judged(campaign)
    return change(campaign, races=(*campaign.races, fact.race), raced_after=len(campaign.rounds), stagnant=0)


def round_opened(campaign: Campaign, fact: RoundOpened) -> Campaign:
    of_open_order(campaign, fact, Phase.OPTIMIZE)
    _all_judged(campaign)
    need(fact.variant.number == next_number(campaign), f"the next variant is v{next_number(campaign)}")
    need(fact.variant.parent in campaign.lineage, "its parent was not accepted")
    need(not budget_spent(campaign), "the budget of variants is spent")
    return change(campaign, rounds=(*campaign.rounds, Round(variant=fact.variant)))


def machine_changed(campaign: Campaign, fact: MachineChanged) -> Campaign:
    """v0's numbers are of there from now on. The diagnosis is the first machine's, which was of the same kind."""
    of_open_order(campaign, fact, Phase.OPTIMIZE)
    assert campaign.profile is not None, "a search has a profile"
    before, now = campaign.profile.baseline, fact.baseline
    need(now.runner.evidence is before.runner.evidence, f"v0 was not {before.runner.evidence} there")
    need(now.runner.is_kind_of(before.runner), "it is another kind of GPU")
    need(bool(now.runner.differs_in(before.runner)), "v0 was measured on this machine")
    need(now.source == before.source, "another source was measured")
    need(now.fault is None, "v0 does not run there")
    need(not any(played.is_awaited for played in campaign.rounds), UNJUDGED)
    until = max((played.variant.number for played in campaign.rounds if played.measurement is not None), default=0)
    return change(
        campaign,
        profile=campaign.profile.model_copy(update={"baseline": now}),
        left=(*campaign.left, LeftMachine(baseline=before, until=until)),
        replaced_seconds=campaign.replaced_seconds + before.seconds,
    )


def measured(campaign: Campaign, fact: VariantMeasured) -> Campaign:
    of_open_order(campaign, fact, Phase.OPTIMIZE)
    again, played = campaign.stranded, campaign.round_of(fact.number)
    open_rounds = [one.variant.number for one in campaign.rounds if one.verdict is None]
    need(fact.number == again or fact.number in open_rounds, f"v{fact.number} is not being measured")
    assert played is not None
    need(played.variant.digest == fact.measurement.source, "another source was measured")
    if again is None:
        need(played.measurement is None, f"v{fact.number} was measured before")
        need(not any(one.is_awaited for one in campaign.rounds), UNJUDGED)
        return _with(campaign, fact.number, measurement=fact.measurement)
    need(fact.number == again, STRANDED.format(again))
    return _measured_again(campaign, played, fact.measurement)


def _measured_again(campaign: Campaign, played: Round, found: Measurement) -> Campaign:
    """It stays what everything is built on only if it wins here as well; its branch tells its numbers."""
    assert campaign.profile is not None and played.measurement is not None
    number = played.variant.number
    need(not found.runner.differs_in(campaign.profile.baseline.runner), f"v0 and v{number} are of two machines")
    key = PushLineage(incumbent=number).key
    return change(
        _with(campaign, number, measurement=found, verdict=None, held_against=None, is_again=True),
        lineage=tuple(one for one in campaign.lineage if one != number),
        replaced_seconds=campaign.replaced_seconds + played.measurement.seconds,
        requested=tuple(one for one in campaign.requested if one != key),
        done=tuple((one, ref) for one, ref in campaign.done if one != key),
    )


def judged(campaign: Campaign, fact: VariantJudged) -> Campaign:
    of_open_order(campaign, fact, Phase.OPTIMIZE)
    number, played = fact.number, campaign.round_of(fact.number)
    open_rounds = [one.variant.number for one in campaign.rounds if one.verdict is None]
    latest = campaign.rounds[-1].variant.number if campaign.rounds else 0
    need(played is not None and number in (*open_rounds, latest), f"v{number} is not being judged")
    assert played is not None
    need(played.measurement is not None, f"v{number} was not measured")
    need(played.verdict is None, f"v{number} was judged before")
    against = 0 if played.is_again else campaign.incumbent
    held = _with(campaign, number, verdict=fact.verdict, held_against=against)
    return _judged_again(held, number) if played.is_again else _judged_first(held, number, fact.verdict)


def _judged_first(campaign: Campaign, number: VariantNumber, verdict: Verdict) -> Campaign:
    if verdict.decision.is_accepted:
        return change(campaign, lineage=(*campaign.lineage, number), stagnant=0)
    if not is_stagnant(verdict):
        return campaign
    stagnant = campaign.stagnant + 1
    if stagnant >= STAGNANT_PAIR and campaign.reviews == 0:
        return change(campaign, stagnant=0, reviews=1)
    return change(campaign, stagnant=stagnant)


def _judged_again(campaign: Campaign, number: VariantNumber) -> Campaign:
    """No new idea, so nothing is counted; but those that gained nothing over one that is lost may over another."""
    played = campaign.round_of(number)
    if played is not None and played.is_accepted:
        return change(campaign, lineage=(*campaign.lineage, number))
    return change(campaign, stagnant=0)
