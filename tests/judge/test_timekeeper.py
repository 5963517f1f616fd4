"""How many cases the judge keeps on the GPU between their turns, and what its own clock is asked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.guardrails.clocks import MOST_APART
from bot.judge import timekeeper
from bot.judge.frames import MOST_SLOTS, Ask
from bot.judge.handle import Unplayable
from bot.judge.layout import BANKS, MOST_RIGHT, Layout
from bot.judge.timekeeper import (
    BASELINE,
    CONTROL,
    FIRST,
    NEAR,
    Run,
    Timekeeper,
    crowded_out,
    is_interrupted,
    long_runs,
)
from bot.worker.contract import Call, ContractError

MESSAGE_US = 800.0
KEPT = {("a", 1): 30, ("b", 1): 30, ("c", 7): 30}


def small(nbytes: int) -> Layout:
    """One that keeps so many bytes: its inputs, and no result."""
    return Layout((), nbytes // BANKS, (), 0, 1)


@pytest.mark.parametrize(
    ("room", "leaving"),
    [
        (120, []),
        (119, [("c", 7)]),
        (90, [("c", 7)]),
        (89, [("c", 7), ("b", 1)]),
        (60, [("c", 7), ("b", 1)]),
        (59, [("c", 7), ("b", 1), ("a", 1)]),
        (1, [("c", 7), ("b", 1), ("a", 1)]),
    ],
)
def test_who_came_last_makes_room(room: float, leaving: list[tuple[str, int]]) -> None:
    assert crowded_out(KEPT, small(30), room) == leaving


def test_nobody_has_to_leave_an_empty_place() -> None:
    assert crowded_out({}, small(300), 1.0) == []


def test_truth_and_what_was_right_count() -> None:
    kept = Layout((), 512, (), 1024, 2)
    assert kept.kept_bytes == kept.shared_bytes + BANKS * 1024 * (4 + 2 * MOST_RIGHT)


class Quiet:
    """A replayer that does nothing."""

    def come_up(self, seconds: float) -> None: ...

    def end_case(self) -> None: ...

    def close(self) -> None: ...


def keeper(*, has_rivals: bool, plays: bool = True) -> Timekeeper:
    made = object.__new__(Timekeeper)
    made._has_rivals, made._waiting, made._retired = has_rivals, [], []
    made._playing = Quiet() if plays else None  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("variants", "fresh", "had"), [(("v",), True, False), (("v",), True, True), ((), False, False)]
)
def test_a_rival_meets_no_variant_and_no_process_that_played_one(
    variants: tuple[str, ...], fresh: bool, had: bool
) -> None:
    call = Call("c", "c", "forward", (), ())
    with pytest.raises(Unplayable, match="beside v0 alone"):
        keeper(has_rivals=had).open(call, "nowhere", variants, 1, fresh=fresh, rivals=("eager",))


def test_a_process_that_played_a_rival_plays_no_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left, although a fresh one was not asked for."""
    made, started = keeper(has_rivals=True), []
    monkeypatch.setattr(
        Timekeeper, "_begin", lambda self, count: started.append(count) or setattr(self, "_waiting", [Quiet()])
    )
    with pytest.raises(ContractError):  # there is no tape at "nowhere"
        made.open(Call("c", "c", "forward", (), ()), "nowhere", ("v",), 1, fresh=False)
    once = list(started)
    assert set(once) == {1}
    same = keeper(has_rivals=False)
    with pytest.raises(ContractError):
        same.open(Call("c", "c", "forward", (), ()), "nowhere", ("v",), 1, fresh=False)
    assert started == once


# -- blocks -----------------------------------------------------------------------------------------------------------

US = {BASELINE: 10.0, CONTROL: 11.0, FIRST: 5.0, FIRST + 1: 20.0, FIRST + 2: 7.0}


class Player:
    """A replayer whose arms take what they take."""

    def __init__(self) -> None:
        self.played: list[tuple[int, ...]] = []

    def ask(self, ask: Ask) -> tuple[tuple[float, ...], float]:
        self.played.append(ask.arms)
        times = tuple(US[arm] for arm in ask.arms)
        return times, sum(times) + 1000.0


class Verified:
    """A case, and who is wrong in it."""

    def __init__(self, slots: int, wrong: int | None) -> None:
        self.layout, self._wrong = SimpleNamespace(slots=slots, lanes=1), wrong

    def verify(self, slot: int, bank: int, *, is_baseline: bool) -> str:
        return "y is wrong" if slot == self._wrong else ""

    def spoil(self) -> None: ...


def playing(
    *, slots: int = MOST_SLOTS, wrong: int | None = None, disturbed: bool = False, processes: int = 2, still: int = 0
) -> tuple[Timekeeper, Player]:
    made: Any = object.__new__(Timekeeper)
    player = Player()
    made._playing, made._on, made._turns, made._random = player, Verified(slots, wrong), 0, secrets.SystemRandom()
    made._others, made._still, made._waiting, made._retired = 1, still, [], []
    made._nvml = SimpleNamespace(read=lambda: SimpleNamespace(is_disturbed=disturbed, processes=processes))
    return made, player


def test_a_block_is_v0_and_another_there_and_back_in_an_order_drawn_at_random() -> None:
    keeper, player = playing()
    found = keeper.blocks(0, 40, 20)
    assert found.blocks == ((10.0, 10.0, 5.0, 5.0),) * 40 and found.control == ((10.0, 10.0, 11.0, 11.0),) * 20
    orders = {played[place : place + 4] for played in player.played for place in range(0, len(played), 4)}
    inner = {(BASELINE, arm, arm, BASELINE) for arm in (FIRST, CONTROL)}
    outer = {(arm, BASELINE, BASELINE, arm) for arm in (FIRST, CONTROL)}
    assert orders == inner | outer
    assert {len(played) for played in player.played} == {MOST_SLOTS}


def test_several_share_one_v0_and_each_has_a_block_of_its_own() -> None:
    keeper, player = playing()
    found = keeper.common((0, 1, 2), 8)
    assert found.blocks == tuple(((10.0, 10.0, US[arm], US[arm]),) * 8 for arm in (FIRST, FIRST + 1, FIRST + 2))
    assert (found.voided, found.wrong) == (0, "") and found.gpu_ms > 0
    for played in player.played:
        assert sorted(played[:4]) == [BASELINE, FIRST, FIRST + 1, FIRST + 2]
        for place in range(0, len(played), 8):
            assert played[place : place + 4] == played[place + 4 : place + 8][::-1], "drift falls on all alike"
    assert sum(map(len, player.played)) == 8 * 8, "two slots each and two of v0: beside a v0 of its own it were 96"


@pytest.mark.parametrize(("slots", "fits"), [(8, True), (7, False), (4, False)])
def test_who_does_not_fit_between_two_looks_is_not_read(slots: int, fits: bool) -> None:
    keeper, player = playing(slots=slots)
    found = keeper.common((0, 1, 2), 5)
    assert [len(blocks) for blocks in found.blocks] == [5 if fits else 0] * 3
    assert (len(player.played), found.voided) == ((5, 0) if fits else (0, 5))


@pytest.mark.parametrize(("there", "still", "expected"), [(8, 6, 2 + 6 + 2), (8, 0, 8 + 2), (3, 6, 0 + 6 + 2)])
def test_who_stands_still_when_the_clock_is_set_up_is_counted_once(
    there: int, still: int, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They go some day, and strangers who come then are strangers."""
    monkeypatch.setattr(timekeeper, "Driver", lambda: None)
    monkeypatch.setattr(timekeeper, "Nvml", lambda gpu: SimpleNamespace(read=lambda: SimpleNamespace(processes=there)))
    recipe: Any = None
    made = Timekeeper("softmax", recipe, 1, tmp_path, "GPU-1", still)
    assert made._expected() == expected
    made._still = 0
    assert made._expected() == expected - still


def test_a_batch_that_was_disturbed_counts_for_nobody() -> None:
    keeper, _ = playing(disturbed=True)
    found = keeper.common((0, 1), 5)
    assert (found.blocks, found.voided) == (((), ()), 5)
    told = keeper.blocks(0, 5, 2)
    assert (told.blocks, told.control, told.voided) == ((), (), 7)


@pytest.mark.parametrize(("processes", "still", "voided"), [(3, 0, 0), (4, 0, 5), (4, 1, 0), (5, 1, 5)])
def test_a_stranger_on_the_gpu_disturbs_and_whom_the_bench_made_stand_still_does_not(
    processes: int, still: int, voided: int
) -> None:
    """One other was there from the start; the judge and the replayer are two more."""
    keeper, _ = playing(processes=processes, still=still)
    assert keeper.common((0, 1), 5).voided == voided


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ([], False),
        ([10.0] * 94 + [15.1], False),
        ([10.0] * 94 + [15.1] * 2, True),
        ([10.0] * 94 + [15.0] * 2, False),
        ([10.0, 30.0] * 48, False),
    ],
)
def test_two_slots_of_v0_that_are_not_its_own_are_an_interruption(slots: list[float], told: bool) -> None:
    """A kernel that takes three times as long every other time does so by itself."""
    assert is_interrupted(slots) is told


class Interrupted(Player):
    """So many of the first slots of an arm take three times as long."""

    def __init__(self, **slots: int) -> None:
        super().__init__()
        self._left = {arm: slots.get(name, 0) for name, arm in (("v0", BASELINE), ("copy", CONTROL), ("v1", FIRST))}

    def ask(self, ask: Ask) -> tuple[tuple[float, ...], float]:
        times, wall = super().ask(ask)
        late = []
        for arm, us in zip(ask.arms, times, strict=True):
            taken = self._left.get(arm, 0) > 0
            late.append(3 * us if taken else us)
            self._left[arm] = self._left.get(arm, 0) - taken
        return tuple(late), 3 * wall


class Often(Player):
    """Every tenth slot takes three times as long."""

    def ask(self, ask: Ask) -> tuple[tuple[float, ...], float]:
        times, wall = super().ask(ask)
        before = sum(map(len, self.played)) - len(times)
        return tuple(3 * us if (before + place) % 10 == 0 else us for place, us in enumerate(times)), 3 * wall


@pytest.mark.parametrize(
    ("slots", "again"), [({"v0": 1}, False), ({"v0": 2}, True), ({"v0": 1, "copy": 1}, True), ({"v1": 48}, False)]
)
def test_an_interrupted_reading_is_thrown_away_for_another(slots: dict[str, int], again: bool) -> None:
    """What took its place is whole: nothing of it was voided."""
    keeper, _ = playing()
    player = keeper._playing = Interrupted(**slots)  # type: ignore[assignment]
    found = keeper.blocks(0, 24, 12)
    assert (len(found.blocks), len(found.control), found.voided) == (24, 12, 0)
    assert sum(map(len, player.played)) == 4 * 36 * (2 if again else 1)
    if again:
        assert set(found.blocks) == {(10.0, 10.0, 5.0, 5.0)}


def test_who_is_always_interrupted_is_told_as_it_is() -> None:
    keeper, _ = playing()
    player = keeper._playing = Often()  # type: ignore[assignment]
    found = keeper.blocks(0, 24, 12)
    assert (len(found.blocks), found.voided) == (24, 0)
    assert sum(map(len, player.played)) == 3 * 4 * 36


@pytest.mark.parametrize(("slots", "times"), [(1, 1), (2, 2)])
def test_one_interrupted_slot_of_a_shared_v0_counts_once(slots: int, times: int) -> None:
    keeper, _ = playing()
    player = keeper._playing = Interrupted(v0=slots)  # type: ignore[assignment]
    keeper.common((0, 1, 2), 8)
    assert sum(map(len, player.played)) == times * 8 * 8


def test_what_is_wrong_ends_the_reading() -> None:
    keeper, player = playing(wrong=3)
    assert "y is wrong" in keeper.common((0, 1), 12).wrong
    assert "y is wrong" in keeper.blocks(0, 12, 0).wrong
    assert len(player.played) == 2


@dataclass(frozen=True)
class Played:
    """An arm that takes so many microseconds a pass, after others that no event sees."""

    us: float
    before: float = 0.0
    unseen: float = 0.0
    """Of each pass, by the events."""


def arms(v0: Played, variant: Played) -> Run:
    def run(arm: int, count: int) -> tuple[float, float]:
        one = v0 if arm == BASELINE else variant
        return count * (one.us - one.unseen), MESSAGE_US + one.before + count * one.us

    return run


def test_both_clocks_tell_the_same_of_equals() -> None:
    told = long_runs(arms(Played(4.0), Played(3.0)))
    assert (told.wall_ratio, told.event_ratio, told.covered) == pytest.approx((0.75, 0.75, 1.0))


def test_a_faster_pass_before_it_is_nothing_to_the_clock() -> None:
    """jsd's backward only asks whether a number is 1; its forward pass was 1.2 ms faster in 20, and it was refused."""
    told = long_runs(arms(Played(4.0, before=4000.0), Played(4.0, before=2800.0)))
    assert told.wall_ratio == pytest.approx(1.0) and told.event_ratio == pytest.approx(1.0)


def late(run: Run, *calls: int) -> Run:
    """The host was elsewhere for 3 ms in these long runs of the variant."""
    seen = 0

    def late_run(arm: int, count: int) -> tuple[float, float]:
        nonlocal seen
        events, wall = run(arm, count)
        if arm == FIRST and count > 1000:
            seen += 1
            wall += 3000.0 if seen in calls else 0.0
        return events, wall

    return late_run


def test_a_host_that_is_late_once_is_asked_again() -> None:
    """jsd's sixth variant was 2.54x, and refused: at one of 15 cases the host had been late for 2 ms in 20."""
    run = arms(Played(4.0), Played(3.0))
    assert long_runs(late(run, 1)).wall_ratio == pytest.approx(0.75)


def test_a_host_that_is_late_all_the_time_is_asked_for_longer() -> None:
    """Both winners of cross_entropy were refused for one of 15 cases each, beside a neighbour that compiled: the middle
    of three runs was late as well."""
    run = arms(Played(4.0), Played(3.0))
    told = long_runs(late(run, *range(1, 20)))
    assert 1 < told.wall_ratio / told.event_ratio < 1 + MOST_APART


def behind(run: Run, us: float) -> Run:
    """The variant leaves so much for after its events, in each run once and however long that is."""

    def backlog(arm: int, count: int) -> tuple[float, float]:
        events, wall = run(arm, count)
        hidden = min(us, 0.5 * events) if arm == FIRST else 0.0
        return events - hidden, wall

    return backlog


@pytest.mark.parametrize("us", [8_000.0, 12_000.0])
def test_a_backlog_that_no_event_sees_is_seen_in_runs_as_short_as_the_first(us: float) -> None:
    told = long_runs(behind(arms(Played(4.0), Played(4.0)), us))
    assert abs(told.wall_ratio / told.event_ratio - 1) > MOST_APART


def test_work_that_no_event_sees_is_no_host_that_is_late() -> None:
    told = long_runs(late(arms(Played(4.0), Played(4.0, unseen=0.4)), *range(1, 20)))
    assert told.wall_ratio / told.event_ratio > 1 + MOST_APART


def test_clocks_that_agree_are_not_asked_again() -> None:
    played: list[int] = []
    run = arms(Played(4.0), Played(3.0))

    def noted(arm: int, count: int) -> tuple[float, float]:
        played.append(count)
        return run(arm, count)

    long_runs(noted)
    assert sum(count > 1000 for count in played) == 4
    assert NEAR < MOST_APART


def test_each_arm_fills_a_run_by_itself() -> None:
    """group_norm's backward was 20x: as many passes of v0 as of the winner took 15 s."""
    played: dict[int, list[int]] = {BASELINE: [], FIRST: []}
    run = arms(Played(800.0), Played(40.0))

    def noted(arm: int, count: int) -> tuple[float, float]:
        played[arm].append(count)
        return run(arm, count)

    assert long_runs(noted).wall_ratio == pytest.approx(0.05)
    assert (max(played[BASELINE]), max(played[FIRST])) == (25, 500)


def test_what_the_events_miss_of_each_pass_is_seen_by_the_clock() -> None:
    told = long_runs(arms(Played(4.0), Played(4.0, before=1200.0, unseen=1.0)))
    assert told.event_ratio == pytest.approx(0.75)
    assert told.wall_ratio > 0.99 and told.covered < 0.76
