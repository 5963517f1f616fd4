"""`kernelwright harvested`: a winner on the sizes of the library's own benchmark, or on drawn ones, beside those that
were scored."""

from __future__ import annotations

import dataclasses
import math
import secrets
import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import click

from bot.analysis.harvested import figures
from bot.analysis.paired import MOST_SLOWER
from bot.bench.choosing import open_measured_bench
from bot.bench.effort import Effort
from bot.bench.gpu import Gpu, reserved, the_gpu
from bot.bench.harvest import Point, harvest
from bot.bench.unseen import Sizes, unseen_sizes
from bot.campaign.lineage import sources_of
from bot.cli.cases import Row, origins, rows
from bot.cli.options import Whole, in_repository
from bot.cli.rebuild import profiled, same_base, wanted
from bot.errors import OperatorError, UserError
from bot.model.campaign import Profile
from bot.model.harvested import HarvestedRun, Swept
from bot.model.measurement import Case, Measurement, Suite
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile, sources_digest
from bot.render.harvested import lines
from bot.targets.suites import cases_of, suite_of

WITHOUT = "a winner is timed where a GPU is; kernelwright cases shows these sizes without one"
PROCESSES = 3
"""The fewest that give an interval: these figures stand beside a verdict and decide nothing."""
MOST_DRAWN = 16
MOST_BYTES = 2**30
"""Of the largest product of sizes: three contents of each input and float64 truths have to lie beside. Where what was
scored has a larger one (of sizes that no one tensor has all of, as a linear layer's), that was no hindrance."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def _held(sizes: Sizes, dtype: str) -> int:
    return math.prod(size for _, size in sizes) * BYTES[dtype]


def _left_out(row: Row, suite: Suite) -> str:
    """Why this one is not timed here."""
    if row.scored:
        return "scored in the campaign"
    most = max(MOST_BYTES, *(_held(case.shape, case.dtype) for case in suite.cases))
    held = _held(row.sizes, row.dtype)
    told = f"its sizes multiply to {held / 2**30:.4g} GiB"
    if held > most:
        return f"{told}, more than {most / 2**30:.4g}"
    return "" if held <= MOST_BYTES or _is_like(row.sizes, suite) else f"{told}, one is more than twice what was scored"


def _is_like(sizes: Sizes, suite: Suite) -> bool:
    """No tensor can be much larger than one that was scored, whichever of these sizes it has."""
    most = {name: max(case.size(name) for case in suite.cases) for name, _ in sizes}
    return all(size <= 2 * most[name] for name, size in sizes)


def _swept(row: Row, suite: Suite) -> Swept:
    told = {"sizes": row.sizes, "dtype": row.dtype, "told": origins(row), "differs": row.differs}
    return Swept.model_validate({**told, "left_out": _left_out(row, suite)})


def swept(points: tuple[Point, ...], suite: Suite) -> tuple[Swept, ...]:
    return tuple(_swept(row, suite) for row in rows(suite.cases, points) if row.points)


def drawn(suite: Suite, sizes: Collection[Sizes], seed: int) -> tuple[Swept, ...]:
    """In the types that were scored."""
    scored = {case.shape for case in suite.cases}
    types = dict.fromkeys(str(case.dtype) for case in suite.cases)
    found = (Row(one, dtype, one in scored) for one in dict.fromkeys(sizes) for dtype in types)
    told = f"drawn with {seed}"
    return tuple(_swept(row, suite).model_copy(update={"told": told}) for row in found)


def suite_for(kernel: str, sweep: tuple[Swept, ...]) -> Suite:
    """What is to be timed, and the quick checks: what is wrong is not timed."""
    cases: tuple[Case, ...] = ()
    for one in sweep:
        if not one.left_out:
            cases += cases_of(kernel, tuple(size for _, size in one.sizes), one.dtype)
    return Suite(name="full", cases=cases, checks=suite_of(kernel, "quick").checks)


@dataclass(frozen=True)
class Asked:
    """What is to be timed, and who says so: a script, or a seed."""

    sweep: tuple[Swept, ...]
    benchmark: str = ""
    gpu: str = ""
    seed: int | None = None


def _of_script(profile: Profile, root: Path, python: str) -> Asked:
    site, suite = profile.site, profile.suite
    names = [name for name, _ in suite.cases[0].shape]
    with tempfile.TemporaryDirectory(prefix="kernelwright-harvested-") as scratch:
        found = harvest(root, site, names, python, Path(scratch))
    if found.why_not:
        why = f"{site.benchmark_file} has no sizes to time: {found.why_not}"
        raise UserError(why, hint=found.what_next, reason=ReasonCode.PREFLIGHT_FAILED)
    return Asked(swept(found.points, suite), site.benchmark_file, found.gpu)


def _of_nobody(profile: Profile, count: int, seed: int | None, python: str) -> Asked:
    seed = secrets.randbelow(2**31) if seed is None else seed
    with tempfile.TemporaryDirectory(prefix="kernelwright-harvested-") as scratch:
        sizes = unseen_sizes(profile.site.kernel, profile.suite.cases, seed, count, python, Path(scratch))
    return Asked(drawn(profile.suite, sizes, seed), seed=seed)


def _of_both(script: Asked, nobody: Asked) -> Asked:
    """What both name is the script's."""
    known = {(one.sizes, one.dtype) for one in script.sweep}
    others = tuple(one for one in nobody.sweep if (one.sizes, one.dtype) not in known)
    return dataclasses.replace(script, sweep=(*script.sweep, *others), seed=nobody.seed)


def _timed(
    profile: Profile, suite: Suite, root: Path, python: str, gpu: Gpu, files: tuple[SourceFile, ...]
) -> tuple[Measurement, Measurement]:
    """v0, and the winner beside it, in fresh processes whatever a first look says."""
    effort = Effort(processes=PROCESSES, losers=True, unseen=False)
    with reserved(gpu), tempfile.TemporaryDirectory(prefix="kernelwright-harvested-") as scratch:
        place = Path(scratch)
        bench = open_measured_bench(root, profile.site, suite, gpu.arch, python, place, gpu=gpu, effort=effort)
        try:
            baseline = bench.measure(profile.sources, passports=False)
            if baseline.fault is not None:
                raise OperatorError(
                    f"v0 cannot be timed on these sizes: {baseline.fault.kind}: {baseline.fault.detail[:300]}",
                    hint="look at the sizes with `kernelwright cases`; one of them may be more than this GPU holds",
                )
            return baseline, bench.measure(files, passports=False)
        finally:
            bench.close()


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@in_repository("The stock tree that the campaign ran on.")
@click.option("--variant", type=Whole(min=1), help="Another than the winner: its number.")
@click.option("--json", "target", type=click.Path(path_type=Path, dir_okay=False), help="Where the raw blocks go.")
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
@click.option("--drawn", "count", type=Whole(min=1, max=MOST_DRAWN), help="So many sizes that nobody named instead.")
@click.option("--scripted", is_flag=True, help="The script's sizes as well as the drawn ones.")
@click.option("--seed", type=Whole(min=0), help="What they are drawn with.", show_default="another each time")
def harvested(
    file: Path,
    repo: Path,
    variant: int | None,
    target: Path | None,
    python: str,
    count: int | None,
    scripted: bool,
    seed: int | None,
) -> int:
    """Time the winner of the journal FILE on sizes that its campaign did not score.

    Those are what the library's own benchmark script measures, read from it without running it on a GPU
    (`kernelwright cases` shows them); or with --drawn some between half the least and twice the most of what was
    scored, and with --scripted both. They are played beside v0 in three fresh processes, each slot verified, as in a
    campaign. What comes of it decides nothing.
    """
    if seed is not None and count is None:
        raise UserError(
            "--seed is what sizes are drawn with, and none are drawn",
            hint="say how many: --drawn 2",
            reason=ReasonCode.BAD_VALUE,
        )
    root = repo.resolve()
    campaign, profile = profiled(file, root)
    number = wanted(campaign, variant)
    same_base(campaign, root)
    if target is not None and not target.absolute().parent.is_dir():
        raise UserError(
            f"{target.parent} is no folder, so the blocks could not be kept",
            hint="name a file in a folder that is there: --json FILE",
            reason=ReasonCode.BAD_VALUE,
        )
    gpu, files = the_gpu(WITHOUT), sources_of(campaign, number)
    asked = _of_script(profile, root, python) if count is None or scripted else Asked(())
    if count is not None:
        asked = _of_both(asked, _of_nobody(profile, count, seed, python))
    suite = suite_for(profile.site.kernel, asked.sweep)
    if not suite.cases:
        click.echo("\n".join(f"{one.told}: {one.left_out}" for one in asked.sweep))
        return 0
    baseline, measurement = _timed(profile, suite, root, python, gpu, files)
    run = HarvestedRun(
        campaign=campaign.id,
        kernel=profile.site.kernel,
        variant=number,
        source=sources_digest(files),
        benchmark=asked.benchmark,
        gpu=asked.gpu,
        seed=asked.seed,
        sweep=asked.sweep,
        suite=suite,
        baseline=baseline,
        measurement=measurement,
    )
    if target is not None:
        target.write_text(run.model_dump_json() + "\n", encoding="utf-8")
    found = figures(run)
    click.echo("\n".join(lines(run, found, MOST_SLOWER)))
    return 1 if isinstance(found, str) else 0
