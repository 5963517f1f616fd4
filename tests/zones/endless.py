"""A measuring job that would never end: `python -m tests.zones.endless ORDER REPOSITORY OUT SCRATCH`."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bot.bench.halt import halting
from bot.bench.launcher import Limits, run_process
from bot.cli.jobs import read_bundle
from bot.git.repo import Repo
from bot.zones.measure import Workshop, measure
from tests.fakes.bench import FakeBench

WORKER = """
import os, time
if os.fork() == 0:
    os.setsid()  # out of the group, and soon out of the family
    open("born", "w").close()
time.sleep(600)
"""


class EndlessBench(FakeBench):
    """Two workers side by side in threads, as the real one has them, and a third when the first has gone."""

    def measure(self, files: Any, *, passports: bool) -> Any:
        with ThreadPoolExecutor(2) as threads:
            jobs = [threads.submit(self._work, twice) for twice in (False, True)]
            threading.Thread(target=self._say, daemon=True).start()
            for done in jobs:
                done.result()
        return super().measure(files, passports=passports)

    def _work(self, twice: bool) -> None:
        for _ in range(1 + twice):
            environment = {**os.environ, "HOME": str(HERE)}
            run_process([sys.executable, "-c", WORKER], environment=environment, directory=HERE, limits=Limits(600))

    def _say(self) -> None:
        while not (HERE / "born").exists():
            time.sleep(0.01)
        print("working", flush=True)


HERE = Path(sys.argv[4])


def main() -> int:
    bundle, out = read_bundle(Path(sys.argv[1])), Path(sys.argv[3])
    HERE.mkdir()
    with halting() as halt:
        repo = Repo(Path(sys.argv[2]))
        shop = Workshop(repo=repo, python=sys.executable, scratch=HERE, open_bench=EndlessBench, halt=halt)
        measure(bundle.order, bundle.ledger_commit, shop, out)
        return 1 if halt.signal else 0


if __name__ == "__main__":
    sys.exit(main())
