"""Benches with a real clock. Everything here is skipped where there is no GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.bench.gpu import find_gpus
from bot.bench.measured import Effort, MeasuredBench, open_measured_bench
from bot.cli.judge_suite import sample, target_of
from bot.model.variant import SourceFile

QUICK = Effort(processes=3)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    missing = pytest.mark.skip(reason="no NVIDIA GPU here: nvidia-smi shows none")
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        item.add_marker(pytest.mark.timeout(600))
        if not find_gpus():
            item.add_marker(missing)


def sources_of(op: str) -> tuple[SourceFile, ...]:
    site = target_of(sample()).site(op)
    return tuple(SourceFile(path=path, text=(sample() / path).read_text("utf-8")) for path in site.files)


def changed(op: str, old: str, new: str) -> tuple[SourceFile, ...]:
    """The op's file with one text in place of another that it holds once."""
    first, *rest = sources_of(op)
    assert first.text.count(old) == 1, f"{old!r} is {first.text.count(old)} times in {first.path}"
    return (SourceFile(path=first.path, text=first.text.replace(old, new)), *rest)


@contextmanager
def opened(op: str, scratch: Path, effort: Effort = QUICK) -> Iterator[MeasuredBench]:
    gpu, target = find_gpus()[0], target_of(sample())
    bench = open_measured_bench(
        sample(), target.site(op), target.suite(op), gpu.arch, sys.executable, scratch, gpu=gpu, effort=effort
    )
    try:
        yield bench
    finally:
        bench.close()
