"""What a larger budget would have gone on with."""

from __future__ import annotations

import dataclasses

from bot.model.verdict import Decision
from bot.proposers import next_proposal, untried
from tests.proposers.scene import after, brief


def test_the_next_idea_is_named_although_nothing_is_left_for_it() -> None:
    assert untried(brief(budget=0)) == "the next idea would have been: Launch numbers that follow the shape"


def test_where_there_is_none_that_is_said() -> None:
    told = brief()
    while (idea := next_proposal(told)) is not None:
        told = after(told, idea, Decision.REJECTED)
    assert untried(told) == ""
    assert untried(dataclasses.replace(told, has_race_ahead=True)) == "its launch numbers were not raced"
