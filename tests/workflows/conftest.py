from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflows.stage import Stage, WarmPython
from tests.zones.places import at, pictures

__all__ = ["at", "pictures"]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Iterator[Path]:
    warm = WarmPython(tmp_path_factory.mktemp("python"), pictures)
    yield warm.path
    warm.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Iterator[Stage]:
    """A repository with our workflows, where there was no campaign yet."""
    stage = Stage(tmp_path_factory.mktemp("place"), python)
    yield stage
    stage.close()
