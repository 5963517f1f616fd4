"""What campaigns took of the GPUs that they ran on, together: who waits for another takes nothing."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.render.test_campaigns_table import FIRST, TABLE, facts, journal, of_kind, told, until

Facts = list[dict[str, Any]]
SEARCHED = "search_ended"


def searched(*, kernel: str = "", gpu: str = "", later_s: float = 0.0) -> Facts:
    """The first campaign up to the end of its search, as another kernel's, on another GPU, or so much later."""
    lines = until(facts(FIRST), SEARCHED)
    if kernel:
        of_kind(lines, "campaign_requested")["command"]["kernel"] = kernel
    if gpu:
        was = of_kind(lines, "profiled")["profile"]["baseline"]["runner"]["gpu_uuid"]
        lines = json.loads(json.dumps(lines).replace(was, gpu))
    for line in lines:
        line["at"] = (datetime.fromisoformat(line["at"]) + timedelta(seconds=later_s)).isoformat()
    return lines


def seconds(lines: Facts) -> float:
    return (datetime.fromisoformat(lines[-1]["at"]) - datetime.fromisoformat(lines[0]["at"])).total_seconds()


@pytest.mark.parametrize(
    ("other", "times"),
    [
        ({}, 1.0),
        ({"gpu": "GPU-0"}, 2.0),
        ({"later_s": 3600.0}, 2.0),
    ],
    ids=["at the same time on one GPU", "on two GPUs", "one after the other"],
)
def test_a_gpu_s_time_is_counted_once(other: dict[str, Any], times: float, tmp_path: Path) -> None:
    both = [
        told(tmp_path / f"of {name}", journal(searched(kernel=name, **more)))
        for name, more in (("", {}), ("rope", other))
    ]
    found = re.search(r"took (\d+) min of a GPU", TABLE.cost(both))
    assert found and int(found[1]) == round(times * seconds(searched()) / 60) > 2


def test_who_is_stopped_while_another_runs_counts_the_time_that_both_took(tmp_path: Path) -> None:
    """A lane cuts one, plays the next and goes on: its gap is the other's time."""
    at = [datetime.fromisoformat(text) for text in ("2026-11-29T23:00:00+00:00", "2026-11-29T23:05:00+00:00")]
    inside = [(at[0] + timedelta(minutes=1), at[0] + timedelta(minutes=3))]
    behind = [(at[1] - timedelta(minutes=1), at[1] + timedelta(minutes=2))]
    outer = [(at[0], at[1])]
    assert TABLE._together_s([]) == 0.0
    assert TABLE._together_s([*outer, *inside]) == 300.0
    assert TABLE._together_s([*behind, *outer]) == 420.0
    assert TABLE._together_s([*outer, (at[1], at[1] + timedelta(seconds=1))]) == 301.0
