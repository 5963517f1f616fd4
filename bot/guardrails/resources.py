"""The binary may not get worse where nobody looks: new spills, or an architecture it no longer compiles for (R-29)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bot.guardrails.hearing import Weighed, note, reject
from bot.model.measurement import Measurement, Passport, Resources
from bot.model.verdict import Finding

NAME = "resources"


def _worst(kernels: Iterable[tuple[str, Resources]]) -> dict[str, int]:
    """Spilled bytes of each kernel where it spills most."""
    worst: dict[str, int] = {}
    for kernel, found in kernels:
        worst[kernel] = max(worst.get(kernel, 0), found.spill_bytes)
    return worst


def _launched(measurement: Measurement) -> dict[str, int]:
    launches = [launch for result in measurement.cases for launch in result.launches]
    return _worst((launch.kernel, launch.resources) for launch in launches if launch.resources is not None)


def spilled_more(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """A kernel under a new name is held against the worst that v0 has; of a v0 nobody compiled, nothing is known."""
    most = max(before.values(), default=None)
    for kernel, spilled in after.items():
        was = before.get(kernel, most)
        if was is not None and spilled > was:
            yield kernel, was, spilled


def _more(before: Mapping[str, int], after: Mapping[str, int], where: str = "") -> Iterator[Finding]:
    """What spilled before may be worth it: a clock says so here, and nobody elsewhere. What did not may be gated."""
    for kernel, was, spilled in spilled_more(before, after):
        if was <= 0:
            yield reject(NAME, f"{kernel} now spills {spilled} bytes a thread{where}, and v0 spills none")
        else:
            yield note(NAME, f"{kernel} now spills {spilled} bytes a thread{where}, v0 spills {was}")


def _passport(before: Passport, after: Passport | None, own: str) -> Iterator[Finding]:
    if before.ok and after is None:
        yield reject(NAME, f"nobody knows whether it compiles for {before.arch}, for which v0 does")
    elif before.ok and after is not None and not after.ok:
        yield reject(NAME, f"it no longer compiles for {after.arch}: {after.error or 'no reason given'}")
    elif before.ok and after is not None and after.arch != own:
        yield from _more(_worst(before.kernels), _worst(after.kernels), f" on {after.arch}")


def resources(weighed: Weighed) -> list[Finding]:
    before, after = weighed.hearing.baseline, weighed.hearing.candidate
    findings = list(_more(_launched(before), _launched(after)))
    stamped = {passport.arch: passport for passport in after.passports}
    for passport in before.passports if stamped else ():  # none at all: this bench hands out no passports
        findings += _passport(passport, stamped.get(passport.arch), after.runner.arch)
    return findings
