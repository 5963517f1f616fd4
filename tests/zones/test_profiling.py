"""What a profile does beside what."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bot.bench.launcher import GIVES_WAY
from bot.bench.looking import Found
from bot.model.campaign import Profile
from bot.model.measurement import Measurement, Passport, Setting, Survey
from bot.model.profiling import Counters, Dispatch
from bot.model.rivals import Rival
from bot.model.variant import SourceFile
from bot.zones import profiling
from bot.zones.profiling import Counted, profiled
from tests.bench import tiny
from tests.fakes.bench import PASSPORTS, FakeBench

PATIENCE_S = 20.0
OTHER = Dispatch(op="softmax", by_itself="nvidia-cutedsl", judged="nvidia-triton")


class Watched(FakeBench):
    """Profilers look at it, until somebody is seen to compile."""

    def __init__(self, compiles_beside: bool, tree: Path) -> None:
        super().__init__(tree, tiny.SITE, tiny.SUITE, "sm_90", "python3", tree)
        self.compiling, self.looked = threading.Event(), threading.Event()
        self.waited_for: list[bool] = []
        self._beside = compiles_beside

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        self.waited_for.append(passports)
        return super().measure(files, passports=passports)

    def expect_look(self, kernels: Sequence[str]) -> None:
        self.expected = tuple(kernels)

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
        assert self.expected == tuple(kernels), "profilers come up while rivals are played, told the same"
        assert self.compiling.wait(PATIENCE_S if self._beside else 0.1) is self._beside
        self.looked.set()
        clocked()
        return Found(Counters(status="absent", detail="no ncu"), dispatch=(OTHER,))

    def stamped(self, files: tuple[SourceFile, ...]) -> tuple[Passport, ...]:
        self.compiling.set()
        assert self._beside or self.looked.is_set()
        return super().stamped(files)


@pytest.mark.parametrize("room", [True, False])
def test_no_clock_waits_for_the_compilers_of_other_chips(
    room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run beside it where there are processors for both, and else when nothing is timed any more."""
    monkeypatch.setattr(profiling, "leaves_room", lambda: room)
    bench = Watched(room, tiny.write_tree(tmp_path / "tree"))
    found = profiled(bench, tiny.SITE, tiny.SUITE, tiny.files(), watch=True)
    assert isinstance(found, Profile)
    assert bench.waited_for == [False]
    assert found.dispatch == (OTHER,), "what the library said is journaled with the profile"
    assert tuple(stamp.arch for stamp in found.baseline.passports) == PASSPORTS


@pytest.mark.parametrize("room", [True, False])
def test_no_clock_waits_for_the_count_of_bytes(room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter counts them beside it where there are processors for both, and else when nothing is timed any
    more."""
    monkeypatch.setattr(profiling, "leaves_room", lambda: room)
    happened: list[str] = []
    counting = threading.Event()

    class Played(Watched):
        def expect_rivals(self) -> None:
            pass

        def rivals(self) -> tuple[Rival, ...]:
            assert counting.wait(PATIENCE_S if room else 0.1) is room
            happened.append("played")
            return ()

        def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
            def quiet() -> None:
                happened.append("quiet")
                clocked()

            return super().look(files, kernels, quiet)

    def count() -> Counted:
        happened.append("counted")
        counting.set()
        return Counted({case.id: 7.5 for case in tiny.SUITE.cases}, ())

    bench = Played(room, tiny.write_tree(tmp_path / "tree"))
    found = profiled(bench, tiny.SITE, tiny.SUITE, tiny.files(), watch=True, count=count)
    assert happened == (["counted", "played", "quiet"] if room else ["played", "quiet", "counted"])
    assert isinstance(found, Profile)
    assert {case.traffic_factor for case in found.baseline.cases} == {7.5}


def test_who_counts_them_gives_way_to_whoever_has_a_clock(tmp_path: Path) -> None:
    """So do all that it starts, in threads of its own too; nobody else does."""
    nice: list[int] = []

    def opened() -> FakeBench:
        def start() -> None:
            told = subprocess.run(["nice"], capture_output=True, text=True, check=True)
            nice.append(int(told.stdout))

        beside = threading.Thread(target=start)
        beside.start()
        beside.join()
        return FakeBench(tiny.write_tree(tmp_path / "tree"), tiny.SITE, tiny.SUITE, "sm_90", "python3", tmp_path)

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    counting = threading.Thread(target=lambda: profiling.counted(opened, tiny.files()))
    counting.start()
    counting.join()
    assert nice == [GIVES_WAY]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before < GIVES_WAY


def test_rewrites_are_thought_of_while_a_gpu_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thought = threading.Event()

    class Played(Watched):
        def expect_rivals(self) -> None:
            pass

        def rivals(self) -> tuple[Rival, ...]:
            assert thought.wait(PATIENCE_S)
            return ()

    monkeypatch.setattr(profiling, "think", lambda *known: thought.set())
    bench = Played(False, tiny.write_tree(tmp_path / "tree"))
    assert isinstance(profiled(bench, tiny.SITE, tiny.SUITE, tiny.files(), watch=True), Profile)


def test_without_a_gpu_they_come_with_the_measurement(tmp_path: Path) -> None:
    bench = Watched(True, tiny.write_tree(tmp_path / "tree"))
    found = profiled(bench, tiny.SITE, tiny.SUITE, tiny.files())
    assert isinstance(found, Profile)
    assert bench.waited_for == [True]
    assert tuple(stamp.arch for stamp in found.baseline.passports) == PASSPORTS


def test_other_launch_numbers_are_compiled_after_the_other_chips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both keep every processor busy, and both count the seconds that a kernel takes."""
    monkeypatch.setattr(profiling, "leaves_room", lambda: True)
    happened: list[str] = []

    class Busy(Watched):
        def stamped(self, files: tuple[SourceFile, ...]) -> tuple[Passport, ...]:
            found = super().stamped(files)
            time.sleep(0.1)
            happened.append("stamped")
            return found

        def survey(self, files: tuple[SourceFile, ...], settings: tuple[Setting, ...]) -> tuple[Survey, ...]:
            happened.append("surveyed")
            return super().survey(files, settings)

    profiled(Busy(True, tiny.write_tree(tmp_path / "tree")), tiny.SITE, tiny.SUITE, tiny.files(), watch=True)
    assert happened == ["stamped", "surveyed"]


def test_each_step_is_told_with_its_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is said for minutes, and where they went is what whoever waits wants to know."""
    monkeypatch.setattr(profiling, "leaves_room", lambda: True)
    heard: list[str] = []
    bench, tiny_ones = Watched(True, tiny.write_tree(tmp_path / "tree")), (tiny.SITE, tiny.SUITE, tiny.files())
    profiled(bench, *tiny_ones, watch=True, count=lambda: None, passed=heard.append)
    names = [re.fullmatch(r"(.+), \d+ s", line) for line in heard]
    assert {name[1] for name in names if name} == {
        "v0 checked and measured",
        "compiled for other chips",
        "other launch numbers compiled",
        "profilers asked",
        "bytes counted",
    }
    assert all(names) and heard[0].startswith("v0 checked")


def test_passports_that_failed_beside_others_are_asked_for_alone(tmp_path: Path) -> None:
    class Failing(Watched):
        asked = 0

        def stamped(self, files: tuple[SourceFile, ...]) -> tuple[Passport, ...]:
            self.asked += 1
            return super().stamped(files) if self.asked > 1 else ()

        def expect_look(self, kernels: Sequence[str]) -> None:
            pass

        def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
            clocked()
            return Found(Counters(status="absent", detail="no ncu"))

    bench = Failing(True, tiny.write_tree(tmp_path / "tree"))
    found = profiled(bench, tiny.SITE, tiny.SUITE, tiny.files(), watch=True)
    assert isinstance(found, Profile)
    assert (bench.asked, tuple(stamp.arch for stamp in found.baseline.passports)) == (2, PASSPORTS)
