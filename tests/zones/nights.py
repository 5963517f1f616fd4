"""Nights to begin from, each made once a session.

allowed: the repository lets it sweep. ready: a winner may be pushed. swept: its pull request is open. again: the
next night has its profile. same, better: that night has the same winner, or a better one, ready. changed: instead of
that, somebody made the kernel slower.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.model.campaign import Campaign
from bot.render import plots
from tests.zones import gpu
from tests.zones.conversation import DANA, PATH
from tests.zones.night import BRANCH, SECOND, Night
from tests.zones.places import shared

Begin = Callable[[str], Night]


def no_picture(campaign: Campaign | None, dark: bool, draw: Any) -> bytes:
    """What a picture shows is tested where it is drawn; here it matters where it lies."""
    return f"picture of {campaign.id if campaign else 'all'}, {dark}".encode()


def _ready(night: Night) -> None:
    night.starts(), night.profiled(), night.searched(), night.finished()


def _again(night: Night) -> None:
    night.sleeps().starts(SECOND)
    night.profiled(SECOND)


def _changed(night: Night) -> None:
    night.hub.close_pull(night.own_pulls[0])
    source = night.repo.read("refs/heads/main", PATH) or b""
    night.hub.push(DANA, "main", {PATH: source + b"# clearer\n"}, "Make it clearer @mira #1\n")
    night.hub.push(DANA, "main", {"README.md": b"# Words\n"}, "Other words\n")
    night.trusts().sleeps().starts(SECOND)
    night.profiled(SECOND, traffic=3.0)


def _same(night: Night) -> None:
    night.tried(SECOND, (night.branches[BRANCH], 1.5)), night.finished(SECOND)


def _better(night: Night) -> None:
    night.tried(SECOND, (night.branches[BRANCH], 1.5), ideas=(gpu.BEST,)), night.finished(SECOND)


STEPS: dict[str, tuple[str, Callable[[Night], object]]] = {
    "allowed": ("", lambda night: (night.found(), night.rules())),
    "ready": ("allowed", _ready),
    "swept": ("ready", lambda night: night.pushed()),
    "again": ("swept", _again),
    "same": ("again", _same),
    "better": ("again", _better),
    "changed": ("swept", _changed),
}


def _make(folder: Path, name: str) -> Path:
    """The night of this name, made when it is first asked for."""
    before, step = STEPS[name]
    if not (folder / name).exists():
        night = Night(folder / f"{name}.new")
        if before:
            night.copy_of(_make(folder, before))
        step(night)
        night.close()
        for used in (*night.folder.glob("job-*"), *night.folder.glob("out-*")):
            shutil.rmtree(used)
        night.folder.rename(folder / name)
    return folder / name


@pytest.fixture
def begin(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """begin("swept"): a night of one's own that begins there."""
    monkeypatch.setattr(plots, "_drawn", no_picture)
    folder = shared(tmp_path_factory) / "nights"
    folder.mkdir(exist_ok=True)
    opened: list[Night] = []

    def copy(name: str) -> Night:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # test processes that run side by side share them
            made = _make(folder, name)
        night = Night(tmp_path / f"night-{len(opened)}")
        night.copy_of(made)
        opened.append(night)
        return night

    yield copy
    for night in opened:
        night.close()
        assert night.hub.unknown == []
