from __future__ import annotations

from pathlib import Path

import pytest

from tests.git.world import World


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pattern")
    World.found(root)
    return root


@pytest.fixture
def world(pattern: Path, tmp_path: Path) -> World:
    return World.copy(pattern, tmp_path)
