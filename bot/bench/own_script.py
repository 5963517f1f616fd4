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
from bot.model.finalization import MOST_OF_TABLE, ScriptRun
from bot.model.ids import RepoPath, VariantNumber
from bot.model.site import KernelSite

DEADLINE = 300.0
"""Of v0. Who plays it has twice as long for the winner: a busy machine is slow, and late is not broken."""
MOST_BYTES = 4 * 2**20
"""Of a table, with the rows of every kernel: liger-kernel 0.8.5 ships one of a megabyte."""
MOST_ROWS = 400
"""That a run may add; liger-kernel's longest sweep has some two hundred."""
Row = tuple[str, ...]


def _read(place: Path) -> str:
    """The text of a table; none of what is no plain file, too long, or no text. Nobody writes into the tree then."""
    try:
        found = place.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return ""
        return place.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _parsed(text: str) -> list[Row]:
    """Head and rows; nothing where a part of it is no table: a quote that nobody closes would take the rest along."""
    try:
        return [tuple(row) for row in csv.reader(StringIO(text, newline=""), strict=True)]
    except csv.Error:
        return []


def _is_inside(place: Path, tree: Path) -> bool:
    """No folder on the way leads out of the tree."""
    return place.resolve().is_relative_to(tree.resolve())


def _rows(text: str, before: str) -> str:
    """Head and new rows, written anew; nothing where the head is another than it was, and so every row is new."""
    head, *rows = _parsed(text) or [()]
    was, *old = _parsed(before) or [head]
    known = set(old)
    new = [row for row in rows if len(row) == len(head) and row not in known][-MOST_ROWS:]
    if not head or was != head or not new:
        return ""
    buffer = StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows([head, *new])
    written = "".join(char for char in buffer.getvalue() if char.isprintable() or char == "\n")
    return written if len(written) <= MOST_OF_TABLE else ""


def _table(tree: Path, paths: Iterable[RepoPath], before: dict[RepoPath, str]) -> str:
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
