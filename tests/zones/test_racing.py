"""A race as the journal keeps it, and what becomes of one that cannot be run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.analysis.strategies import TOGETHER
from bot.bench.bailiff import Objection
from bot.bench.race import Entry, Ran, Result
from bot.engine.transforms import ACROSS_FILES, TRANSFORMS
from bot.errors import CorruptRecord
from bot.git.repo import Repo
from bot.model.facts import NumbersRaced
from bot.model.measurement import Block, Measurement
from bot.model.race import MOST_RACERS, Lap, Numbers, Race, Racer
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.proposers import engine
from bot.proposers.brief import Brief
from bot.zones.intake import OUR_IDEAS, accept
from bot.zones.racing import ALONE, FEWEST, before_a_round, raced
from tests.campaign.story import CASE, O2
from tests.campaign.test_races import searching
from tests.fakes.bench import FakeBench
from tests.proposers.scene import BWD, FWD, after, brief
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


def told(facts: Measurement | None = None, **fields: Any) -> Brief:
    return brief(baseline=facts or measured(), facts=facts or measured(), **fields)


def test_the_source_itself_runs_first_and_in_every_case() -> None:
    bench = Course()
    found = raced(bench, told())
    ((first, *others),) = bench.asked
    assert first == Entry(told().sources, (FWD.id, BWD.id))
    assert len(found.racers) == 1 + len(others) and found.itself == found.racers[0]
    assert (found.seconds, found.gpu_ms, found.note) == (12.5, 800.0, "")
    assert [racer.gpu_ms for racer in found.racers[:3]] == [100.0, 100.143, 100.286]


def test_a_lap_is_v0_s_time_over_one_s_own_with_its_interval() -> None:
    found = raced(Course(), told())
    assert found.itself is not None
    assert {(lap.case, lap.speedup, lap.low, lap.high, lap.blocks) for lap in found.itself.laps} == {
        (FWD.id, 2.0, 2.0, 2.0, 12),
        (BWD.id, 2.0, 2.0, 2.0, 12),
    }


def test_who_left_keeps_its_laps_and_its_reason_and_is_never_first() -> None:
    found = raced(Course(), told())
    assert [racer.left for racer in found.racers[:3]] == ["", "it fell", ""]
    assert found.racers[1].laps != ()
    assert found.first == found.racers[2]


def test_without_other_numbers_nobody_is_asked_to_run() -> None:
    bench = Course()
    facts = Measurement(runner=measured().runner, source=measured().source)
    bare = brief(baseline=facts, facts=facts, sources=(SourceFile(path="empty.py", text=""),))
    assert raced(bench, bare) == Race(of=0, note=ALONE)
    assert bench.asked == []


def test_a_race_that_cannot_be_run_is_written_down_and_the_campaign_goes_on() -> None:
    found = raced(Course(fails="no replayer starts"), brief(baseline=measured(), facts=measured(), incumbent=4))
    assert found == Race(of=4, note="no replayer starts")


def test_a_machine_without_a_clock_says_so() -> None:
    bench = FakeBench(Path(), told().site, told().suite)
    assert raced(bench, told()).note == "this machine has no clock to race by"


# Ideas


def test_ideas_race_by_themselves_before_the_first_of_them_has_a_round() -> None:
    bench = Course()
    race = before_a_round(bench, told(has_opening_ahead=True, has_race_ahead=True))
    assert race is not None and race.opening
    assert [(racer.idea, racer.numbers) for racer in race.racers] == [
        ("", ()),
        ("pipeline_rows", ()),
        ("more_programs", ()),
        ("block_rows", ()),
    ]
    assert race.others[0].title == "Load the rows to come while one is worked on"
    assert {entry.cases for entry in bench.asked[0]} == {(FWD.id, BWD.id)}
    assert len({entry.files for entry in bench.asked[0]}) == 4


def test_what_a_pass_allocates_comes_with_its_lap() -> None:
    @dataclass
    class Counting(Course):
        def race(self, entries: tuple[Entry, ...]) -> Result:
            found = super().race(entries)
            for number, one in enumerate(found.ran):
                one.peak_bytes = {FWD.id: 1000 + number}
            return found

    race = before_a_round(Counting(), told(has_opening_ahead=True))
    assert race is not None
    laps = {lap.case: lap.peak_bytes for lap in race.others[0].laps}
    assert laps == {FWD.id: 1001, BWD.id: 0}


@dataclass
class Spilling(Course):
    """Everybody runs; who is the last keeps so much in memory, by kernel, and the source itself what it is told."""

    now: tuple[tuple[str, int], ...] = ()
    last: tuple[tuple[str, int], ...] = ()

    def race(self, entries: tuple[Entry, ...]) -> Result:
        found = super().race(entries)
        for place, one in enumerate(found.ran):
            one.left = ""
            one.local_bytes = dict.fromkeys(one.blocks, ())
            one.local_bytes[BWD.id] = self.now if place == 0 else self.last if place == len(entries) - 1 else ()
        return found


@pytest.mark.parametrize(
    ("now", "last", "spills"),
    [
        ((("_k", 0),), (("_k", 24),), 24),
        ((("_k", 0), ("_l", 8)), (("_k", 24), ("_l", 0)), 24),
        ((("_k", 4),), (("_k", 24),), 0),
        ((("_k", 0),), (("_new", 16),), 16),
        ((("_k", 4),), (("_new", 16),), 0),
        ((), (("_k", -8),), 0),
        ((("_k", 0),), (("_k", 0),), 0),
    ],
    ids=["new", "new in one", "as before", "another name", "another name, one spilled", "no number", "none"],
)
def test_what_spills_where_nothing_did_is_told_of_everybody_by_its_lap(
    now: tuple[tuple[str, int], ...], last: tuple[tuple[str, int], ...], spills: int
) -> None:
    numbers = raced(Spilling(now=now, last=last), told()).others[-1]
    assert {lap.case: lap.spills for lap in numbers.laps} == {FWD.id: 0, BWD.id: spills}
    assert numbers.numbers and numbers.left == ""
    race = before_a_round(Spilling(now=now, last=last), told(has_opening_ahead=True))
    assert race is not None
    idea = race.others[-1]
    assert idea.idea and (idea.left, idea.most_spilled, idea.spills) == ("", spills, spills > 0)


def test_one_idea_alone_races_with_the_launch_numbers() -> None:
    """jsd had one idea left on an H200, and spent a minute on a round of it that a race would have saved."""
    facts = told(has_opening_ahead=True, has_race_ahead=True)
    ideas = engine.openers(facts)
    for idea in ideas[FEWEST - 1 :]:
        facts = after(facts, idea, Decision.REJECTED)
    race = before_a_round(Course(), facts)
    assert race is not None and not race.opening
    assert [racer.idea for racer in race.others if racer.idea] == [ideas[0].hypothesis.technique, "cache_hints"]
    assert any(racer.numbers for racer in race.others)


def test_nobody_races_where_ideas_have_raced_or_there_is_none() -> None:
    assert before_a_round(Course(), told(has_race_ahead=True)) is None
    empty = (SourceFile(path="empty.py", text=""),)
    assert before_a_round(Course(), told(has_opening_ahead=True, has_race_ahead=True, sources=empty)) is None


def test_what_is_left_races_beside_the_launch_numbers_and_together_they_are_not_too_many() -> None:
    bench = Course()
    race = raced(bench, told())
    assert [racer.idea for racer in race.others if racer.idea] == [
        *(idea.hypothesis.technique for idea in engine.openers(told(has_opening_ahead=True))),
        "cache_hints",
    ]
    assert race.others[-1].numbers and len(race.others) <= MOST_RACERS


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
        (said(racer(), Racer(idea="drink_tea")), "'drink_tea', which is no idea"),
        (said(racer(), Racer(idea="tile_rowses:_k")), "'tile_rowses:_k', which is no idea"),
    ],
)
def test_a_race_of_what_was_not_measured_is_not_believed(fact: NumbersRaced, why: str) -> None:
    with pytest.raises(CorruptRecord, match=why):
        accept((fact,), searching(), Repo(Path()))


@pytest.mark.parametrize("idea", ["Tile rows", "tile_rows:", "tile_rows:<img>", "tile_rows:a:b", "t" * 121])
def test_an_idea_goes_by_a_plain_name(idea: str) -> None:
    with pytest.raises(ValueError, match="idea"):
        Racer(idea=idea)


def test_ideas_of_ours_are_believed() -> None:
    every = (*TRANSFORMS, *ACROSS_FILES, *TOGETHER)
    ideas = ("tile_rows:_k", "more_warps:_k", "fewer_warps:_k", *every[: MOST_RACERS - 3])
    assert {*every, *engine.FORECASTS} <= OUR_IDEAS, "each that the engine has"
    fact = said(racer(), *(Racer(idea=idea, title="<b>") for idea in ideas))
    assert accept((fact,), searching(), Repo(Path())).races == (fact.race,)


def test_an_honest_race_is_kept() -> None:
    fact = said(*[racer()] * (MOST_RACERS + 1))
    assert accept((fact,), searching(), Repo(Path())).races == (fact.race,)
