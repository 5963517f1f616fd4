"""Judges the files of a suite as a campaign would: the text first, then the checks, then what was compiled and timed.

One bench an op stays open for all its files. Each step is asked only where the one before it let the file through, and
a file that the text alone condemns is never run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from bot.analysis.estimate import timed
from bot.bench.checks import Checked
from bot.bench.suite_files import Exhibit
from bot.errors import OperatorError
from bot.guardrails import judge, prescreen
from bot.guardrails.correctness import correctness, no_yardstick
from bot.guardrails.fault import fault
from bot.guardrails.hearing import Hearing
from bot.model.commands import Goal, Scope
from bot.model.measurement import Measurement, Runner, Suite
from bot.model.site import KernelSite
from bot.model.variant import Hypothesis, SourceFile, Variant, sources_digest
from bot.model.verdict import Finding

PROPOSER = "suite"
SLOWER = frozenset({"regression", "cross_pass", "resources"})
"""Guardrails that say of an honest file that it is no improvement."""
REJECTED, CHECKED = "REJECTED", "CHECKED"
"""CHECKED: nothing against it so far, and nobody asked for more than the checks."""


class Bench(Protocol):
    """A bench that tells its checks apart from the rest, so that nothing is compiled for what is wrong."""

    @property
    def runner(self) -> Runner: ...

    def check(self, files: tuple[SourceFile, ...]) -> Checked: ...

    def measure(
        self, files: tuple[SourceFile, ...], *, passports: bool, checked: Checked | None = None
    ) -> Measurement: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Steps:
    """How far a file is followed."""

    static: bool = True
    """Whether the text is looked at. Without, what the variant does has to be enough."""
    timing: bool = True
    """Whether what passes the checks is compiled and timed."""
    passports: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of one file."""

    file: str
    op: str
    verdict: str
    reasons: tuple[str, ...]
    """Every guardrail that rejected it."""
    expected: str
    match: bool
    evidence: str
    """The first rejection, else the first note."""
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "reasons": list(self.reasons)}


@dataclass(frozen=True)
class _Ruling:
    verdict: str
    findings: tuple[Finding, ...]
    crash: bool = False
    """The only thing against it is that it raised."""

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f.guardrail for f in self.findings if f.severity == "reject"))


class Court:
    """The files of one op, held against one open bench."""

    def __init__(self, site: KernelSite, suite: Suite, sources: tuple[SourceFile, ...], bench: Bench) -> None:
        self._site, self._suite, self._sources, self._bench = site, suite, sources, bench
        self._turn = threading.Lock()
        self._ahead: dict[str, Checked] = {}
        self._checked = _fit(site.kernel, bench.check(sources))

    @cached_property
    def _baseline(self) -> Measurement:
        """v0 with everything, measured when the first file comes that far."""
        return timed(self._bench.measure(self._sources, passports=True, checked=self._checked), self._suite)

    def _measured(self, files: tuple[SourceFile, ...], checked: Checked | None = None) -> Measurement:
        """A measurement that goes no further than the checks."""
        found = checked or Checked()
        return Measurement(
            runner=self._bench.runner, source=sources_digest(files), checks=found.rows, fault=found.fault
        )

    def _hearing(self, variant: Variant, baseline: Measurement, candidate: Measurement) -> Hearing:
        return Hearing(
            variant=variant,
            sources=self._sources,
            allowed=self._site.files,
            relied_on=self._site.relied_on,
            earlier=(("v0", sources_digest(self._sources)),),
            baseline=baseline,
            candidate=candidate,
            suite=self._suite,
            goal=Goal.BALANCED,
            scope=Scope.GENERAL,
        )

    def _rule(self, variant: Variant, steps: Steps) -> _Ruling:
        baseline = self._measured(self._sources, self._checked)
        hearing = self._hearing(variant, baseline, self._measured(variant.files))
        against = prescreen(hearing) if steps.static else []
        if any(finding.severity == "reject" for finding in against):
            return _Ruling(REJECTED, tuple(against))
        checked = self._ahead.pop(sources_digest(variant.files), None) or self._bench.check(variant.files)
        hearing = self._hearing(variant, baseline, self._measured(variant.files, checked))
        ruling = _Ruling(REJECTED, (*fault(hearing), *correctness(hearing)), _only_raised(checked, self._checked))
        if ruling.reasons:
            return ruling
        if not steps.timing:
            return _Ruling(CHECKED, ruling.findings)
        with self._turn:
            baseline = self._baseline
        candidate = self._bench.measure(variant.files, passports=steps.passports, checked=checked)
        verdict = judge(self._hearing(variant, baseline, timed(candidate, self._suite)), static=steps.static)
        return _Ruling(verdict.decision.upper(), verdict.findings)

    def check_ahead(self, exhibits: Iterable[Exhibit], steps: Steps, at_once: int) -> None:
        """All the checks side by side, before any clock runs: they would disturb it."""
        baseline = self._measured(self._sources, self._checked)
        waiting = {}
        with ThreadPoolExecutor(max_workers=at_once) as threads:
            for exhibit in exhibits:
                variant = _variant(exhibit, self._sources)
                against = prescreen(self._hearing(variant, baseline, self._measured(variant.files)))
                if not steps.static or not any(finding.severity == "reject" for finding in against):
                    waiting[sources_digest(variant.files)] = threads.submit(self._bench.check, variant.files)
        self._ahead = {digest: future.result() for digest, future in waiting.items()}

    def hear(self, exhibit: Exhibit, steps: Steps) -> Outcome:
        started = time.monotonic()
        ruling = self._rule(_variant(exhibit, self._sources), steps)
        said = [f.message for wanted in ("reject", "note") for f in ruling.findings if f.severity == wanted]
        return Outcome(
            file=f"{exhibit.op}/{exhibit.path.name}",
            op=exhibit.op,
            verdict=ruling.verdict,
            reasons=ruling.reasons,
            expected=exhibit.expected,
            match=_matches(exhibit, ruling),
            evidence=("it raised, which is no reason: " if ruling.crash else "") + next(iter(said), ""),
            seconds=round(time.monotonic() - started, 2),
        )

    def hear_all(self, exhibits: Iterable[Exhibit], steps: Steps, at_once: int) -> Iterator[Outcome]:
        """In the order of the files, several at a time."""
        with ThreadPoolExecutor(max_workers=at_once) as threads:
            waiting = [threads.submit(self.hear, exhibit, steps) for exhibit in exhibits]
            try:
                for future in waiting:
                    yield future.result()
            finally:
                threads.shutdown(wait=True, cancel_futures=True)


def _fit(kernel: str, checked: Checked) -> Checked:
    """An untouched kernel that is no yardstick judges nobody: whoever is rejected then is rejected for its sake."""
    if checked.fault is not None:
        why = f"{checked.fault.kind}: {checked.fault.detail}"
    else:
        why = no_yardstick(checked.rows)
    if not why:
        return checked
    raise OperatorError(
        f"the untouched {kernel} cannot be held against itself here: {why}",
        hint="its own error is the yardstick for every file; see that it runs on this machine",
    )


def _variant(exhibit: Exhibit, sources: tuple[SourceFile, ...]) -> Variant:
    """The file in place of the op's; the other files of the kernel stay."""
    files = (SourceFile(path=sources[0].path, text=exhibit.text), *sources[1:])
    idea = Hypothesis(title=exhibit.path.stem, why="", expected="", technique=PROPOSER)
    return Variant(number=1, parent=0, files=files, hypothesis=idea, proposer=PROPOSER)


def _only_raised(checked: Checked, base: Checked) -> bool:
    """Every case that failed is one in which something raised: rejected, but not for being wrong."""
    excused = {row.case for row in base.rows if not row.passed}
    failed = {row.case for row in checked.rows if not row.passed} - excused
    return checked.fault is None and bool(failed) and failed <= checked.crashed


def _matches(exhibit: Exhibit, ruling: _Ruling) -> bool:
    """A file that must pass is rejected by nobody, unless it is only slower: it may be, as long as it is honest. A file
    that must not is rejected for a reason it declares, and a crash is a reason only where it is the declared one."""
    if not exhibit.reasons:
        return set(ruling.reasons) <= SLOWER
    found = set(ruling.reasons)
    return not ruling.crash and bool(found & set(exhibit.reasons)) and ("fault" not in found - set(exhibit.reasons))
