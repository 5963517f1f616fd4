"""Where the files of both suites are heard: one op at a time, as `kernelwright judge-suite` hears them."""

from __future__ import annotations

import re
import secrets
import shutil
import sys
import tomllib
from pathlib import Path

from bot.bench.measure import Deadlines
from bot.bench.suite_files import Exhibit, read_suite
from bot.bench.suite_run import Bench, Court, Outcome, Steps
from bot.cli.judge_suite import GUARDRAILS, open_court, sample, target_of
from bot.targets.base import SuiteName

TESTS = Path(__file__).parents[1]
CHEATS, HONEST = TESTS / "cheats", TESTS / "honest"
ROOT = sample()
TARGET = target_of(ROOT)
OPS = ("geglu", "jsd", "rms_norm", "softmax")
BY_TEXT = {"scope", "honesty", "duplicate"}
CHECKS_ALONE = Steps(timing=False)
EVERYTHING = Steps()
SEED = 20261122
PATIENT = Deadlines(check_s=300.0, compile_s=300.0, budget_s=120.0)
"""On a busy machine nothing must seem to be found out by being late."""
NUMBER = re.compile(r"e(\d\d)_")


def exhibits(folder: Path, op: str | None = None, tier: str = "cpu") -> list[Exhibit]:
    found = read_suite(folder, OPS, GUARDRAILS, op)
    return [exhibit for exhibit in found if exhibit.is_for(tier)]


def name_of(exhibit: Exhibit) -> str:
    return f"{exhibit.op}/{exhibit.path.stem}"


def holes() -> dict[str, str]:
    """Cheats that nobody finds out without a GPU, each with the reason why."""
    text = (Path(__file__).parent / "holes.toml").read_text(encoding="utf-8")
    return {name: str(why) for name, why in tomllib.loads(text).items()}


class Courts:
    """Courts stay open for all that is heard of an op: preparing one costs as much as hearing three files.

    Everything is drawn from one seed, so that a run can be repeated. Where all is heard the seed is a fresh one.
    """

    def __init__(self, scratch: Path, seed: int | None, deadlines: Deadlines = PATIENT) -> None:
        self._scratch, self._deadlines = scratch, deadlines
        self.seed = secrets.randbits(62) if seed is None else seed
        self._open: dict[tuple[str, str], tuple[Court, Bench]] = {}

    def of(self, op: str, name: SuiteName) -> Court:
        if (op, name) not in self._open:
            place = self._scratch / f"{op}-{name}"
            self._open[op, name] = open_court(
                ROOT, TARGET, op, sys.executable, place, "cpu", name=name, deadlines=self._deadlines, seed=self.seed
            )
        return self._open[op, name][0]

    def close(self) -> None:
        for _, bench in self._open.values():
            bench.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def complaint(outcome: Outcome) -> str:
    said = f"{outcome.verdict} {'|'.join(outcome.reasons)}"
    return f"{outcome.file} is {said}, expected {outcome.expected}: {outcome.evidence}"
