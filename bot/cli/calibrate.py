"""`kernelwright calibrate`: how far this machine's clock can be trusted, as raw blocks that anybody can recompute."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from bot.analysis.calibration import parse, report
from bot.analysis.nulls import VARIANTS
from bot.bench.calibrating import Calibrating, amounts
from bot.bench.gpu import reserved, the_gpu
from bot.bench.measure import make_cells
from bot.cli.options import Number, Whole
from bot.cli.verify import lines

FEWEST_TRIALS, MOST_TRIALS = 3, 3000
MOST_NULLS = 300
WITHOUT = "a GPU's clock is what it measures; kernelwright verify FILE recomputes what was written elsewhere"


class Book:
    """What was read so far; the file is whole after each part, so that an accident costs the part alone."""

    def __init__(self, path: Path | None, command: str) -> None:
        self._path, self._command = path, command
        self.machine: dict[str, Any] = {}
        self._trials: list[dict[str, Any]] = []
        self._truths: dict[str, list[dict[str, Any]]] = {}
        self._nulls: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        told = {"machine": self.machine, "command": self._command, "trials": self._trials, "truths": self._truths}
        nulls = {"nulls": self._nulls} if self._nulls else {}
        return json.dumps(told | nulls, separators=(",", ":")) + "\n"

    def add(self, trials: list[dict[str, Any]], truths: dict[str, list[dict[str, Any]]]) -> None:
        self._trials += trials
        self._truths |= truths
        self._write()

    def add_nulls(self, campaigns: list[dict[str, Any]]) -> None:
        self._nulls += campaigns
        self._write()

    def _write(self) -> None:
        if self._path is not None:
            half = self._path.with_suffix(".half")
            half.write_text(self.text, encoding="utf-8")
            half.replace(self._path)


def _begun(whole: int, what: str, is_over: Callable[[], bool]) -> Iterator[int]:
    """The numbers of all parts, for as long as there is time to begin one."""
    for number in range(whole):
        if is_over():
            click.echo(f"time is up: {whole - number} of {whole} {what} are left out", err=True)
            return
        yield number


def _refuse_too_few(trials: int, nulls: int) -> None:
    if trials < FEWEST_TRIALS and (trials or not nulls):
        told = f"{trials} is not in the range {FEWEST_TRIALS}<=x<={MOST_TRIALS}, nor 0 beside --nulls."
        raise click.BadParameter(told, param_hint="'--trials'")


@click.command(short_help="Measure how often this machine's clock is wrong.")
@click.option(
    "--trials",
    type=Whole(0, MOST_TRIALS),
    default=300,
    show_default=True,
    help=f"Pairs of v0 with itself: at least {FEWEST_TRIALS}, or 0 beside --nulls.",
)
@click.option(
    "--nulls",
    type=Whole(0, MOST_NULLS),
    default=0,
    show_default=True,
    help=f"Campaigns over {VARIANTS} that are v0 in other words: the best of each is confirmed, and none may win.",
)
@click.option("--minutes", type=Number(1), help="Begin nothing new after so long; what is whole counts.")
@click.option("--json", "target", type=click.Path(path_type=Path, dir_okay=False), help="Where the raw blocks go.")
@click.option("--python", default=sys.executable, help="The Python that has torch and triton.")
@click.option("--seed", type=int, default=None, help="Draw the same kernels again.")
def calibrate(
    trials: int, nulls: int, minutes: float | None, target: Path | None, python: str, seed: int | None
) -> None:
    """Time pairs whose answer is known: v0 against itself in other words, and against copies that do 1, 2 or 5 percent
    more or less. Prints false accepts, detection and the noise floor; `kernelwright verify FILE` recomputes them.

    --nulls searches as a campaign does where nothing can be gained, and shows how much faster the best looked.

    Nothing of the GPU is set or changed. The GPU is taken for a few minutes; nobody else should use it meanwhile.
    """
    _refuse_too_few(trials, nulls)
    gpu, drawn, started = the_gpu(WITHOUT), secrets.randbits(31) if seed is None else seed, time.monotonic()
    wanted = f"--trials {trials}" + (f" --nulls {nulls}" if nulls else "")
    book = Book(target, f"kernelwright calibrate {wanted} --seed {drawn}")

    def is_over() -> bool:
        return minutes is not None and time.monotonic() - started > 60 * minutes

    with reserved(gpu), tempfile.TemporaryDirectory() as folder:
        cells, _ = make_cells(python, Path(folder), drawn, gpu=gpu)
        work = Calibrating(cells, drawn, amounts(trials, nulls), lambda text: click.echo(text, err=True))
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
            for wave in _begun(work.waves, "waves", is_over):
                book.add(work.trials(stock, pairs, wave), {})
                if wave == 0:
                    book.add([], work.truths(stock, pairs))
            for number in _begun(nulls, "null campaigns", is_over):
                book.add_nulls(work.null(stock, number))
        finally:
            work.close()
    click.echo("\n".join(lines(report([parse(book.text, "this calibration")]))))
