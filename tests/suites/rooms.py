"""Where the files of both suites are heard: one op at a time, as `kernelwright judge-suite` hears them."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.bench.measure import open_static_bench
from bot.bench.suite_files import Exhibit, read_suite
from bot.bench.suite_run import Court, Outcome, Steps
from bot.cli.judge_suite import GUARDRAILS, sample, target_of
from bot.model.variant import SourceFile
from bot.targets.base import SuiteName

TESTS = Path(__file__).parents[1]
CHEATS, HONEST = TESTS / "cheats", TESTS / "honest"
OPS = ("geglu", "jsd", "rms_norm", "softmax")
BY_TEXT = {"scope", "honesty", "duplicate"}
CHECKS_ALONE = Steps(timing=False)
EVERYTHING = Steps()
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


@contextmanager
def court(op: str, scratch: Path, suite: SuiteName = "full") -> Iterator[Court]:
    root = sample()
    target = target_of(root)
    site, cases = target.site(op), target.suite(op, suite)
    sources = tuple(SourceFile(path=path, text=(root / path).read_text(encoding="utf-8")) for path in site.files)
    bench = open_static_bench(root, site, cases, "sm_90", sys.executable, scratch / suite)
    try:
        yield Court(site, cases, sources, bench)
    finally:
        bench.close()


def complaint(outcome: Outcome) -> str:
    said = f"{outcome.verdict} {'|'.join(outcome.reasons)}"
    return f"{outcome.file} is {said}, expected {outcome.expected}: {outcome.evidence}"
