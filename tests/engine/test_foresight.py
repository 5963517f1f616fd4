"""What was thought of while a GPU was at work is not thought of again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.engine import launch_numbers, rewriting
from bot.engine.foresight import think
from bot.engine.transforms import TRANSFORMS
from bot.model.variant import SourceFile
from bot.proposers import engine
from bot.zones import racing
from bot.zones.profiling import think_ahead
from tests.proposers.scene import brief
from tests.proposers.test_promise import told


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    for made in (rewriting._of_file, rewriting.in_float32, launch_numbers.write):
        made.cache_clear()


def made_anew(by: Callable[[], object]) -> tuple[int, int]:
    """How many rewrites and sources with other launch numbers it takes."""
    before = rewriting._of_file.cache_info().misses, launch_numbers.write.cache_info().misses
    by()
    return (
        rewriting._of_file.cache_info().misses - before[0],
        launch_numbers.write.cache_info().misses - before[1],
    )


def test_the_first_ideas_and_the_launch_numbers_are_there_when_they_are_asked_for() -> None:
    known = told(has_opening_ahead=True)
    rewrites, numbers = made_anew(lambda: think(known.sources, known.facts, known.backward_only))
    assert rewrites >= len(TRANSFORMS) and numbers >= 4
    assert made_anew(lambda: engine.openers(known)) == (0, 0)
    rest = told()
    assert made_anew(lambda: racing.starters(rest))[1] == 0


def test_what_would_race_first_is_whole_when_it_is_asked_for() -> None:
    """What an idea brings along took as long as the rewrite itself, while a GPU waited."""
    known = told(has_opening_ahead=True)
    think_ahead(known.site, known.suite, known.original, known.baseline)
    before = rewriting.in_float32.cache_info()
    found = engine.openers(known)
    after = rewriting.in_float32.cache_info()
    assert found and (after.misses, after.hits - before.hits) == (before.misses, len(found))


def test_a_source_that_cannot_be_read_is_left_to_whoever_asks_for_it() -> None:
    known = brief()
    think((SourceFile(path="k.py", text="def (:\n"),), known.facts, frozenset())
