"""What `kernelwright profile` and `kernelwright roofline` do alike: open a checkout, open a bench, conclude."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
from bot.errors import OperatorError
from bot.hardware.catalog import for_choice
from bot.model.campaign import Profile
from bot.model.commands import GpuChoice
from bot.model.measurement import Fault, Suite
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree, read_text
from bot.zones.profiling import concluded, profiled

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


@dataclass(frozen=True)
class Depth:
    """How much is looked at."""

    survey: bool = False
    watch: bool = False
    passports: tuple[str, ...] = ()


FULL = Depth(survey=True, watch=True, passports=ALL_PASSPORTS)
ROOF = Depth()


def asked(
    kernel: str, root: Path, python: str, evidence: str, gpu: str, *, quick: bool = False, wiki: Path | None = None
) -> Asked:
    device, choice = gpu_of(EvidenceChoice(evidence)), GpuChoice(gpu)
    arch = device.arch if device is not None and choice is GpuChoice.AUTO else for_choice(choice).arch
    return Asked(kernel, root, python, device, arch, quick, wiki)


Opened = tuple[KernelSite, Suite, tuple[SourceFile, ...]]


def _subject(wanted: Asked) -> Opened:
    """The working tree as it is: nothing is committed, so nothing has to be."""
    tree = DirectoryTree(wanted.root)
    target = open_target(tree, read_config(tree.read("kernelwright.toml")))
    name = kernel_of(target, wanted.kernel)
    site = target.site(name)
    sources = tuple(SourceFile(path=path, text=read_text(tree, path) or "") for path in site.files)
    return site, target.suite(name, "quick" if wanted.quick else "full"), sources


def _bench(open_bench: Callable[..., Bench], wanted: Asked, subject: Opened, scratch: Path, depth: Depth) -> Bench:
    site, suite, _ = subject
    opened = informed(open_bench, wanted.wiki, lambda line: click.echo(line, err=True))
    bench = opened(wanted.root, site, suite, wanted.arch, wanted.python, scratch)
    if isinstance(bench, StaticBench):
        bench.passports = depth.passports
    return bench


def _estimated(
    wanted: Asked, subject: Opened, scratch: Path, depth: Depth, timed: Bench, why: Fault
) -> Profile | Fault:
    """On a GPU whose clock could not read the kernel, the rest of the evidence is still there."""
    click.echo(f"it could not be timed ({why.kind}: {why.detail}); what follows is estimated", err=True)
    bench = _bench(open_static_bench, wanted, subject, scratch, depth)
    try:
        found = profiled(bench, *subject, survey=depth.survey, watch=False)
    finally:
        bench.close()
    if isinstance(found, Fault) or not depth.watch or not hasattr(timed, "look"):
        return found
    kernels = tuple(dict.fromkeys(launch.kernel for case in found.baseline.cases for launch in case.launches))
    seen = timed.look(subject[2], kernels)
    return concluded(*subject, found.baseline, found.survey, seen.counters, seen.timelines)


def analysed(wanted: Asked, depth: Depth, open_bench: Callable[..., Bench] | None = None) -> Profile:
    """The profile, or an OperatorError where the untouched kernel does not run here."""
    subject = _subject(wanted)
    with reserved(wanted.gpu), tempfile.TemporaryDirectory(prefix="kernelwright-") as folder:
        bench = _bench(open_bench or opener_for(wanted.gpu), wanted, subject, Path(folder) / "bench", depth)
        try:
            found = profiled(bench, *subject, survey=depth.survey, watch=depth.watch)
            if isinstance(found, Fault) and wanted.gpu is not None:
                found = _estimated(wanted, subject, Path(folder) / "static", depth, bench, found)
        finally:
            bench.close()
    if isinstance(found, Fault):
        raise OperatorError(
            f"the untouched {wanted.kernel} does not run here: {found.kind}: {found.detail}",
            hint="mend what the message names; `kernelwright doctor` looks at the machine",
            reason=ReasonCode.PREFLIGHT_FAILED,
        )
    return found


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
    return IMPOSSIBLE if any(roof.reason is not None for roof in profile.diagnosis.roofs) else 0
