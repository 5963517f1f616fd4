"""Why the untouched kernel is slow: facts from the bench, what profilers saw, and the diagnosis from both.

The same step in a campaign and in `kernelwright profile`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event, Thread
from typing import Protocol, TypeVar, runtime_checkable

from bot.analysis.agreement import placed, traffic
from bot.analysis.bottleneck import Evidence, diagnose
from bot.analysis.estimate import timed
from bot.analysis.rivals import fastest
from bot.bench.compile_pool import leaves_room
from bot.bench.launcher import give_way
from bot.bench.looking import Found
from bot.bench.measure import Bench
from bot.engine.fitting import fitting
from bot.engine.foresight import think
from bot.engine.space import settings as launch_settings
from bot.errors import OperatorError
from bot.hardware.catalog import for_runner, registered
from bot.model.campaign import Profile
from bot.model.measurement import Fault, Measurement, Suite, Survey
from bot.model.profiling import Counters, Moved, Timeline
from bot.model.rivals import Rival
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.proposers import engine
from bot.proposers.brief import at_first, of_backward_alone
from bot.zones.workshop import stepped, until_checked

T = TypeVar("T")


@runtime_checkable
class Looks(Protocol):
    """A bench with a GPU, which profilers can watch."""

    def expect_look(self, kernels: Sequence[str]) -> None:
        """They will be asked about these: they may come up while rivals are played."""

    def look(self, files: tuple[SourceFile, ...], kernels: Sequence[str], clocked: Callable[[], None]) -> Found: ...


@runtime_checkable
class Plays(Protocol):
    """A bench that can put plain PyTorch beside the untouched kernel."""

    def expect_rivals(self) -> None: ...

    def rivals(self) -> tuple[Rival, ...]: ...


@runtime_checkable
class Counts(Protocol):
    """A bench whose interpreter watches addresses; empty where the kernel ran on a GPU."""

    moved: tuple[Moved, ...]


@dataclasses.dataclass(frozen=True)
class Counted:
    """What an interpreter counted of the untouched kernel, beside a bench that cannot."""

    factors: Mapping[str, float]
    moved: tuple[Moved, ...]


def count_of(bench: Bench, baseline: Measurement) -> Counted:
    moved = bench.moved if isinstance(bench, Counts) else ()
    return Counted({case.case: case.traffic_factor for case in baseline.cases}, moved)


def counted(opened: Callable[[], Bench], sources: tuple[SourceFile, ...]) -> Counted | None:
    """The bytes of a kernel that a GPU times, by a bench without one, beside its clock. Where they cannot be counted,
    the rest stands. In a thread of its own: who has given way once does so for good."""
    with ThreadPoolExecutor(max_workers=1, initializer=give_way) as own:
        return own.submit(_counted, opened, sources).result()


def _counted(opened: Callable[[], Bench], sources: tuple[SourceFile, ...]) -> Counted | None:
    try:
        bench = opened()
        try:
            found = bench.measure(sources, passports=False)
        finally:
            bench.close()
    except (OperatorError, OSError):
        return None
    return count_of(bench, found) if found.fault is None else None


def _names(baseline: Measurement) -> dict[str, tuple[str, ...]]:
    return {case.case: tuple(launch.kernel for launch in case.launches) for case in baseline.cases}


def _launched(baseline: Measurement) -> tuple[str, ...]:
    return tuple(dict.fromkeys(launch.kernel for case in baseline.cases for launch in case.launches))


def seen(
    bench: Bench, sources: tuple[SourceFile, ...], baseline: Measurement, clocked: Callable[[], None] = lambda: None
) -> Found | None:
    """What profilers say, each launch with its case. `clocked` is called when nothing is timed any more."""
    if not isinstance(bench, Looks):
        clocked()
        return None
    names = _names(baseline)
    found = bench.look(sources, _launched(baseline), clocked)
    kernels = placed(found.counters.kernels, found.asked, names)
    return dataclasses.replace(found, counters=found.counters.model_copy(update={"kernels": kernels}))


def _recounted(baseline: Measurement, counted: Counted) -> Measurement:
    """A GPU's measurement with its bytes as an interpreter counted them: it knows itself only how large tensors are."""
    cases = tuple(
        case.model_copy(update={"traffic_factor": counted.factors.get(case.case, case.traffic_factor)})
        for case in baseline.cases
    )
    return baseline.model_copy(update={"cases": cases})


def concluded(
    site: KernelSite,
    suite: Suite,
    sources: tuple[SourceFile, ...],
    baseline: Measurement,
    survey: tuple[Survey, ...],
    counters: Counters | None,
    timelines: tuple[Timeline, ...],
    oracle_differs: tuple[str, ...] = (),
    moved: tuple[Moved, ...] = (),
) -> Profile:
    fits, sheet = fitting(sources, baseline), for_runner(baseline.runner)
    known = Evidence(survey, sources, site.kernel, counters, timelines, fits)
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
        traffic=traffic(moved, counters, sheet, {case.case: case.launches for case in baseline.cases}),
    )


def think_ahead(site: KernelSite, suite: Suite, sources: tuple[SourceFile, ...], baseline: Measurement) -> None:
    """While a GPU is at work: what rewrites make of the source, and what of them would race first, as far as it can be
    told before a profiler has spoken. Whoever asks afterwards finds it made; what goes wrong goes wrong again for them.
    An H200 waited for mhc_post_res's eight ideas."""
    think(sources, baseline, of_backward_alone(suite, baseline))
    with contextlib.suppress(Exception):
        engine.openers(at_first(concluded(site, suite, sources, baseline, (), None, ())))


def with_traffic(profile: Profile, counted: Counted) -> Profile:
    """Of an earlier day, its bytes counted anew and held against what the profiler read then."""
    launched = {case.case: case.launches for case in profile.baseline.cases}
    found = traffic(counted.moved, profile.counters, for_runner(profile.baseline.runner), launched)
    return profile.model_copy(update={"traffic": found})


def profiled(
    bench: Bench,
    site: KernelSite,
    suite: Suite,
    sources: tuple[SourceFile, ...],
    oracle_differs: tuple[str, ...] = (),
    *,
    survey: bool = True,
    watch: bool = False,
    count: Callable[[], Counted | None] | None = None,
    baseline_read: Callable[[Measurement], None] = lambda _: None,
    passed: Callable[[str], None] = lambda _: None,
) -> Profile | Fault:
    """A fault where the untouched kernel does not run. `survey`: whether other launch numbers are compiled too;
    `watch`: whether rivals are played and profilers asked, where there is a GPU. `count`: counts the bytes beside,
    where this bench cannot. `baseline_read` hears of the untouched kernel as soon as it was measured, and may end it
    there. `passed` hears of each step once it is over: together they take minutes."""
    step = partial(stepped, passed)
    apart = watch and isinstance(bench, Looks)
    if watch and isinstance(bench, Plays):
        bench.expect_rivals()
    baseline = step("v0 checked and measured", lambda: bench.measure(sources, passports=not apart), until_checked)
    if baseline.fault is not None:
        return baseline.fault
    baseline_read(baseline)
    if watch and isinstance(bench, Looks):
        bench.expect_look(_launched(baseline))
    launches = tuple(launch for case in baseline.cases for launch in case.launches)
    quiet = Event()

    def after(work: Callable[[], T]) -> T:
        quiet.wait()
        return work()

    thinking = Thread(target=think_ahead, args=(site, suite, sources, baseline), daemon=True)
    if apart:
        thinking.start()
    with ThreadPoolExecutor(max_workers=3) as threads:

        def beside(work: Callable[[], T]) -> Future[T]:
            """What takes the host a minute for some kernels, and a GPU's clock little: beside clocks, if there is room
            for it."""
            return threads.submit(work) if leaves_room() else threads.submit(after, work)

        try:
            stamps = partial(step, "compiled for other chips", partial(bench.stamped, sources)) if apart else tuple
            stamping = beside(stamps)
            counting = beside(partial(step, "bytes counted", count)) if count is not None else None
            settings = launch_settings(launches, "\n".join(file.text for file in sources))

            def surveyed() -> tuple[Survey, ...]:
                stamping.result()  # both keep every processor busy, and count the seconds that a kernel takes
                return step("other launch numbers compiled", lambda: bench.survey(sources, settings))

            surveying = threads.submit(after, surveyed) if survey else None
            rivals = step("rivals played", bench.rivals) if watch and isinstance(bench, Plays) else ()
            looked = step("profilers asked", lambda: seen(bench, sources, baseline, quiet.set)) if watch else None
        finally:
            quiet.set()
        surveys = surveying.result() if surveying is not None else ()
        bytes_of = counting.result() if counting is not None else count_of(bench, baseline)
        stamped = stamping.result()
    if apart:
        thinking.join()  # whoever else thinks of the same meanwhile takes as long again
    if apart and not stamped:  # beside others it failed altogether: alone it may not
        stamped = bench.stamped(sources)
    baseline = baseline.model_copy(update={"passports": stamped}) if apart else baseline
    baseline = _recounted(baseline, bytes_of) if bytes_of is not None else baseline
    counters, timelines = (looked.counters, looked.timelines) if looked else (None, ())
    moved = bytes_of.moved if bytes_of is not None else ()
    found = concluded(site, suite, sources, baseline, surveys, counters, timelines, oracle_differs, moved)
    found = found.model_copy(update={"rivals": rivals, "dispatch": looked.dispatch if looked else ()})
    diagnosis = found.diagnosis.model_copy(update={"rival": fastest(found)})
    return found.model_copy(update={"diagnosis": diagnosis})
