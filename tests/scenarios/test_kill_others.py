"""The other half of the kill points of test_kill.py: every second write is enough for `make test`, CI kills at each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.story import Theatre
from tests.scenarios.test_kill import survive


@pytest.fixture(scope="module")
def theatre(pictures: Path) -> Iterator[Theatre]:
    house = Theatre(pictures)
    yield house
    house.close()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_interactive_campaign_survives_the_other_kills(tmp_path: Path, theatre: Theatre) -> None:
    survive("interactive", 1, tmp_path, theatre, update=False)
