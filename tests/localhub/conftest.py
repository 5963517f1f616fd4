from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.localhub.server import Hub
from tests.openapi.recording import judged, recorder

__all__ = ["judged", "recorder"]

BOT = "kernelwright[bot]"


def populate(hub: Hub) -> int:
    """Three people, the bot, and a pull request of dana's."""
    hub.add_user("mira", "maintain")
    hub.add_user("dana", "write")
    hub.add_user("lee", "read")
    hub.add_user(BOT, "write", is_bot=True)
    hub.push("mira", "main", {"a.py": b"a = 1\n", "b.py": b"b = 1\n"}, "Begin\n")
    hub.push("dana", "tune", {"a.py": b"a = 2\n"}, "Tune a\n\nIt was slow.\n")
    return hub.open_pull("dana", "tune", "main", "Tune a", "Could it be faster, too?")


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: a copy opens in a tenth of the time."""
    root = tmp_path_factory.mktemp("begun") / "hub"
    populate(Hub(root))
    return root


@pytest.fixture
def hub(begun: Path, tmp_path: Path) -> Iterator[Hub]:
    with Hub(Path(shutil.copytree(begun, tmp_path / "hub"))) as hub:
        yield hub
