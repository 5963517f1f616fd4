"""A race as the journal keeps it, and what becomes of one that cannot be run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.bench.bailiff import Objection
from bot.bench.race import Entry, Ran, Result
from bot.errors import CorruptRecord
from bot.git.repo import Repo
from bot.model.facts import NumbersRaced
from bot.model.measurement import Block, Measurement
from bot.model.race import MOST_RACERS, Lap, Numbers, Race, Racer
from bot.proposers.brief import Brief
from bot.zones.intake import accept
from bot.zones.racing import ALONE, raced
from tests.campaign.story import CASE, O2
from tests.campaign.test_races import searching
from tests.fakes.bench import FakeBench
from tests.proposers.scene import BWD, FWD, brief
from tests.proposers.test_raced import measured

FORWARD = "_rms_norm_forward_kernel"


@dataclass
class Course(FakeBench):
    """A bench that lets everybody run, twice as fast as v0; who is called `last` takes longer."""

    fails: str = ""
    asked: list[tuple[Entry, ...]] = field(default_factory=list)

    def race(self, entries: tuple[Entry, ...]) -> Result:
        self.asked.append(entries)
        if self.fails:
            raise Objection(self.fails)
        ran = []
        for number, entry in enumerate(entries):
            mine = 50.0 + number
            blocks: tuple[Block, ...] = ((100.0, 100.0, mine, mine),) * 12
            left = "it fell" if number == 1 else ""
            ran.append(Ran(blocks=dict.fromkeys(entry.cases, blocks), left=left, gpu_ms=100.0 + number / 7))
        return Result(tuple(ran), 12.5, 800.0)


def told(facts: Measurement | None = None) -> Brief:
    return brief(baseline=facts or measured(), facts=facts or measured())


def test_the_source_itself_runs_first_and_in_every_case() -> None:
    bench = Course()
    found = raced(bench, told(), 0)
    ((first, *others),) = bench.asked
    assert first == Entry(told().sources, (FWD.id, BWD.id))
    assert len(found.racers) == 1 + len(others) and found.itself == found.racers[0]
    assert (found.seconds, found.gpu_ms, found.note) == (12.5, 800.0, "")
    assert [racer.gpu_ms for racer in found.racers[:3]] == [100.0, 100.143, 100.286]


def test_a_lap_is_v0_s_time_over_one_s_own_with_its_interval() -> None:
    found = raced(Course(), told(), 0)
    assert found.itself is not None
    assert {(lap.case, lap.speedup, lap.low, lap.high, lap.blocks) for lap in found.itself.laps} == {
        (FWD.id, 2.0, 2.0, 2.0, 12),
        (BWD.id, 2.0, 2.0, 2.0, 12),
    }


def test_who_left_keeps_its_laps_and_its_reason_and_is_never_first() -> None:
    found = raced(Course(), told(), 0)
    assert [racer.left for racer in found.racers[:3]] == ["", "it fell", ""]
    assert found.racers[1].laps != ()
    assert found.first == found.racers[2]


def test_without_other_numbers_nobody_is_asked_to_run() -> None:
    bench = Course()
    bare = told(Measurement(runner=measured().runner, source=measured().source))
    assert raced(bench, bare, 0) == Race(of=0, note=ALONE)
    assert bench.asked == []


def test_a_race_that_cannot_be_run_is_written_down_and_the_campaign_goes_on() -> None:
    found = raced(Course(fails="no replayer starts"), told(), 4)
    assert found == Race(of=4, note="no replayer starts")


def test_a_machine_without_a_clock_says_so() -> None:
    bench = FakeBench(Path(), told().site, told().suite)
    assert raced(bench, told(), 0).note == "this machine has no clock to race by"


# What publish believes of it


def said(*racers: Racer) -> NumbersRaced:
    return NumbersRaced(order=O2, race=Race(of=0, racers=racers))


def racer(kernel: str = "", case: str = CASE.id) -> Racer:
    numbers = (Numbers(kernel=kernel, block_name="BLOCK_SIZE", warps=4),) if kernel else ()
    return Racer(numbers=numbers, laps=(Lap(case=case, speedup=1.0, low=1.0, high=1.0, blocks=12),))


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (said(racer(), racer("_somebody_else")), "'_somebody_else'"),
        (said(racer(case="a case of its own")), "'a case of its own'"),
        (said(*[racer()] * (MOST_RACERS + 2)), f"{MOST_RACERS + 2} raced"),
    ],
)
def test_a_race_of_what_was_not_measured_is_not_believed(fact: NumbersRaced, why: str) -> None:
    with pytest.raises(CorruptRecord, match=why):
        accept((fact,), searching(), Repo(Path()))


def test_an_honest_race_is_kept() -> None:
    fact = said(*[racer()] * (MOST_RACERS + 1))
    assert accept((fact,), searching(), Repo(Path())).races == (fact.race,)
