"""What `kernelwright profile` and `kernelwright roofline` do alike: open a checkout, open a bench, conclude."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import click

from bot.bench.choosing import EvidenceChoice, gpu_of, opener_for
from bot.bench.compile_pool import ALL_PASSPORTS
from bot.bench.gpu import Gpu, reserved
from bot.bench.measure import Bench, StaticBench, open_static_bench
from bot.cli.local import kernel_of
from bot.cli.wiki import informed
from bot.cli.wiki import option as wiki_option
from bot.errors import OperatorError, UserError
from bot.hardware.catalog import for_choice
from bot.model.campaign import Profile
from bot.model.commands import GpuChoice
from bot.model.measurement import Case, Fault, Suite
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.render.profile_rows import errors
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree, read_text
from bot.zones.profiling import concluded, count_of, counted, profiled, seen, with_traffic

IMPOSSIBLE = 4
"""Exit code of a number that cannot be believed."""


@dataclass(frozen=True)
class Asked:
    kernel: str
    root: Path
    python: str
    gpu: Gpu | None
    arch: str
    quick: bool = False
    wiki: Path | None = None
    shapes: tuple[str, ...] = ()
    """Sizes to look at instead of those that are scored, as a case's id spells them."""
    timed: bool = True
    """Whether the clock is asked where there is a GPU, and not its profilers alone."""


@dataclass(frozen=True)
class Depth:
    """How much is looked at."""

    survey: bool = False
    watch: bool = False
    passports: tuple[str, ...] = ()


FULL = Depth(survey=True, watch=True, passports=ALL_PASSPORTS)
ROOF = Depth()


def asked(
    kernel: str,
    root: Path,
    python: str,
    evidence: str,
    gpu: str,
    *,
    quick: bool = False,
    wiki: Path | None = None,
    shapes: tuple[str, ...] = (),
    timed: bool = True,
) -> Asked:
    device, choice = gpu_of(EvidenceChoice(evidence)), GpuChoice(gpu)
    arch = device.arch if device is not None and choice is GpuChoice.AUTO else for_choice(choice).arch
    return Asked(kernel, root, python, device, arch, quick, wiki, shapes, timed)


Opened = tuple[KernelSite, Suite, tuple[SourceFile, ...]]


def _sizes(shape: str, like: Case) -> tuple[tuple[str, int], ...]:
    sizes = shape.split("x")
    if len(sizes) != len(like.shape) or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        names = " x ".join(name for name, _ in like.shape)
        usual = "x".join(str(size) for _, size in like.shape)
        raise UserError(f"{shape} is no shape of this kernel", hint=f"its sizes are {names}, for example {usual}")
    return tuple((name, int(size)) for (name, _), size in zip(like.shape, sizes, strict=True))


def _extent(case: Case) -> int:
    return prod(size for _, size in case.shape)


def of_shapes(suite: Suite, full: Suite, shapes: Sequence[str]) -> Suite:
    """The suite's passes over other sizes. To its checks comes the widest of the full one, for the sake of the traffic
    count: of few rows, those whose label is to be ignored are too many, and of one there are none."""
    first = [case for case in suite.cases if case.shape == suite.cases[0].shape]
    found = [
        case.model_copy(update={"id": f"{case.direction}-{shape}-{case.dtype}", "shape": _sizes(shape, case)})
        for shape in dict.fromkeys(shapes)
        for case in first
        if case.grad == "drawn"
    ]
    shown = [check for check in full.checks if not check.hidden and check.dtype == "float32"]
    wide = max(map(_extent, shown), default=0)
    more = tuple(check for check in shown if _extent(check) == wide and check not in suite.checks)
    return suite.model_copy(update={"cases": tuple(found), "checks": (*suite.checks, *more)}) if found else suite


def _subject(wanted: Asked) -> Opened:
    """The working tree as it is: nothing is committed, so nothing has to be."""
    tree = DirectoryTree(wanted.root)
    target = open_target(tree, read_config(tree.read("kernelwright.toml")))
    name = kernel_of(target, wanted.kernel)
    site = target.site(name)
    sources = tuple(SourceFile(path=path, text=read_text(tree, path) or "") for path in site.files)
    full, suite = target.suite(name, "full"), target.suite(name, "quick" if wanted.quick or wanted.shapes else "full")
    return site, of_shapes(suite, full, wanted.shapes), sources


def _bench(open_bench: Callable[..., Bench], wanted: Asked, subject: Opened, scratch: Path, depth: Depth) -> Bench:
    site, suite, _ = subject
    opened = informed(open_bench, wanted.wiki, lambda line: click.echo(line, err=True))
    bench = opened(wanted.root, site, suite, wanted.arch, wanted.python, scratch)
    if isinstance(bench, StaticBench):
        bench.passports = depth.passports
    return bench


def _estimated(wanted: Asked, subject: Opened, scratch: Path, depth: Depth, watching: Bench) -> Profile | Fault:
    """Where the clock was not asked or could not read the kernel: the rest of the evidence is still there."""
    bench = _bench(open_static_bench, wanted, subject, scratch, depth)
    try:
        found = profiled(bench, *subject, survey=depth.survey, watch=False)
        if isinstance(found, Fault) or not depth.watch:
            return found
        looked, moved = seen(watching, subject[2], found.baseline), count_of(bench, found.baseline).moved
    finally:
        bench.close()
    if looked is None:
        return found
    profile = concluded(
        *subject, found.baseline, found.survey, looked.counters, looked.timelines, found.oracle_differs, moved
    )
    return profile.model_copy(update={"dispatch": looked.dispatch})


def _found(wanted: Asked, subject: Opened, folder: Path, depth: Depth, bench: Bench) -> Profile | Fault:
    if wanted.gpu is None:
        return profiled(bench, *subject, survey=depth.survey)
    if not wanted.timed:
        return _estimated(wanted, subject, folder / "static", depth, bench)
    count = None
    if depth.watch:
        count = partial(
            counted, partial(_bench, open_static_bench, wanted, subject, folder / "count", ROOF), subject[2]
        )
    found = profiled(bench, *subject, survey=depth.survey, watch=depth.watch, count=count)
    if not isinstance(found, Fault):
        return found
    click.echo(f"it could not be timed ({found.kind}: {found.detail}); what follows is estimated", err=True)
    return _estimated(wanted, subject, folder / "static", depth, bench)


def analysed(wanted: Asked, depth: Depth, open_bench: Callable[..., Bench] | None = None) -> Profile:
    """The profile, or an OperatorError where the untouched kernel does not run here."""
    subject = _subject(wanted)
    with reserved(wanted.gpu), tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        bench = _bench(open_bench or opener_for(wanted.gpu), wanted, subject, Path(folder) / "bench", depth)
        try:
            found = _found(wanted, subject, Path(folder), depth, bench)
        finally:
            bench.close()
    if isinstance(found, Fault):
        raise OperatorError(
            found.of_untouched(wanted.kernel),
            hint=found.next_step,
            reason=ReasonCode.PREFLIGHT_FAILED,
        )
    return found


def counted_again(profile: Profile, root: Path, python: str) -> Profile:
    """A profile out of a journal with its bytes counted as they are today; what was timed and read stays."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        site, suite, arch = profile.site, profile.suite, profile.baseline.runner.arch
        opened = partial(open_static_bench, root, site, suite, arch, python, Path(folder) / "count")
        count = counted(opened, profile.sources)
    if count is None:
        raise OperatorError(
            f"the bytes of {site.kernel} cannot be counted here",
            hint="name the stock tree with --repo and a Python that has torch and triton with --python",
        )
    return with_traffic(profile, count)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What both verbs may be told."""
    import sys

    for option in reversed((
        click.argument("kernel"),
        click.option("--repo", "root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".",
                     help="The checkout."),
        click.option("--gpu", type=click.Choice([choice.value for choice in GpuChoice]), default=GpuChoice.AUTO.value,
                     show_default=True, help="What to estimate for where no GPU is."),
        click.option("--evidence", type=click.Choice([choice.value for choice in EvidenceChoice]),
                     default=EvidenceChoice.AUTO.value, show_default=True, help="Whether a GPU has to measure."),
        click.option("--python", default=sys.executable, show_default="this one", help="The target's Python."),
        click.option("--quick", is_flag=True, help="The quick suite of cases."),
        wiki_option,
        click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs."),
    )):  # fmt: skip
        command = option(command)
    return command


def code_of(profile: Profile) -> int:
    return IMPOSSIBLE if errors(profile) else 0
