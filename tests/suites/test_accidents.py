"""Whatever happens to a worker is news about its variant: no campaign is lost by it, and the next variant is judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.bench.measure import Deadlines
from bot.bench.suite_run import Court
from tests.suites.accidents import ACCIDENTS, OP, PLACES, accidents, lost
from tests.suites.rooms import PATIENT, SEED, Courts

HURRIED = Deadlines(check_s=25.0)
"""Long enough for an honest file on a busy machine, and short enough to wait for what hangs."""
DRAWN = [accident for number, accident in enumerate(accidents()) if number % (len(PLACES) * 2) == number // 8 % 4]
"""One of every other kind, each place in turn."""
FEW = {
    ("aborts", "in the forward pass"),
    ("leaves_as_if_done", "at import"),
    ("tears_down_its_home", "in the backward pass"),
    ("breaks_its_tools", "later on"),
}
"""Heard in `make test`: a worker that dies, that goes without a word, that has no house, and that has no tools."""


@contextmanager
def heard_in(scratch: Path, deadlines: Deadlines) -> Iterator[Court]:
    courts = Courts(scratch, SEED, deadlines)
    try:
        yield courts.of(OP, "quick")
    finally:
        courts.close()


def test_there_are_a_hundred_of_them_and_some_are_drawn() -> None:
    assert len(accidents()) >= 100
    assert len({accident.exhibit.text for accident in accidents()}) == len(accidents())
    assert len(DRAWN) >= 12
    assert {accident.place for accident in DRAWN} == set(PLACES)


@pytest.mark.timeout(600)
def test_no_campaign_is_lost_by_one_of_a_few_accidents(courts: Courts) -> None:
    """None of them hangs, so that they may be heard where all else of the op is."""
    few = [accident for accident in accidents() if (accident.name, accident.place) in FEW]
    assert len(few) == len(FEW)
    assert lost(courts.of(OP, "quick"), few) == []


@pytest.mark.judge
@pytest.mark.timeout(600)
def test_no_campaign_is_lost_by_an_accident(tmp_path: Path) -> None:
    with heard_in(tmp_path / "courts", PATIENT) as court:
        assert lost(court, [accident for accident in DRAWN if not accident.hangs]) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_campaign_is_lost_by_a_hundred_accidents(tmp_path: Path) -> None:
    with heard_in(tmp_path / "courts", HURRIED) as court:
        assert lost(court, accidents()) == []


def test_every_kind_is_one_line() -> None:
    assert [name for name, line in ACCIDENTS.items() if "\n" in line] == []
