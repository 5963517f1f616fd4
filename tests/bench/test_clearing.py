"""Folders that a worker filled go, however it filled them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bot.bench.clearing import clear


def dig(folder: Path, levels: int) -> None:
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


@pytest.mark.parametrize("levels", [0, 10, 1500])
def test_however_deep_they_are_they_go(levels: int, tmp_path: Path) -> None:
    dig(tmp_path / "left", levels)
    clear(tmp_path / "left")
    assert list(tmp_path.iterdir()) == []


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    dig(tmp_path / "left", 1500)
    (tmp_path / "left/link").symlink_to(tmp_path / "kept")
    clear(tmp_path / "left")
    assert (tmp_path / "kept/file").exists() and not (tmp_path / "left").exists()


def test_what_is_not_there_is_gone_already(tmp_path: Path) -> None:
    clear(tmp_path / "never")
    assert not (tmp_path / "never").exists()
