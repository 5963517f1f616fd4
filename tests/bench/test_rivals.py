"""Rivals are played one after another; who cannot be played is named, and stops nobody."""

from __future__ import annotations

from bot.bench.bailiff import Objection
from bot.bench.rivals import BLOCKS, PROFILED, WON, Heat, read
from bot.model.rivals import EVERYWHERE, OF_WINNER, RIVALS, Rival, RivalName
from bot.worker.contract.timing import Blocks

READ = Blocks(((2.0, 2.0, 1.0, 1.0),) * BLOCKS, (), 1, "", 3.0)


class Wrong(Exception):
    pass


class Track:
    """Writes down who came, and fails where it is told to."""

    def __init__(
        self, objects: tuple[tuple[str, str], ...] = (), wrong: tuple[str, ...] = (), takes: float = 1.0
    ) -> None:
        self.began: list[tuple[str, str, bool]] = []
        self._objects, self._wrong, self._takes = objects, wrong, takes
        self._clock = 0.0

    def begin(self, case: str, name: str, fresh: bool) -> None:
        self.began.append((name, case, fresh))
        self._clock += self._takes
        if (name, case) in self._objects:
            raise Objection("torch could not compile it")

    def blocks(self, case: str) -> Blocks:
        if case in self._wrong:
            raise Wrong("gradient x is wrong by 0.5")
        return READ

    def read(
        self, *cases: str, heat: Heat = PROFILED, slow: tuple[tuple[RivalName, str], ...] = ()
    ) -> tuple[Rival, ...]:
        return read(heat, cases, self.begin, self.blocks, Wrong, slow, lambda: self._clock)


def test_each_is_played_on_each_case_and_has_a_process_of_its_own() -> None:
    track = Track()
    found = track.read("a", "b")
    assert [(one.name, one.case) for one in found] == [(name, case) for name in EVERYWHERE for case in "ab"]
    assert [fresh for _, _, fresh in track.began] == [True, False, True, False]
    assert {one.reading.voided for one in found if one.reading} == {1}
    assert all(one.reading and len(one.reading.blocks) == BLOCKS and not one.why_not for one in found)


def test_one_that_cannot_be_played_is_named_and_the_next_gets_a_fresh_process() -> None:
    track = Track(objects=(("compiled", "a"),))
    found = track.read("a", "b")
    assert [(one.name, one.case, one.why_not) for one in found if one.reading is None] == [
        ("compiled", "a", "torch could not compile it")
    ]
    assert track.began[-1] == ("compiled", "b", True)


def test_a_wrong_result_is_no_rival() -> None:
    (eager, compiled) = Track(wrong=("a",)).read("a")
    assert eager.reading is None and compiled.reading is None
    assert eager.why_not == "its result is not right: gradient x is wrong by 0.5"


def test_one_that_torch_was_compiling_for_too_long_is_not_begun_again() -> None:
    track = Track()
    found = track.read("a", "b", heat=WON, slow=(("max-autotune", "a"), ("compiled", "b")))
    assert track.began == [("max-autotune", "b", True)], "another of its rivals on the same case is another matter"
    told = {one.case: one.why_not for one in found}
    assert told == {"a": "torch was still compiling it when the 60 s for that were over", "b": ""}


def test_when_the_time_is_over_the_rest_is_told_so() -> None:
    late = PROFILED.late
    found = Track(takes=PROFILED.seconds).read("a", "b")
    assert [one.why_not for one in found] == ["", "", late, late]
    found = Track(takes=PROFILED.seconds + 1).read("a", "b")
    assert [one.why_not for one in found] == ["", late, late, late]


def test_what_takes_long_to_compile_is_played_once_there_is_a_winner_and_has_a_time_of_its_own() -> None:
    track = Track(takes=WON.seconds)
    found = track.read("a", "b", "c", heat=WON)
    assert [(one.name, one.case, one.why_not) for one in found] == [
        ("max-autotune", "a", ""),
        ("max-autotune", "b", ""),
        ("max-autotune", "c", "the 60 s for rivals were over"),
    ]
    assert track.began == [("max-autotune", "a", True), ("max-autotune", "b", False)]


def test_each_rival_is_played_at_one_time() -> None:
    assert (*EVERYWHERE, *OF_WINNER) == RIVALS
