"""One set of courts for all tests of a worker, and one with a fresh seed for those that hear everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.suites.rooms import SEED, Courts


@pytest.fixture(scope="session")
def courts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Courts]:
    opened = Courts(tmp_path_factory.mktemp("courts"), SEED)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def fresh_courts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Courts]:
    opened = Courts(tmp_path_factory.mktemp("fresh-courts"), None)
    yield opened
    opened.close()
