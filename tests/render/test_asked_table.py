"""What was asked for of single passes, and what campaigns on an H200 came to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bot.targets.sizes import SIZES
from tests.render.scripts import RESULTS, script
from tests.render.test_campaigns_table import FIRST, SECOND, TABLE, facts, journal, text_of, until, write

ASKED = script(".", "asked")
Floor = ASKED.Floor
CASE = "bwd 8192x1024 bf16"


def test_the_readme_says_what_the_journals_say() -> None:
    said = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert ASKED.TABLE.written(said, ASKED.page()) == said, "run docs/results/h200/asked.py"


def test_every_wish_is_of_a_kernel_and_a_case_that_was_measured() -> None:
    found = ASKED.last_ones(RESULTS / "campaigns")
    assert {floor.kernel for floor in ASKED.FLOORS} <= set(SIZES)
    for floor in ASKED.FLOORS:
        assert bool(floor.least) != bool(floor.most_us)
        assert ASKED.row(floor, found[floor.kernel])[3] != "**not measured**", floor


@pytest.fixture
def first(tmp_path: Path) -> Any:
    write(tmp_path, "rms_norm", text_of(FIRST))
    return ASKED.last_ones(tmp_path)["rms_norm"]


def estimate(one: Any) -> tuple[float, float]:
    """How many times as fast, and the winner's time."""
    reading = one.readings["backward-8192x1024-bfloat16"]
    return reading.estimate.ratio, reading.after_us


def test_what_is_there_is_plain_and_what_is_not_in_bold_on_both_sides_of_the_line(first: Any) -> None:
    ratio, us = estimate(first)
    there = (Floor("rms_norm", CASE, ratio), Floor("rms_norm", CASE, most_us=us))
    missing = (Floor("rms_norm", CASE, ratio + 1e-6), Floor("rms_norm", CASE, most_us=us - 1e-3))
    assert not any("**" in ASKED.row(floor, first)[3] for floor in there)
    assert all("**" in ASKED.row(floor, first)[3] for floor in missing)
    assert ASKED.missed((*there, *missing), {"rms_norm": first}) == 2


def test_who_is_there_by_less_than_half_an_interval_is_named(first: Any) -> None:
    reading = first.readings["backward-8192x1024-bfloat16"].estimate
    low = math.exp(reading.interval()[0])
    close = (Floor("rms_norm", CASE, reading.ratio), Floor("rms_norm", CASE, low + 1e-6))
    more = Floor("rms_norm", CASE, reading.ratio + 1e-6)
    clear = (Floor("rms_norm", CASE, low), more, Floor("rms_norm", CASE, most_us=1.0))
    assert low < reading.ratio
    assert ASKED.narrow((*close, *clear), {"rms_norm": first}) == ["rms_norm", "rms_norm"]
    assert ASKED.narrow(close, {}) == []


def test_what_was_asked_has_its_share_of_the_roof(first: Any) -> None:
    """Twice the speed is twice the share."""
    one, other = (float(ASKED.row(Floor("rms_norm", CASE, by), first)[7].split()[0]) for by in (1.0, 2.0))
    assert other == pytest.approx(2 * one, rel=0.03)
    assert str(ASKED.row(Floor("rms_norm", CASE, 1.0), first)[6]).startswith(f"{one:g} % to")


def test_a_kernel_without_a_winner_that_counts_was_not_measured(tmp_path: Path) -> None:
    write(tmp_path, "failed", text_of(SECOND))
    write(tmp_path, "cut", journal(until(facts(FIRST), "variant_judged", 2)))
    assert ASKED.last_ones(tmp_path) == {}
    wish = Floor("rms_norm", CASE, 2.0)
    assert ASKED.row(wish, None)[3:] == ["**not measured**", *[TABLE.NONE] * 5]
    page = ASKED.page(tmp_path, (wish,))
    assert page.startswith("0 of 1 are there") and "**not measured**" in page


def test_a_case_that_was_not_scored_was_not_measured(first: Any) -> None:
    assert ASKED.row(Floor("rms_norm", "bwd 3x5 bf16", 2.0), first)[3] == "**not measured**"


def test_what_torch_makes_of_it_is_the_faster_of_its_modes() -> None:
    found = ASKED.last_ones(RESULTS / "campaigns")["jsd"]
    assert ASKED.row(Floor("jsd", "fwd 8192x32000 bf16", 3.0), found)[8] == "2.80x"
    assert ASKED.row(Floor("jsd", "fwd 1024x32000 bf16", 3.0), found)[8] == "2.72x", "compiled in its plain mode alone"
