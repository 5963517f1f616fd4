"""An interactive campaign, kept after every step, so that a test can begin anywhere in it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.render import plots
from tests.fakes.kept import draw_once, packed
from tests.zones.conversation import KERNEL, MIRA, Conversation

Step = Callable[[Conversation], object]
At = Callable[[str], Conversation]
STEPS: dict[str, Step] = {
    "opened": lambda talk: talk.found(),
    "profiling": lambda talk: talk.asks(MIRA, f"/optimize {KERNEL}"),
    "profile": lambda talk: talk.profiles(),
    "searching": lambda talk: talk.asks(MIRA, "/optimize approve"),
    "winner": lambda talk: talk.searches(),
    "finishing": lambda talk: talk.asks(MIRA, "/optimize approve"),
    "final": lambda talk: talk.finishes(),
    "pushing": lambda talk: talk.asks(MIRA, "/optimize approve"),
}
"""As it goes when everybody says yes. `profile`, `winner` and `final` wait for a person."""


class Places:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def at(self, name: str) -> Path:
        """The conversation after this step, made when it is first asked for."""
        place = self._folder / name
        if not place.exists():
            with self._alone():
                self._make(name)
        return place

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Test processes that run side by side share the places."""
        self._folder.mkdir(exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make(self, name: str) -> Path:
        place = self._folder / name
        if not place.exists():
            self._go(name).rename(place)
        return place

    def _go(self, name: str) -> Path:
        before = list(STEPS)[: list(STEPS).index(name)]
        place = self._make(before[-1]) if before else None
        talk = Conversation(self._folder / "under-way")
        shutil.rmtree(talk.folder, ignore_errors=True)
        if place is not None:
            talk.copy_of(place)
        STEPS[name](talk)
        talk.close()
        for used in (*talk.folder.glob("job-*"), *talk.folder.glob("out-*")):
            shutil.rmtree(used)
        return packed(talk.folder)


def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, whichever of its processes asks."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where plots lie that were drawn once."""
    return shared(tmp_path_factory) / "pictures"


@pytest.fixture
def at(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[At]:
    """at("winner"): a conversation of one's own that has come this far."""
    opened: list[Conversation] = []
    kept = Places(shared(tmp_path_factory) / "places")
    monkeypatch.setattr(plots, "_drawn", draw_once(pictures, plots._drawn))

    def begin(name: str) -> Conversation:
        talk = Conversation(tmp_path / f"talk-{len(opened)}").copy_of(kept.at(name))
        opened.append(talk)
        return talk

    yield begin
    for talk in opened:
        talk.close()
        assert talk.hub.unknown == []
