"""The Python of a measuring job whose worker never ends, and has a child that left its group.

`python -m tests.workflows.endless -P -m bot action` is the zone itself, with another bench.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from bot.bench.launcher import Limits, run_process
from tests.fakes.bench import FakeBench

WORKER = """
import os, time
if os.fork() == 0:
    os.setsid()
    open("working", "w").close()
time.sleep(600)
"""
CLIENT = """#!/bin/sh
PYTHONPATH='{home}' exec '{python}' -m tests.workflows.endless "$@"
"""


class EndlessBench(FakeBench):
    def measure(self, files: Any, *, passports: bool) -> Any:
        here = Path(os.environ["RUNNER_TEMP"])
        run_process([sys.executable, "-c", WORKER], environment=dict(os.environ), directory=here, limits=Limits(600))
        return super().measure(files, passports=passports)


def write_python(path: Path) -> Path:
    """What a job calls as its Python."""
    home = Path(__file__).parents[2]
    path.write_text(CLIENT.format(home=home, python=sys.executable), encoding="utf-8")
    path.chmod(0o755)
    return path


def main() -> None:
    from bot.__main__ import main as run
    from bot.zones import measure as zone

    shop = zone.Workshop
    zone.Workshop = lambda **given: shop(**given | {"open_bench": EndlessBench})  # type: ignore[misc, assignment]
    assert sys.argv[1:4] == ["-P", "-m", "bot"], sys.argv
    sys.argv = ["kernelwright", *sys.argv[4:]]
    run()


if __name__ == "__main__":
    main()
