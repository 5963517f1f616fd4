"""Lets torch.compile take its time beside v0 once a campaign has a winner. Whatever goes wrong is a reason in a table,
and costs nobody a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from bot.analysis.rivals import kind_of, longest
from bot.bench.measure import Bench
from bot.model.campaign import OUT_OF_TIME, Campaign, Profile, StopReason
from bot.model.measurement import Evidence
from bot.model.rivals import OF_WINNER, Rival
from bot.zones.workshop import stepped

MOST_WORDS = 400
SPENT = "the campaign's minutes were spent"
ELSEWHERE = "the job that ended the search had another kind of GPU"


@runtime_checkable
class PlaysLonger(Protocol):
    """A bench that can put what takes long to compile beside the untouched kernel."""

    def rivals_of_winner(self, cases: Sequence[str]) -> tuple[Rival, ...]: ...


def _none(cases: Sequence[str], why: str) -> tuple[Rival, ...]:
    return tuple(Rival(name=name, case=case, why_not=why[:MOST_WORDS]) for name in OF_WINNER for case in cases)


def of_winner(
    campaign: Campaign, why: StopReason, opened: Callable[[Profile], Bench], passed: Callable[[str], None]
) -> tuple[Rival, ...]:
    """Once a campaign: it is v0 that they are played against, whoever wins. `why` the search ended. That takes minutes,
    and `passed` hears of them."""
    profile = campaign.profile
    if profile is None or not campaign.incumbent or campaign.rivals:
        return ()
    if profile.baseline.runner.evidence is not Evidence.MEASURED:
        return ()
    cases = longest(profile.baseline)
    if why in OUT_OF_TIME:
        return _none(cases, SPENT)
    try:
        bench = opened(profile)
        if not isinstance(bench, PlaysLonger):
            return ()
        if kind_of(bench.runner) != kind_of(profile.baseline.runner):
            return _none(cases, ELSEWHERE)
        return stepped(passed, "the winner's rivals played", partial(bench.rivals_of_winner, cases))
    except Exception as error:  # the search is over and has its winner, whatever a process of ours made of this
        return _none(cases, f"{type(error).__name__}: {error}")
