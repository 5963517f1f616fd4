"""How much is read: of what takes long, fewer blocks say as much."""

from __future__ import annotations

import json

import pytest

from bot.analysis.calibration import parse, report
from bot.analysis.paired import FEWEST_BLOCKS, FEWEST_CONTROL_BLOCKS
from bot.bench.effort import LONG_US, SLOW_SLOT_US, Effort
from bot.bench.rivals import BLOCKS
from tests.render.scripts import RESULTS


@pytest.mark.parametrize(("us", "wanted"), [(3.0, (24, 12)), (19.99, (24, 12)), (LONG_US, (16, 8)), (1400.0, (16, 8))])
def test_long_passes_are_read_in_two_thirds_of_the_blocks(us: float, wanted: tuple[int, int]) -> None:
    assert Effort().amounts(us) == wanted


@pytest.mark.parametrize(("slot_us", "wanted"), [(0.0, (24, 12)), (1999.0, (24, 12)), (SLOW_SLOT_US, (16, 8))])
def test_a_quick_pass_behind_a_long_one_is_read_as_a_long_one(slot_us: float, wanted: tuple[int, int]) -> None:
    assert Effort().amounts(3.0, slot_us) == wanted


def test_some_may_be_lost_before_a_reading_counts_for_nothing() -> None:
    blocks, control = Effort().amounts(LONG_US)
    assert blocks > FEWEST_BLOCKS and control > FEWEST_CONTROL_BLOCKS and BLOCKS > FEWEST_BLOCKS


@pytest.mark.long
def test_the_calibrations_say_the_same_of_so_many_blocks() -> None:
    """Nothing was read anew: the first blocks of each process alone."""
    whole, less = [], []
    for path in sorted((RESULTS / "calibration").glob("2026-11-2?*.json")):
        told = json.loads(path.read_bytes())
        if told.get("nulls"):
            continue
        whole.append(parse(json.dumps(told).encode(), path.name))
        for trial in told["trials"]:
            for reading in trial["readings"]:
                reading["blocks"] = reading["blocks"][: Effort().amounts(LONG_US)[0]]
        less.append(parse(json.dumps(told).encode(), path.name))
    before, after = (next(g for g in report(runs).groups if g.name == ">=20us") for runs in (whole, less))
    asked = {row.percent: (row.found.hits, row.accepted.hits) for row in before.planted if row.percent in (-2, 0, 2)}
    told = {row.percent: (row.found.hits, row.accepted.hits) for row in after.planted if row.percent in (-2, 0, 2)}
    assert told == asked and told[2][0] == 203 and told[0][1] == 0
    assert before.errors is not None and after.errors is not None
    assert after.errors.median < 1.05 * before.errors.median
