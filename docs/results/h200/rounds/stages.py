"""Runs kernelwright and writes how long each stage of its bench took: one line a call, as it ends.

STAGES=stages.csv python docs/results/h200/rounds/stages.py optimize rms_norm --repo LIGER --evidence measured ...
"""

from __future__ import annotations

import csv
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bot.__main__ import main
from bot.bench import bailiff, cell, checks, host, looking, measure, measured, sanitizer, standby, takes

BEGAN = time.monotonic()
TURN = threading.Lock()
STAGES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (bailiff.Judge, ("ask", "receive")),
    (cell, ("start_afresh",)),
    (standby.Ready, ("carry_out",)),
    (checks, ("run_cell",)),
    (takes, ("run_cell",)),
    (measure, ("run_cell",)),
    (looking, ("timelines", "counters")),
    (host, ("told_of",)),
    (sanitizer, ("sanitized",)),
    (
        measured.MeasuredBench,
        (
            "measure",
            "race",
            "look",
            "_checks",
            "_compile",
            "_timed",
            "_of_variant",
            "_open",
            "_read",
            "_confirm",
            "sanitized",
            "under_compile",
            "rivals",
            "rivals_of_winner",
        ),
    ),
)


def about(arguments: tuple[Any, ...], found: Any) -> str:
    """What was asked for: the kind of a request, and its case; and what its worker did when, where it says so."""
    asked = next((one for one in arguments if type(one).__name__.endswith("Request")), None)
    said = [] if asked is None else [type(asked).__name__, getattr(asked, "case", "")]
    return " ".join([*said, *(f"{name} {at - BEGAN:.1f}" for name, at in getattr(found, "marks", ()))]).strip()


def watched(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        began, found = time.monotonic(), None
        try:
            found = inner(*arguments, **named)
            return found
        finally:
            now = time.monotonic()
            with TURN, Path(os.environ["STAGES"]).open("a", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow((f"{now - BEGAN:.2f}", f"{now - began:.2f}", name, about(arguments, found)))

    return run


for owner, names in STAGES:
    for name in names:
        setattr(owner, name, watched(name, getattr(owner, name)))

sys.argv[0] = "kernelwright"
main()
