"""`kernelwright optimize` as a command of its own, with a bench that answers at once instead of a worker.

Run as a program it takes the same words. FAKE_SLOW names a word of a source that takes ten minutes to measure, in a
process of its own, as a worker would.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bot.cli import local_desk
from bot.model.finalization import CommandRun, Finalization, PassedFile
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile, sources_digest
from bot.zones.measure import Workshop
from tests.fakes.bench import FakeBench

SLOW = "FAKE_SLOW"


class CounterBench(FakeBench):
    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        word = os.environ.get(SLOW)
        if word and any(word in file.text for file in files):
            subprocess.run(["sleep", "600"], check=False)
        return super().measure(files, passports=passports)


def finish(*given: Any, passed: Callable[[PassedFile], None], **_: Any) -> Finalization:
    """The repository's own tests and style check, which pass."""
    site, winner, files = given[2:5]
    tests = CommandRun(argv=("pytest",), passed=True, exit_code=0, seconds=2.0, summary="12 passed in 2.00s")
    style = CommandRun(argv=("ruff",), passed=True, exit_code=0, seconds=0.1, summary="All checks passed!")
    passed(PassedFile(variant=winner, source=sources_digest(files), test=site.test_file, run=tests))
    return Finalization(variant=winner, tests=(tests,), style=(style,), files=files)


def stand_in() -> tuple[Any, Any]:
    """What takes the place of `opener_for` and `Workshop`."""
    return (lambda gpu: CounterBench), partial(Workshop, collect=lambda *_, **__: None, finish=finish)


def main() -> None:
    from bot.__main__ import main as enter

    local_desk.opener_for, local_desk.Workshop = stand_in()  # type: ignore[misc, assignment]
    sys.argv = ["kernelwright", "optimize", *sys.argv[1:]]
    enter()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
