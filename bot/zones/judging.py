"""Puts a round before the guardrails. Measure does it to go on, publish does it again to believe it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from bot.analysis import stats
from bot.analysis.estimate import timed
from bot.analysis.paired import MIN_GAIN
from bot.analysis.racing import SLACK
from bot.campaign.lineage import TRY_TECHNIQUE, score_of, sources_of
from bot.errors import BotError
from bot.guardrails import judge, looked_at_again, prescreen
from bot.guardrails.correctness import no_yardstick
from bot.guardrails.hearing import Hearing
from bot.model.campaign import Campaign, Origin, Profile
from bot.model.commands import Goal
from bot.model.ids import VariantNumber, variant_name
from bot.model.measurement import CaseResult, Measurement, Runner
from bot.model.variant import sources_digest
from bot.model.verdict import Verdict


def is_second_look(campaign: Campaign, number: VariantNumber) -> bool:
    """Whether a sweep tries an earlier source or its own waiting winner. Publish holds it against the commit."""
    played = campaign.round_of(number)
    return (
        campaign.origin is Origin.SWEEP and played is not None and played.variant.hypothesis.technique == TRY_TECHNIQUE
    )


def unrun(campaign: Campaign, number: VariantNumber) -> Measurement | None:
    """What is known of a variant that is never run, because its text alone condemns it; None where it does not."""
    played, profile = campaign.round_of(number), campaign.profile
    assert played is not None and profile is not None
    if is_second_look(campaign, number):
        return None
    nothing = Measurement(runner=profile.baseline.runner, source=played.variant.digest)
    refused = any(finding.severity == "reject" for finding in prescreen(_hearing(campaign, number, nothing)))
    return nothing if refused else None


def verdict_of(campaign: Campaign, number: VariantNumber) -> Verdict:
    """The verdict that follows from what the journal holds of this round."""
    played = campaign.round_of(number)
    assert played is not None and played.measurement is not None
    return verdict_on(campaign, number, played.measurement)


def verdict_on(campaign: Campaign, number: VariantNumber, measurement: Measurement) -> Verdict:
    """The verdict that would follow if this were measured of the round."""
    hearing = _hearing(campaign, number, measurement)
    return looked_at_again(hearing) if is_second_look(campaign, number) else judge(hearing)


@runtime_checkable
class Weighs(Protocol):
    """A bench that reads a variant in one process first, and in fresh ones only where that may win."""

    def weigh(self, may_win: Callable[[tuple[CaseResult, ...]], bool]) -> None: ...


def may_win(campaign: Campaign, number: VariantNumber, runner: Runner, cases: tuple[CaseResult, ...]) -> bool:
    """Whether what one process read of a variant leaves a way to beat the best so far. If it does not, fresh processes
    need not be asked. What a person brought is read to the end, and so is whoever has v0 alone to beat."""
    played, profile = campaign.round_of(number), campaign.profile
    assert played is not None and profile is not None
    glimpse = Measurement(runner=runner, source=played.variant.digest, cases=cases)
    hearing = _hearing(campaign, number, timed(glimpse, profile.suite))
    theirs = played.variant.hypothesis.technique == TRY_TECHNIQUE
    if theirs or hearing.best <= 1 or hearing.goal is Goal.MEMORY:
        return True
    try:
        found = stats.score(hearing.baseline, hearing.candidate, hearing.suite, hearing.scope, hearing.goal)
    except (BotError, ValueError, ArithmeticError):  # what is wrong with it the verdict says
        return True
    return found.value >= hearing.best * (1 + MIN_GAIN - SLACK)


def no_yardstick_for(profile: Profile, baseline: Measurement) -> str:
    """Why nothing can be held against v0 as it was measured on another machine; empty where everything can."""
    if [case.id for case in profile.suite.cases] != [result.case for result in baseline.cases]:
        return "it was scored on other cases than before"
    untimed = [result.case for result in baseline.cases if result.timing is None]
    if untimed and any(result.timing is not None for result in profile.baseline.cases):
        return f"{untimed[0]} could not be timed"
    if [row.case for row in profile.baseline.checks] != [row.case for row in baseline.checks]:
        return "it was checked on other cases than before"
    return no_yardstick(baseline.checks)


def _hearing(campaign: Campaign, number: VariantNumber, candidate: Measurement) -> Hearing:
    played, profile, command = campaign.round_of(number), campaign.profile, campaign.command
    assert played is not None and profile is not None and command is not None
    before = [other.variant for other in campaign.rounds if other.variant.number < number]
    earlier = [(variant_name(0), sources_digest(profile.sources))]
    earlier += [(variant_name(variant.number), variant.digest) for variant in before]
    again = played.is_again or campaign.stranded == number  # then that score is of another machine
    best = None if again else score_of(campaign, campaign.incumbent)
    return Hearing(
        variant=played.variant,
        sources=sources_of(campaign, 0),
        allowed=profile.site.files,
        relied_on=profile.site.relied_on,
        earlier=tuple(earlier),
        baseline=profile.baseline,
        candidate=candidate,
        suite=profile.suite,
        goal=command.goal,
        scope=command.scope,
        best=best.value if best else 1.0,
    )
