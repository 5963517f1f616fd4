"""Holds everything that can happen to a worker before a judge that has a GPU, and writes what became of each.

    python -m tests.gpu.accidents --json FILE [KIND ...]

Behind every ten an honest file is heard: it has to be judged as if nothing had happened, and how much longer it takes
than the first, which came before all of them, is what the ten cost whoever comes next.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.bench.gpu import the_gpu
from bot.bench.measure import Deadlines
from bot.bench.suite_run import Court, Outcome
from bot.cli.judge_suite import open_court
from tests.suites.accidents import ACCIDENTS, CHECKS, ON_A_GPU, OP, Accident, accidents, complaints, heard
from tests.suites.rooms import HONEST, ROOT, TARGET, exhibits

HURRIED = Deadlines(gpu_s=30.0)
"""Long enough for an honest file beside nine others, and short enough to wait for what hangs."""
AT_ONCE = 10
FOLDERS = re.compile(r"(/[\w.+-]+)+/")
"""Where a machine keeps its libraries is nobody's business."""


@contextmanager
def court_with_a_gpu(scratch: Path) -> Iterator[Court]:
    court, bench = open_court(ROOT, TARGET, OP, sys.executable, scratch, "gpu", name="quick", deadlines=HURRIED)
    try:
        yield court
    finally:
        bench.close()


def all_of_them(kinds: Iterable[str] = (*ACCIDENTS, *ON_A_GPU)) -> list[Accident]:
    """Who hangs comes last: there one waits for the clock and not for a processor."""
    return sorted(accidents(kinds), key=lambda accident: accident.hangs)


def _row(accident: Accident | None, outcome: Outcome) -> dict[str, object]:
    named = {"accident": "none: an honest file"} if accident is None else vars(accident)
    told = {name: outcome.as_json()[name] for name in ("verdict", "reasons", "seconds")}
    return {**named, **told, "evidence": FOLDERS.sub("", outcome.evidence)[:200]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="the file to write")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="only these kinds")
    chosen = parser.parse_args()
    began, found = time.monotonic(), []
    with tempfile.TemporaryDirectory() as scratch, court_with_a_gpu(Path(scratch)) as court:
        first = court.hear(exhibits(HONEST, OP)[0], CHECKS)
        found.append((None, first))
        for one in heard(court, all_of_them(chosen.kinds or (*ACCIDENTS, *ON_A_GPU)), AT_ONCE):
            found.append(one)
            told = {"gpu": the_gpu().name, "seconds": round(time.monotonic() - began, 1)}
            rows = [_row(*each) for each in found]
            chosen.json.write_text(json.dumps({**told, "heard": rows}, indent=1) + "\n", encoding="utf-8")
    lost = complaints(found)
    happened = [accident for accident, _ in found if accident is not None]
    honest = [outcome.seconds for accident, outcome in found if accident is None]
    print(f"{len(happened)} accidents, {len(lost)} not as they should be; honest files took {honest} s")
    print("\n".join(lost))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
