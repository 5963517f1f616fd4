"""Host code hears of the chip that is compiled for, and of its own again afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from bot.worker.contract import ARCHES
from tests.worker.scenes import played


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return played("elsewhere", told={})


@pytest.mark.parametrize("name", ["sm_80", "gfx942"])
def test_each_of_the_ways_to_ask_is_answered_for_that_chip(seen: dict[str, Any], name: str) -> None:
    """By a name of its own, from a cache of its class, by a cache of torch's own function."""
    arch, is_hip = ARCHES[name], name == "gfx942"
    capability, asked = list(arch.capability), [arch.capability[0], arch.chip, arch.chip]
    assert seen[name] == [capability, arch.processors, *asked, is_hip, not is_hip, name, arch.processors]


def test_what_broke_off_half_way_leaves_nothing_behind(seen: dict[str, Any]) -> None:
    assert seen["after"] == seen["before"]
    assert seen["before"][:2] == [[9, 0], 132] and seen["before"][-4:] == [False, True, "sm_90", 132]
