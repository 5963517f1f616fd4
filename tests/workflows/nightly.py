"""A clock that stands where a test puts it, for GitHub and for every job, so that a story can have several nights.

`python -m tests.workflows.nightly SOCKET PICTURES` is the Python of warm.py under that clock: it reads the file CLOCK
beside its socket, and writes down there what each zone was given. Nothing of ours may be imported before the clock is
in its place, for many take it by its name.
"""

from __future__ import annotations

import datetime
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

CLOCK, GIVEN = "clock", "given.jsonl"


def set_ahead(clock: Path, seconds: float) -> None:
    """Of the machine's own time. Whoever looks meanwhile sees one time or the other."""
    fresh = clock.with_suffix(".new")
    fresh.write_text(str(seconds), encoding="utf-8")
    fresh.replace(clock)


def put(clock: Path, at: str) -> None:
    """It is `at` now, and time passes from there."""
    ahead = datetime.datetime.fromisoformat(at) - datetime.datetime.now(datetime.UTC)
    set_ahead(clock, ahead.total_seconds())


def now(clock: Path) -> str:
    ahead = datetime.timedelta(seconds=float(clock.read_text(encoding="utf-8")))
    return (datetime.datetime.now(datetime.UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")


def given(folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Every zone that ran, and the environment of its process."""
    lines = (folder / GIVEN).read_text(encoding="utf-8").splitlines()
    return [(environment["KERNELWRIGHT_ZONE"], environment) for environment in map(json.loads, lines)]


def main() -> None:
    from bot.zones import clock
    from tests.workflows import warm

    folder, run = Path(sys.argv[1]).parent, warm.run
    clock.utc_now = partial(now, folder / CLOCK)

    def noted(asked: dict[str, Any], files: list[int]) -> int:
        with (folder / GIVEN).open("a", encoding="utf-8") as out:
            out.write(json.dumps(asked["environment"]) + "\n")
        return run(asked, files)

    warm.run = noted
    warm.main()


if __name__ == "__main__":
    main()
