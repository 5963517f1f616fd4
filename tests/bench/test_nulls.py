"""A null campaign on a clock that is a fake: searched as a race searches, confirmed as a finalist is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.analysis.racing import GLANCE
from bot.bench import nulls, race
from bot.bench.calibrating import NULL_KERNELS, amounts
from bot.bench.checks import Laid
from bot.bench.effort import Effort
from bot.bench.race import Course, Entry
from bot.bench.side_by_side import BLOCKS, groups
from bot.bench.take import Take
from bot.model.measurement import Block
from bot.model.variant import SourceFile
from bot.worker.contract.timing import Blocks, Common, Four
from tests.fakes.gpu_clock import FakeGpuClock, conditions

VARIANTS = tuple(range(1, 65))


class Clock:
    """Each kernel's noise is its own, whoever asks; kernels 5, 21 and 33 are slow, and each process is written down."""

    def __init__(self, slow: Sequence[int] = (5, 21, 33), silent: Sequence[int] = ()) -> None:
        self.processes: list[list[tuple[int, ...]]] = []
        self.read_of: dict[int, list[int]] = {}
        self.started: list[int] = []
        self._noise = {which: FakeGpuClock(conditions()[8], seed=which) for which in VARIANTS}
        self._slow, self._silent, self._on = slow, silent, tuple[int, ...]()

    def open(self, some: Sequence[int], fresh: bool) -> None:
        self._on = tuple(some)
        self.processes += [[]] if fresh else []
        self.processes[-1].append(self._on)

    def read(self, place: int, count: int) -> Blocks:
        which = self._on[place]
        self.read_of.setdefault(which, []).append(count)
        if len(self.processes) in self._silent:
            return Blocks((), (), count, "", 0.0)
        return Blocks(self._noise[which].blocks(-9.0 if which in self._slow else 0.0, count), (), 0, "", 0.0)

    def together(self, places: Sequence[int], count: int) -> Common:
        told = [self.read(place, count) for place in places]
        return Common(tuple(one.blocks for one in told), told[0].voided, "", 0.0)

    @property
    def doors(self) -> nulls.Clock:
        return nulls.Clock(self.started.append, self.open, self.read, self.together)


def raced(clock: Clock) -> list[tuple[Block, ...]]:
    """The same kernels in a race."""

    def open_some(case: str, takes: Sequence[Take], fresh: bool) -> None:
        clock.open([int(take.why_not) for take in takes], fresh)

    def record(several: Sequence[Laid], cases: Sequence[tuple[str, ...]]) -> list[dict[str, Take]]:
        return [{"c": Take("c", Path("recorded"), laid.files[0].text, 0, kernels=1)} for laid in several]

    nowhere = Path("no-such-folder")
    course = Course(
        lambda several: [Laid("n", files, nowhere, nowhere) for files in several],
        record,
        open_some,
        lambda case, place, count: clock.read(place, count).blocks,
        lambda case, places, count: clock.together(places, count).blocks,
        RuntimeError,
    )
    entries = [Entry((SourceFile(path="k.py", text=str(which)),), ("c",)) for which in VARIANTS]
    return [ran.blocks["c"] for ran in race.run(course, entries).ran]


def test_all_are_read_as_a_race_reads_them() -> None:
    clock, beside = Clock(), Clock()
    found = nulls.campaign(clock.doors, VARIANTS, 0)
    assert found is not None
    searched: list[tuple[Four, ...]] = found["searched"]["blocks"]
    assert searched == raced(beside)
    assert clock.processes[0] == beside.processes[0]
    assert [len(group) for group in clock.processes[0]] == [len(some) for some in groups(VARIANTS)]
    assert {which for which in VARIANTS if len(searched[which - 1]) == GLANCE} == {5, 21, 33}
    assert {len(blocks) for blocks in searched} == {GLANCE, BLOCKS}


def test_one_process_searches_and_as_many_fresh_ones_confirm_as_read_a_finalist() -> None:
    clock = Clock()
    found = nulls.campaign(clock.doors, VARIANTS, 70)
    assert found is not None
    alone = [(found["chosen"],)]
    assert clock.processes[1:] == [alone] * Effort().processes
    assert clock.read_of[found["chosen"]] == [GLANCE, BLOCKS - GLANCE, *[Effort().blocks] * Effort().processes]
    assert found["searched"]["process"] == 70
    assert [one["process"] for one in found["readings"]] == [71, 72, 73, 74, 75, 76]
    assert {len(one["blocks"]) for one in found["readings"]} == {24}
    assert clock.started == [3, 3, 3, 3, 3, 2, 1]


def test_the_best_is_confirmed_though_nobody_gains_anything() -> None:
    clock = Clock(slow=VARIANTS[1:])
    found = nulls.campaign(clock.doors, VARIANTS, 0)
    assert found is not None and found["chosen"] == 1


def test_what_was_voided_is_kept() -> None:
    clock = Clock()
    plain, together, shared = clock.read, clock.together, list[int]()

    def short_together(places: Sequence[int], count: int) -> Common:
        shared.append(count)
        return Common(tuple(blocks[1:] for blocks in together(places, count + 1).blocks), 1, "", 0.0)

    doors = nulls.Clock(
        clock.started.append, clock.open, lambda place, count: _short_of_one(plain(place, count)), short_together
    )
    found = nulls.campaign(doors, VARIANTS, 0)
    assert found is not None
    assert found["searched"]["voided"] == len(shared) >= len(groups(VARIANTS))
    assert [one["voided"] for one in found["readings"]] == [1] * 6


def test_who_cannot_be_read_together_is_read_alone() -> None:
    clock, beside = Clock(), Clock()

    def none(places: Sequence[int], count: int) -> Common:
        return Common(((),) * len(places), count, "", 0.0)

    doors = nulls.Clock(clock.started.append, clock.open, clock.read, none)
    found, shared = nulls.campaign(doors, VARIANTS, 0), nulls.campaign(beside.doors, VARIANTS, 0)
    assert found is not None and shared is not None
    assert found["searched"]["blocks"] == shared["searched"]["blocks"]
    assert found["searched"]["voided"] == len(groups(VARIANTS)) * GLANCE


def _short_of_one(told: Blocks) -> Blocks:
    return Blocks(told.blocks[1:], (), 1, "", 0.0)


@pytest.mark.parametrize("process", [1, 4])
def test_a_process_that_read_nothing_undisturbed_ends_a_campaign_that_then_counts_for_nothing(process: int) -> None:
    assert nulls.campaign(Clock(silent=[process]).doors, VARIANTS, 0) is None


# How much is recorded for them.


def test_campaigns_need_no_trials_and_trials_are_as_many_beside_them() -> None:
    alone, beside, before = amounts(0, 10), amounts(90, 10), amounts(90)
    assert (alone.trials, alone.waves, alone.nulls) == ((), 0, 10)
    assert alone.binaries == beside.binaries == 1 + NULL_KERNELS
    assert (beside.trials, beside.waves) == (before.trials, before.waves)
    assert (before.nulls, before.binaries) == (0, 37)
    assert amounts(300, 10).binaries == amounts(300).binaries == 121
