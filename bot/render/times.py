"""Times and memory by pass, the way the records of the source systems sum them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, fsum, log

from bot.model.campaign import Profile, Round
from bot.model.commands import Scope
from bot.model.grouping import primary_groups
from bot.model.measurement import Evidence, Measurement, Suite
from bot.render import numbers

HOST_HEAD = "Wrapper on the CPU, as its process tells"
PASS_ORDER = ("forward", "backward", "full")


def geomean(values: list[float]) -> float | None:
    return exp(fsum(map(log, values)) / len(values)) if values and min(values) > 0 else None


def baseline_us(profile: Profile) -> dict[str, float]:
    return {case.case: case.timing.median_us for case in profile.baseline.cases if case.timing}


def variant_us(played: Round) -> dict[str, float]:
    """What the verdict was reached on; a variant without a score has none."""
    score = played.verdict.score if played.verdict else None
    return {case.case: case.after_us for case in score.cases} if score else {}


def befores(played: Round) -> dict[str, float]:
    """v0 as the verdict has it."""
    score = played.verdict.score if played.verdict else None
    return {case.case: case.before_us for case in score.cases} if score else {}


def is_here(profile: Profile, played: Round) -> bool:
    """Whether it was measured where the profile's v0 was; a search may have gone on elsewhere since."""
    found = played.measurement
    return found is None or not found.runner.differs_in(profile.baseline.runner)


def v0_us(profile: Profile, played: Round) -> dict[str, float]:
    """v0 on the machine that this was measured on."""
    return (baseline_us(profile) if is_here(profile, played) else {}) or befores(played)


@dataclass(frozen=True, slots=True)
class Step:
    """One variant in a row: mean and worst of each pass, and of the whole step where a case runs it whole."""

    mean: Mapping[str, float | None]
    worst: Mapping[str, float | None]
    whole: float | None
    """What is judged (C-06): `full` where a case runs it, else the passes of a shape added up."""


def step(suite: Suite, times: Mapping[str, float]) -> Step:
    found = {
        direction: [times[case.id] for case in suite.cases if case.direction == direction and case.id in times]
        for direction in PASS_ORDER
    }
    groups = primary_groups(suite, Scope.GENERAL)
    steps = [sum(times[c.id] for c in group.cases) for group in groups if all(c.id in times for c in group.cases)]
    mean = {direction: geomean(us) for direction, us in found.items()}
    return Step(mean, {direction: max(us, default=None) for direction, us in found.items()}, geomean(steps))


def _gain(before: float | None, after: float | None) -> str:
    return "-" if before is None or after is None else f"{100 * (before / after - 1):+.3f}%"


def against(base: Step, now: Step) -> str:
    """`step ±X%, fwd ±Y%, bwd ±Z%`: above zero is faster."""
    return ", ".join(
        (
            f"step {_gain(base.whole, now.whole)}",
            f"fwd {_gain(base.mean['forward'], now.mean['forward'])}",
            f"bwd {_gain(base.mean['backward'], now.mean['backward'])}",
        )
    )


def plain_us(value: float | None) -> str:
    """A figure under a head that names the unit."""
    return "-" if value is None else f"{value:.3f}"


def on_the_host(found: Measurement | None) -> dict[str, str]:
    """What a call costs the caller, v0's and the variant's, of the cases in which it was read."""
    read = {case.case: case.paired.host_us for case in (found.cases if found else ()) if case.paired is not None}
    return {
        case: f"{numbers.duration(times[0])} to {numbers.duration(max(0.0, sum(times)))}"
        for case, times in read.items()
        if times is not None
    }


def mark(evidence: Evidence) -> str:
    return f" {numbers.ESTIMATED}" if evidence is Evidence.STATIC else ""
