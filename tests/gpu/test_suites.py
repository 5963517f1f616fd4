"""Cheats, honest files and accidents before a judge that has a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.bench.measure import Deadlines
from bot.bench.suite_run import Court
from bot.cli.judge_suite import open_court
from tests.suites.accidents import OP, accidents, lost
from tests.suites.rooms import CHEATS, EVERYTHING, HONEST, OPS, ROOT, TARGET, complaint, exhibits


@contextmanager
def opened(op: str, scratch: Path, deadlines: Deadlines | None = None) -> Iterator[Court]:
    court, bench = open_court(ROOT, TARGET, op, sys.executable, scratch, "gpu", deadlines=deadlines)
    try:
        yield court
    finally:
        bench.close()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("folder", [CHEATS, HONEST], ids=["cheats", "honest"])
def test_files_get_what_they_deserve(folder: Path, op: str, tmp_path: Path) -> None:
    files = exhibits(folder, op, "gpu")
    with opened(op, tmp_path) as court:
        court.check_ahead(files, EVERYTHING, 4)
        heard = list(court.hear_all(files, EVERYTHING, 1))
    assert [complaint(outcome) for outcome in heard if not outcome.match] == []


def test_no_campaign_is_lost_by_an_accident(tmp_path: Path) -> None:
    with opened(OP, tmp_path, Deadlines(gpu_s=60.0)) as court:
        assert lost(court, [accident for accident in accidents() if not accident.hangs]) == []
