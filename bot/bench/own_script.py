"""The benchmark script of the target's own, run as it is on one tree, and the rows that it wrote.

It is the target's code: fenced in as its tests are, and what it leaves behind is read as text of nobody's.
"""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from bot.bench.commands import run_command
from bot.bench.gpu import Gpu
from bot.model.campaign import ScriptRun
from bot.model.ids import RepoPath, VariantNumber
from bot.model.site import KernelSite

DEADLINE = 300.0
"""Of v0. Who plays it has twice as long for the winner: a busy machine is slow, and late is not broken."""
MOST_BYTES = 4 * 2**20
"""Of a table, with the rows of every kernel: liger-kernel 0.8.5 ships one of half a megabyte."""
MOST_ROWS = 400
"""That a run may add; liger-kernel's longest sweep has some two hundred."""


def _read(place: Path) -> tuple[str, ...]:
    """The lines of a table; none of what is no plain file, too long, or no text. Nobody writes into the tree then."""
    try:
        found = place.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return ()
        return tuple(place.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return ()


def _is_inside(place: Path, tree: Path) -> bool:
    """No folder on the way leads out of the tree."""
    return place.resolve().is_relative_to(tree.resolve())


def _rows(lines: Iterable[str], before: Iterable[str]) -> str:
    """Head and new rows, written anew; nothing where that is no table of one line a row."""
    known = frozenset(before)
    head, *rest = [*lines] or [""]
    new = [line for line in rest if line not in known][:MOST_ROWS]
    try:
        names = next(csv.reader([head]), [])
        rows = [row for row in csv.reader(new) if len(row) == len(names)]
    except csv.Error:
        return ""
    if not names or not rows:
        return ""
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([names, *rows])
    return buffer.getvalue()


def _table(tree: Path, paths: Iterable[RepoPath], before: dict[RepoPath, tuple[str, ...]]) -> str:
    """The first table that the run wrote rows into."""
    inside = (path for path in paths if _is_inside(tree / path, tree))
    return next(filter(None, (_rows(_read(tree / path), before[path]) for path in inside)), "")


def play(tree: Path, number: VariantNumber, *, site: KernelSite, python: str, gpu: Gpu) -> ScriptRun:
    paths = site.benchmark_tables
    before = {path: _read(tree / path) for path in paths}
    argv = (python, *site.benchmark_command[1:])
    deadline = 2 * DEADLINE if number else DEADLINE
    run = run_command(argv, tree, dict(site.benchmark_environment), deadline, gpu=gpu)
    told = run.model_copy(update={"argv": site.benchmark_command})
    return ScriptRun(variant=number, run=told, table=_table(tree, paths, before) if run.passed else "")
