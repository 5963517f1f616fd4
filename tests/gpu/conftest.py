"""Benches with a real clock. Everything here is skipped where there is no GPU."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.bench.choosing import open_measured_bench
from bot.bench.effort import Effort
from bot.bench.gpu import find_gpus, why_none
from bot.bench.measured import MeasuredBench
from bot.bench.overlay import base_files
from bot.cli.judge_suite import sample, target_of
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile

QUICK = Effort(processes=3, losers=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    missing = pytest.mark.skip(reason=f"no NVIDIA GPU here: {why_none()}")
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        item.add_marker(pytest.mark.timeout(600))
        if not find_gpus():
            item.add_marker(missing)


def sources_of(op: str) -> tuple[SourceFile, ...]:
    return base_files(sample(), target_of(sample()).site(op))


def changed(op: str, old: str, new: str) -> tuple[SourceFile, ...]:
    """The op's file with one text in place of another that it holds once."""
    first, *rest = sources_of(op)
    assert first.text.count(old) == 1, f"{old!r} is {first.text.count(old)} times in {first.path}"
    return (SourceFile(path=first.path, text=first.text.replace(old, new)), *rest)


def opened(op: str, scratch: Path, effort: Effort = QUICK) -> MeasuredBench:
    gpu, target = find_gpus()[0], target_of(sample())
    return open_measured_bench(
        sample(), target.site(op), target.suite(op), gpu.arch, sys.executable, scratch, gpu=gpu, effort=effort
    )


class Benches:
    """One bench an op for tests in a row, v0 measured in it: opening one takes up to a minute. Two at a time
    would share the memory of one GPU."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._open: dict[str, tuple[MeasuredBench, Measurement]] = {}

    def of(self, op: str) -> tuple[MeasuredBench, Measurement]:
        """The bench, and what it measured of v0."""
        if op not in self._open:
            self.close()
            bench = opened(op, Path(tempfile.mkdtemp(prefix=f"{op}-", dir=self._scratch)))
            self._open[op] = bench, bench.measure(sources_of(op), passports=False)
        return self._open[op]

    def close(self) -> None:
        while self._open:
            _, (bench, _) = self._open.popitem()
            bench.close()


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benches]:
    found = Benches(tmp_path_factory.mktemp("benches"))
    yield found
    found.close()
