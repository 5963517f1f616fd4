"""What the judge calls an interruption, in all readings of H200s that this repository holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bot.judge.timekeeper import is_interrupted

RESULTS = Path("docs/results/h200")
OVER_THE_BUS = ("jsd-e", "tvd-c")
"""Campaigns whose passes copied a number to the host: 9 us in some processes and 13 in others (their README)."""
JOURNALS = (path for path in RESULTS.glob("campaigns/*/journal.jsonl") if path.parent.name not in OVER_THE_BUS)
FILES = (*RESULTS.glob("itself/**/*.json"), *JOURNALS)


def confirmed(told: Any) -> Iterator[list[list[float]]]:
    """For each case, v0's slots of each fresh process: beside the variant, and beside itself."""
    if isinstance(told, dict):
        if told.get("confirm") and told.get("control"):
            pairs = zip(told["confirm"], told["control"], strict=True)
            yield [
                [us for b in one["blocks"] for us in b[:2]] + [us for b in v0["blocks"] for us in b]
                for one, v0 in pairs
            ]
        told = list(told.values())
    for one in told if isinstance(told, list) else ():
        yield from confirmed(one)


def test_nothing_was_interrupted_but_first_processes_beside_which_others_came_up() -> None:
    """Who plays later is never called interrupted, or readings would be thrown away for nothing."""
    read, interrupted = 0, []
    for file in FILES:
        lines = [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines()
        for case in (case for line in lines for case in confirmed(json.loads(line))):
            read += len(case)
            interrupted += [process for process, slots in enumerate(case) if is_interrupted(slots)]
    assert read >= 1866 and len(interrupted) >= 35
    assert set(interrupted) == {0}
