"""`kernelwright calibrate`: how far this machine's clock can be trusted, as raw blocks that anybody can recompute."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from bot.analysis.calibration import parse, report
from bot.bench.calibrating import Calibrating, amounts
from bot.bench.gpu import reserved, the_gpu
from bot.bench.measure import make_cells
from bot.cli.verify import lines


class Book:
    """What was read so far; the file is whole after each part, so that an accident costs the part alone."""

    def __init__(self, path: Path | None, command: str) -> None:
        self._path, self._command = path, command
        self.machine: dict[str, Any] = {}
        self._trials: list[dict[str, Any]] = []
        self._truths: dict[str, list[dict[str, Any]]] = {}

    @property
    def text(self) -> str:
        told = {"machine": self.machine, "command": self._command, "trials": self._trials, "truths": self._truths}
        return json.dumps(told, separators=(",", ":")) + "\n"

    def add(self, trials: list[dict[str, Any]], truths: dict[str, list[dict[str, Any]]]) -> None:
        self._trials += trials
        self._truths |= truths
        if self._path is not None:
            half = self._path.with_suffix(".half")
            half.write_text(self.text, encoding="utf-8")
            half.replace(self._path)


@click.command(short_help="Measure how often this machine's clock is wrong.")
@click.option("--trials", type=click.IntRange(3, 3000), default=300, show_default=True, help="Pairs of v0 with itself.")
@click.option("--minutes", type=click.FloatRange(1), help="Begin nothing new after so long; what is whole counts.")
@click.option("--json", "target", type=click.Path(path_type=Path, dir_okay=False), help="Where the raw blocks go.")
@click.option("--python", default=sys.executable, help="The Python that has torch and triton.")
@click.option("--seed", type=int, default=None, help="Draw the same kernels again.")
def calibrate(trials: int, minutes: float | None, target: Path | None, python: str, seed: int | None) -> None:
    """Time pairs whose answer is known: v0 against itself in other words, and against copies that do 1, 2 or 5 percent
    more or less. Prints false accepts, detection and the noise floor; `kernelwright verify FILE` recomputes them.

    Nothing of the GPU is set or changed. The GPU is taken for a few minutes; nobody else should use it meanwhile.
    """
    gpu, drawn, started = the_gpu(), secrets.randbits(31) if seed is None else seed, time.monotonic()
    book = Book(target, f"kernelwright calibrate --trials {trials} --seed {drawn}")
    with reserved(gpu), tempfile.TemporaryDirectory() as folder:
        cells, _ = make_cells(python, Path(folder), drawn, gpu=gpu)
        work = Calibrating(cells, drawn, amounts(trials), lambda text: click.echo(text, err=True))
        book.machine = {
            "gpu": gpu.name,
            "uuid": gpu.uuid,
            "driver": gpu.driver,
            "torch": cells.python.torch,
            "triton": cells.python.triton,
            "sandbox": cells.sandbox.name,
        }
        try:
            stock, pairs = work.record()
            work.warm_up(stock)
            book.machine["v0_us"] = work.times
            for wave in range(work.waves):
                if minutes is not None and time.monotonic() - started > 60 * minutes:
                    click.echo(f"time is up: {work.waves - wave} of {work.waves} waves are left out", err=True)
                    break
                book.add(work.trials(stock, pairs, wave), {})
                if wave == 0:
                    book.add([], work.truths(stock, pairs))
        finally:
            work.close()
    click.echo("\n".join(lines(report([parse(book.text, "this calibration")]))))
