"""Why the untouched kernel is slow: facts from the bench, what profilers saw, and the diagnosis from both.

The same step in a campaign and in `kernelwright profile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from bot.analysis.bottleneck import Evidence, diagnose
from bot.analysis.estimate import timed
from bot.bench.looking import Found
from bot.bench.measure import Bench
from bot.engine.space import settings as launch_settings
from bot.hardware.catalog import for_runner, registered
from bot.model.campaign import Profile
from bot.model.measurement import Fault, Measurement, Suite, Survey
from bot.model.profiling import Counters, Timeline
from bot.model.site import KernelSite
from bot.model.variant import SourceFile


@runtime_checkable
class Looks(Protocol):
    """A bench with a GPU, which profilers can watch."""

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str]) -> Found: ...


def _seen(bench: Bench, sources: tuple[SourceFile, ...], kernels: Sequence[str]) -> Found | None:
    return bench.look(sources, kernels) if isinstance(bench, Looks) else None


def concluded(
    site: KernelSite,
    suite: Suite,
    sources: tuple[SourceFile, ...],
    baseline: Measurement,
    survey: tuple[Survey, ...],
    counters: Counters | None,
    timelines: tuple[Timeline, ...],
    oracle_differs: tuple[str, ...] = (),
) -> Profile:
    known, sheet = Evidence(survey, sources, site.kernel, counters, timelines), for_runner(baseline.runner)
    return Profile(
        site=site,
        suite=suite,
        sources=sources,
        baseline=timed(baseline, suite),
        survey=survey,
        diagnosis=diagnose(baseline, suite, sheet, known=known),
        oracle_differs=oracle_differs,
        hardware=registered(sheet),
        counters=counters,
        timelines=timelines,
    )


def profiled(
    bench: Bench,
    site: KernelSite,
    suite: Suite,
    sources: tuple[SourceFile, ...],
    oracle_differs: tuple[str, ...] = (),
    *,
    survey: bool = True,
    watch: bool = False,
) -> Profile | Fault:
    """A fault where the untouched kernel does not run. `survey`: whether other launch numbers are compiled too;
    `watch`: whether profilers are asked where there is a GPU. No campaign does until that was seen to work on one."""
    baseline = bench.measure(sources, passports=True)
    if baseline.fault is not None:
        return baseline.fault
    launches = tuple(launch for case in baseline.cases for launch in case.launches)
    surveys = bench.survey(sources, launch_settings(launches)) if survey else ()
    kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
    seen = _seen(bench, sources, kernels) if watch else None
    counters, timelines = (seen.counters, seen.timelines) if seen else (None, ())
    return concluded(site, suite, sources, baseline, surveys, counters, timelines, oracle_differs)
