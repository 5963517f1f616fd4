"""The first look at the untouched kernel: which of its cases fit here, whether it can be held against itself, and
whether anything could ever test what is made of it. What cannot end well ends before a minute goes into profilers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.bench.launcher import give_way
from bot.bench.measure import Bench
from bot.guardrails.correctness import no_yardstick
from bot.model.campaign import Campaign, Profile
from bot.model.finalization import CommandRun
from bot.model.ids import RepoPath
from bot.model.measurement import Case, Fault, Measurement, Suite
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from bot.zones import oracle
from bot.zones.profiling import counted, profiled
from bot.zones.workshop import Preflight, Workshop

Subject = tuple[KernelSite, Suite, tuple[SourceFile, ...]]
"""A kernel, its cases and its files as they are."""
NOT_RUN = 126
"""From here on exit codes are of shells and signals."""


def uncollected(run: CommandRun | None) -> str:
    """Why pytest finds no test, with the first error; empty where it does, or said nothing of it."""
    if run is None or run.exit_code is None or not 0 < run.exit_code < NOT_RUN:
        return ""
    error = next((line[1:].strip() for line in run.output.splitlines() if line.startswith("E  ")), "")
    return f"{run.summary} ({error})" if error else run.summary


@dataclass(frozen=True, slots=True)
class FirstLook:
    campaign: Campaign
    shop: Workshop
    tree: Path
    arch: str
    differing: tuple[RepoPath, ...] = ()

    def of(self, bench: Bench, subject: Subject, tests: Callable[[], None] = lambda: None) -> Profile | Fault:
        """With a GPU profilers watch, and the bytes are counted beside it. `tests` may end it: nothing is timed when
        it is asked."""
        site, suite, sources = subject
        shop, watched = self.shop, self.shop.gpu is not None
        beside = partial(shop.open_counter, self.tree, site, suite, self.arch, shop.python, shop.scratch / "count")

        def can_be_judged(baseline: Measurement) -> None:
            if why := no_yardstick(baseline.checks):
                what = f"the untouched {site.kernel} cannot be held against itself: {why}"
                raise Preflight(ReasonCode.PREFLIGHT_FAILED, what)
            tests()

        count = partial(counted, beside, sources) if watched else None
        return profiled(
            bench, *subject, self.differing, watch=watched, count=count, baseline_read=can_be_judged, passed=shop.passed
        )

    def _collected(self, site: KernelSite, *, alone: bool) -> CommandRun | None:
        assert self.campaign.pull is not None
        return self.shop.collect(
            self.shop.repo,
            self.campaign.pull.head_sha,
            site,
            python=self.shop.python,
            scratch=self.shop.scratch / "collect",
            judging=self.differing,
            judged_by=oracle.judged_by(self.campaign),
            gpu=self.shop.gpu if alone else None,
        )

    def _tested(self, site: KernelSite, early: Future[CommandRun | None]) -> None:
        """What cannot be collected without the GPU may need it: asked once more, with it, that counts."""
        why = uncollected(early.result())
        if why and self.shop.gpu is not None:
            why = uncollected(self._collected(site, alone=True))
        if why:
            what = f"the tests of {site.kernel} cannot be collected with the kernel as it stands: {why}"
            hint = f"see that pytest finds tests in {site.test_file} with --collect-only"
            raise Preflight(ReasonCode.TESTS_FAILED_BEFORE, f"{what}; {hint}")

    def whole(self, bench: Bench, subject: Subject, reopened: Callable[[Suite], Bench]) -> Profile:
        """The profile over all cases that fit into the GPU's memory. The tests are collected beside, by a process that
        gives way and sees no GPU: none may run beside a clock."""
        site, suite, sources = subject
        with ThreadPoolExecutor(max_workers=1, initializer=give_way) as own:
            early = own.submit(self._collected, site, alone=False)
            kept, found = suite, self.of(bench, subject, partial(self._tested, site, early))
            while isinstance(found, Fault):
                kept = self._reduced(kept, found, site, suite)
                found = self.of(reopened(kept), (site, kept, sources), partial(self._tested, site, early))
        left = tuple(case for case in suite.cases if case not in kept.cases)
        return found.model_copy(update={"left_out": left})

    def _reduced(self, kept: Suite, fault: Fault, site: KernelSite, suite: Suite) -> Suite:
        """Without those that did not fit; a stop where that is not what is wrong, or none is left."""
        short = tuple(case for case in kept.cases if case.id in fault.unfit)
        fitting = tuple(case for case in kept.cases if case not in short)
        if not short:
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, f"{fault.of_untouched(site.kernel)}; {fault.next_step}")
        if not fitting:
            raise Preflight(ReasonCode.PREFLIGHT_FAILED, self._none_fits(fault, site, suite))
        self.shop.passed(f"{_named(short)} left out: v0 does not fit into the GPU's memory there")
        return kept.model_copy(update={"cases": fitting})

    def _none_fits(self, fault: Fault, site: KernelSite, suite: Suite) -> str:
        gpu = self.shop.gpu
        memory = f"the {gpu.memory_mib / 1024:.4g} GiB of {gpu.name}" if gpu is not None else "the memory"
        return (
            f"none of the {len(suite.cases)} scored cases of {site.kernel} fits into {memory}: {fault.detail};"
            " ask on a machine with more, or see that nobody else holds memory of this GPU"
        )


def _named(cases: tuple[Case, ...]) -> str:
    return ", ".join(case.id for case in cases)
