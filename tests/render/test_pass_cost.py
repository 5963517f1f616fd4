"""What campaigns took of the GPUs that they ran on, together, where who waits for another takes nothing; and what they
found, where some were stopped before the library's tests."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.render import numbers
from tests.render.test_campaigns_table import (
    FIRST,
    TABLE,
    facts,
    journal,
    of_kind,
    refused,
    renamed,
    text_of,
    told,
    until,
    write,
)

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


def test_who_was_stopped_in_the_librarys_tests_counts_where_nobody_came_to_the_end(tmp_path: Path) -> None:
    """The search is over then, and what it cost is known; so is what it found, though nothing was tested."""
    lines = facts(FIRST)
    searched = until(lines, "search_ended")
    later = [{**lines[len(searched)], "at": "2026-11-24T23:59:59Z"}]
    stopped = told(tmp_path / "a", journal([*searched, *later]))
    assert stopped.is_judged and not stopped.is_over
    said, alone = TABLE.cost([stopped]), TABLE.cost([told(tmp_path / "b", journal(searched))])
    assert said == alone, "what it did afterwards is no search"
    gain = numbers.ratio(TABLE._speed(stopped.campaign, stopped.readings).ratio)
    mean = TABLE.over_kernels([stopped])
    assert f"of the best that each search found: **{gain}**, those in which it found nothing, 0, as 1.00x. " in mean
    assert f"for 0 of these winners; 1 campaign stopped before them ({TABLE.named(stopped)}). " in mean
    assert "What is not tested here counted as 1.00x, the mean would be 1.00x. " in mean
    whole = told(tmp_path / "c", text_of(FIRST))
    assert "stopped" not in TABLE.over_kernels([whole, stopped]), "another came to its end"
    cut = told(tmp_path / "d", journal(until(lines, "variant_judged")))
    assert not cut.is_judged and TABLE.cost([cut]) == ""
    assert "stopped" not in TABLE.over_kernels([cut]), "its search was not over: nothing is known of it"


def test_a_search_that_found_nothing_counts_as_one_beside_one_whose_tests_did_not_run(tmp_path: Path) -> None:
    write(tmp_path, "rms_norm", journal(until(facts(FIRST), "search_ended")))
    write(tmp_path, "geglu", renamed(refused(), "geglu"))
    found = TABLE.read_all(tmp_path)
    stopped = next(one for one in found if one.kernel == "rms_norm")
    gain = TABLE._speed(stopped.campaign, stopped.readings).ratio
    said = f"found: **{numbers.ratio(math.sqrt(gain))}**, those in which it found nothing, 1,"
    assert said in TABLE.over_kernels(found)
