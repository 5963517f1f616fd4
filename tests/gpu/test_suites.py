"""Cheats, honest files and accidents before a judge that has a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bot.bench.gpu import the_gpu
from bot.bench.measure import Deadlines
from bot.bench.measured import Effort, open_measured_bench
from bot.bench.suite_run import Court
from bot.cli.judge_suite import sample, target_of
from tests.gpu.conftest import sources_of
from tests.suites.accidents import OP, accidents, lost
from tests.suites.rooms import CHEATS, EVERYTHING, HONEST, OPS, complaint, exhibits

UNCONFIRMED = Effort(processes=0)
"""Whether a file is honest is asked, not how fast it is."""


def court(op: str, scratch: Path, deadlines: Deadlines | None = None) -> tuple[Court, object]:
    gpu, target = the_gpu(), target_of(sample())
    site, suite = target.site(op), target.suite(op)
    bench = open_measured_bench(
        sample(), site, suite, gpu.arch, sys.executable, scratch, gpu=gpu, effort=UNCONFIRMED, deadlines=deadlines
    )
    return Court(site, suite, sources_of(op), bench), bench


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("folder", [CHEATS, HONEST], ids=["cheats", "honest"])
def test_files_get_what_they_deserve(folder: Path, op: str, tmp_path: Path) -> None:
    room, bench = court(op, tmp_path)
    try:
        room.check_ahead(exhibits(folder, op, "gpu"), EVERYTHING, 4)
        heard = list(room.hear_all(exhibits(folder, op, "gpu"), EVERYTHING, 1))
    finally:
        bench.close()  # type: ignore[attr-defined]
    assert [complaint(outcome) for outcome in heard if not outcome.match] == []


def test_no_campaign_is_lost_by_an_accident(tmp_path: Path) -> None:
    room, bench = court(OP, tmp_path, Deadlines(gpu_s=60.0))
    try:
        assert lost(room, [accident for accident in accidents() if not accident.hangs]) == []
    finally:
        bench.close()  # type: ignore[attr-defined]
