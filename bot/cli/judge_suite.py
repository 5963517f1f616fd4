"""`kernelwright judge-suite`: hold files that say what they deserve before the judge, and see whether they get it."""

from __future__ import annotations

import json
import sys
import tempfile
from itertools import groupby
from pathlib import Path

import click

from bot.bench.choosing import open_measured_bench
from bot.bench.effort import Effort
from bot.bench.gpu import the_gpu
from bot.bench.measure import Deadlines, open_static_bench
from bot.bench.overlay import base_files
from bot.bench.suite_files import TIERS, Exhibit, read_suite
from bot.bench.suite_run import Bench, Court, Outcome, Steps
from bot.cli.options import Whole
from bot.guardrails import AFTER_TIMING, BEFORE_TIMING
from bot.render.environment import templates_dir
from bot.targets.base import SuiteName, Target
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree

GUARDRAILS = (*BEFORE_TIMING, *AFTER_TIMING)
ARCH = "sm_90"


def sample() -> Path:
    """The sample library, whose ops a suite replaces where no other repository is named."""
    return templates_dir() / "sample"


def target_of(root: Path) -> Target:
    tree = DirectoryTree(root)
    return open_target(tree, read_config(tree.read("kernelwright.toml")))


def open_court(
    root: Path,
    target: Target,
    op: str,
    python: str,
    scratch: Path,
    tier: str,
    *,
    name: SuiteName = "full",
    deadlines: Deadlines | None = None,
    seed: int | None = None,
) -> tuple[Court, Bench]:
    """A bench for one op with its untouched kernel checked, and who to ask about files that replace it."""
    site, suite = target.site(op), target.suite(op, name)
    bench: Bench
    if tier == "gpu":
        # Whether a file is honest is asked, not how fast it is: nothing is confirmed in fresh processes.
        gpu, effort = the_gpu("--tier cpu judges without one"), Effort(processes=0)
        bench = open_measured_bench(
            root, site, suite, gpu.arch, python, scratch, gpu=gpu, effort=effort, deadlines=deadlines, seed=seed
        )
    else:
        bench = open_static_bench(root, site, suite, ARCH, python, scratch, deadlines=deadlines, seed=seed)
    try:
        return Court(site, suite, base_files(root, site), bench), bench
    except BaseException:
        bench.close()
        raise


def _show(outcome: Outcome) -> None:
    got = " ".join([outcome.verdict, "|".join(outcome.reasons)]).strip()
    line = f"{'ok  ' if outcome.match else 'MISS'}  {outcome.file:44} {got:32} {outcome.seconds:5.1f} s"
    click.echo(line)
    if not outcome.match:
        click.echo(f"      expected {outcome.expected}; {outcome.evidence or 'nothing was said against it'}")


class _Book:
    """Results as they come: what was judged before an accident is not lost."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.outcomes: list[Outcome] = []
        self._save()

    def _save(self) -> None:
        if self._path is not None:
            told = json.dumps([outcome.as_json() for outcome in self.outcomes], indent=2)
            self._path.write_text(told + "\n", encoding="utf-8")

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._save()
        _show(outcome)


def _judge(
    exhibits: list[Exhibit], root: Path, python: str, tier: str, steps: Steps, at_once: int, book: _Book
) -> None:
    target = target_of(root)
    for op, files in groupby(exhibits, key=lambda exhibit: exhibit.op):
        with tempfile.TemporaryDirectory(prefix="kernelwright-suite-") as scratch:
            court, bench = open_court(root, target, op, python, Path(scratch), tier)
            try:
                mine = list(files)
                if tier == "gpu":
                    court.check_ahead(mine, steps, at_once)
                for outcome in court.hear_all(mine, steps, 1 if tier == "gpu" else at_once):
                    book.add(outcome)
            finally:
                bench.close()


@click.command("judge-suite")
@click.option(
    "--path",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder with <op>/<name>.py files, each a whole op file.",
)
@click.option("--op", help="Only the files of this op.")
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False), help="Write the results here.")
@click.option("--tier", type=click.Choice(TIERS), default="cpu", show_default=True, help="What decides: see `# tier:`.")
@click.option("--without-static", is_flag=True, help="Do not look at the text: what a file does has to be enough.")
@click.option("--checks-only", is_flag=True, help="Stop after the checks: compile and time nothing.")
@click.option(
    "--repo",
    "root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The repository whose op files they replace; else the sample library.",
)
@click.option("--at-once", type=Whole(1, 64), default=2, show_default=True, help="Files side by side.")
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
def judge_suite(
    folder: Path,
    op: str | None,
    json_path: Path | None,
    tier: str,
    without_static: bool,
    checks_only: bool,
    root: Path | None,
    at_once: int,
    python: str,
) -> int:
    """Judge files that each replace an op's file and say what should become of them.

    The first line of a file is `# expect: REJECTED <reason>[|<reason>]`, a reason being the name of a guardrail, or
    `# expect: PASS`; the second may be `# tier: cpu`, `gpu` or `both`. A PASS file that is right but not faster, or
    even slower, has passed: honesty is asked. Exit code 0 only where every file got what it expects.
    """
    root = (root or sample()).resolve()
    found = read_suite(folder, target_of(root).kernels(), GUARDRAILS, op)
    exhibits = [exhibit for exhibit in found if exhibit.is_for(tier)]
    if len(exhibits) < len(found):
        click.echo(f"{len(found) - len(exhibits)} files are of another tier than {tier}")
    book = _Book(json_path)
    steps = Steps(static=not without_static, timing=not checks_only)
    _judge(exhibits, root, python, tier, steps, at_once, book)
    missed = sum(not outcome.match for outcome in book.outcomes)
    click.echo(f"{len(book.outcomes)} files judged, {missed} not as expected")
    return 1 if missed else 0
