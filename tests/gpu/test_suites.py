"""Cheats, honest files and accidents before a judge that has a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.bench.suite_run import Court
from bot.cli.judge_suite import open_court
from tests.gpu.accidents import AT_ONCE, all_of_them, court_with_a_gpu
from tests.suites.accidents import complaints, heard
from tests.suites.rooms import CHEATS, EVERYTHING, HONEST, OPS, ROOT, TARGET, complaint, exhibits


@contextmanager
def opened(op: str, scratch: Path) -> Iterator[Court]:
    court, bench = open_court(ROOT, TARGET, op, sys.executable, scratch, "gpu")
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
    with court_with_a_gpu(tmp_path) as court:
        found = list(heard(court, all_of_them(), AT_ONCE))
    assert complaints(found) == []
    assert len(found) > 100
