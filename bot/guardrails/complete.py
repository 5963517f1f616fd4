"""The variant was checked and scored on exactly the cases v0 was, on the same kind of machine (BC-09)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from bot.analysis.roofline import may_do_nothing
from bot.guardrails.hearing import Hearing, reject
from bot.model.measurement import Measurement, Runner
from bot.model.verdict import Finding

NAME = "complete"
MOST_BYTES = 2**44
"""16 TiB, a hundred times the largest GPU memory there is."""


def _machines(before: Runner, after: Runner) -> Iterator[Finding]:
    for name in before.differs_in(after):
        was, now = getattr(before, name), getattr(after, name)
        message = f"v0 and the variant were measured on different machines ({name}: {was!r} and {now!r})"
        yield reject(NAME, f"{message}; such numbers never meet")


def _cases(verb: str, was: list[str], now: list[str]) -> Iterator[Finding]:
    """A case that is missing, twice there or unknown: nothing is averaged over the rest."""
    lacking, foreign = Counter(was) - Counter(now), Counter(now) - Counter(was)
    for count, what in ((lacking, "missing"), (foreign, "that v0 does not have")):
        if count:
            total = sum(count.values())
            yield reject(NAME, f"{total} of {len(was)} cases {verb} {what}, first {min(count)}", min(count))


def _amounts(measurement: Measurement) -> Iterator[Finding]:
    """Facts come from a job that ran hostile code; what no GPU has is no fact."""
    for result in measurement.cases:
        if not (0 <= result.memory_bytes <= MOST_BYTES and 0 <= result.minimum_bytes <= MOST_BYTES):
            yield reject(NAME, f"{result.case} is said to need an amount of memory that no GPU has", result.case)


def _work(before: Measurement, after: Measurement, idle: Collection[str]) -> Iterator[Finding]:
    """The bytes a case needs belong to the case, not to who runs it. Those of a case that may do nothing limit nobody,
    and journals from before that was known have other ones."""
    needed = {result.case: result.minimum_bytes for result in before.cases if result.case not in idle}
    for result in after.cases:
        if needed.get(result.case, result.minimum_bytes) != result.minimum_bytes:
            message = (
                f"{result.case} needs {needed[result.case]} bytes for v0 and {result.minimum_bytes} for the variant"
            )
            yield reject(NAME, f"{message}: not the same work", result.case)


def complete(hearing: Hearing) -> list[Finding]:
    before, after = hearing.baseline, hearing.candidate
    findings = []
    if after.source != hearing.variant.digest:
        findings.append(reject(NAME, "what was measured is not the source of this variant"))
    if after.fault is not None:  # said by `fault`: cases are missing because of it
        return findings
    if before.fault is not None:
        findings.append(reject(NAME, f"v0 itself could not be measured: {before.fault.kind}"))
    findings += _machines(before.runner, after.runner)
    findings += _cases("checked", [check.case for check in before.checks], [check.case for check in after.checks])
    findings += _cases("scored", [case.id for case in hearing.suite.cases], [result.case for result in after.cases])
    findings += [*_amounts(before), *_amounts(after)] or _work(before, after, may_do_nothing(hearing.suite))
    return findings
