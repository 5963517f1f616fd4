"""A search that goes on on another machine: v0 is measured again there, before anything is held against it."""

from __future__ import annotations

from bot.analysis.estimate import timed
from bot.bench.measure import Bench
from bot.model.campaign import Profile
from bot.model.measurement import Evidence, Measurement, Runner
from bot.zones.judging import no_yardstick_for

HINT = "`/optimize retry` on a runner that can goes on from here, for all that was found out is kept"
OWN_HINT = "the same command goes on from here on a machine that can: all that was found out is kept"


class CannotGoOn(Exception):
    """This machine measures nothing that the campaign could go on with."""


def is_another(here: Runner, before: Runner) -> bool:
    """Whether v0 has to be measured again. Where there is no clock any more, or one now, nothing could go on from it:
    each variant is refused, and says so."""
    return here.evidence is before.evidence and bool(here.differs_in(before))


def _with_traffic(found: Measurement, before: Measurement) -> Measurement:
    """A clock counts no bytes: they stay as they were counted for the profile."""
    if found.runner.evidence is Evidence.STATIC:
        return found
    factors = {case.case: case.traffic_factor for case in before.cases}
    cases = tuple(
        case.model_copy(update={"traffic_factor": factors.get(case.case, case.traffic_factor)}) for case in found.cases
    )
    return found.model_copy(update={"cases": cases})


def v0_again(bench: Bench, profile: Profile) -> Measurement:
    """As for the profile; what was understood of the kernel there is of a GPU of the same kind."""
    kernel, before, here = profile.site.kernel, profile.baseline.runner, bench.runner
    if not here.is_kind_of(before):
        was, now = (f"{runner.gpu_name or runner.arch} ({runner.gpu_memory_mib} MiB)" for runner in (before, here))
        raise CannotGoOn(f"{kernel} was profiled on {was}, and this machine has {now}: another kind of GPU")
    found = bench.measure(profile.sources, passports=True)
    if found.fault is not None:
        raise CannotGoOn(
            f"the untouched {kernel} does not run on this machine: {found.fault.kind}: {found.fault.detail}"
        )
    found = timed(_with_traffic(found, profile.baseline), profile.suite)
    if why := no_yardstick_for(profile, found):
        raise CannotGoOn(f"the untouched {kernel} is no yardstick on this machine: {why}")
    return found
