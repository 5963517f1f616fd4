"""A search whose time is over."""

from __future__ import annotations

import pytest

from bot.campaign.effects import Effect, EndSearch, FinishWinner, JudgeVariant, MeasureVariant, OpenRound, RaceNumbers
from bot.model.campaign import StopReason
from bot.zones.lateness import in_time

ORDER = "o-optimize"


@pytest.mark.parametrize("begins", [OpenRound(order=ORDER, number=2), RaceNumbers(order=ORDER, incumbent=1)])
def test_nothing_new_is_begun_once_it_is_late(begins: Effect) -> None:
    assert in_time(begins, lambda: False) == begins
    assert in_time(begins, lambda: True) == EndSearch(order=ORDER, why=StopReason.TIME_OVER)


@pytest.mark.parametrize(
    "goes_on",
    [
        MeasureVariant(order=ORDER, number=2),
        JudgeVariant(order=ORDER, number=2),
        EndSearch(order=ORDER, why=StopReason.EFFICIENT),
        FinishWinner(order="o-finalize", winner=1),
    ],
)
def test_what_is_under_way_comes_to_its_end(goes_on: Effect) -> None:
    assert in_time(goes_on, lambda: True) == goes_on
