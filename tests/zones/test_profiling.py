"""What a profile does beside what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bot.bench.looking import Found
from bot.model.campaign import Profile
from bot.model.measurement import Measurement, Passport
from bot.model.profiling import Counters
from bot.model.variant import SourceFile
from bot.zones import profiling
from bot.zones.profiling import profiled
from tests.bench import tiny
from tests.fakes.bench import PASSPORTS, FakeBench

PATIENCE_S = 20.0


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

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found:
        assert self.compiling.wait(PATIENCE_S if self._beside else 0.1) is self._beside
        self.looked.set()
        clocked()
        return Found(Counters(status="absent", detail="no ncu"))

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
    assert tuple(stamp.arch for stamp in found.baseline.passports) == PASSPORTS


def test_without_a_gpu_they_come_with_the_measurement(tmp_path: Path) -> None:
    bench = Watched(True, tiny.write_tree(tmp_path / "tree"))
    found = profiled(bench, tiny.SITE, tiny.SUITE, tiny.files())
    assert isinstance(found, Profile)
    assert bench.waited_for == [True]
    assert tuple(stamp.arch for stamp in found.baseline.passports) == PASSPORTS
