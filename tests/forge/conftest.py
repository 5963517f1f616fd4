from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.forge.client import Forge, open_forge
from bot.localhub.server import Hub
from tests.openapi.recording import judged, recorder

__all__ = ["judged", "recorder"]

BOT = "kernelwright[bot]"


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pull request of dana's. Made once: a copy opens in a tenth of the time."""
    root = tmp_path_factory.mktemp("begun") / "hub"
    hub = Hub(root)
    hub.add_user("mira", "maintain")
    hub.add_user("dana", "write")
    hub.add_user(BOT, "write", is_bot=True)
    hub.push("mira", "main", {"a.py": b"a = 1\n", ".github/workflows/sweep.yml": b"on: workflow_dispatch\n"}, "Begin\n")
    hub.push("dana", "tune", {"a.py": b"a = 2\n"}, "Tune\n")
    hub.open_pull("dana", "tune", "main", "Tune a")
    return root


@pytest.fixture
def hub(begun: Path, tmp_path: Path) -> Iterator[Hub]:
    with Hub(Path(shutil.copytree(begun, tmp_path / "hub"))) as hub:
        yield hub
        assert hub.unknown == []


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def forge(hub: Hub, slept: list[float]) -> Forge:
    token = hub.token(BOT, {"read", "comment", "status"})
    return open_forge(hub.url, hub.repo, token, own_login=BOT, own_id=hub.user_id(BOT), sleep=slept.append)
