"""A search that went on on another machine, in words: which one was profiled on, and which one the times are of."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from bot.model.campaign import Campaign
from bot.model.measurement import Evidence, Measurement, Runner
from bot.render import labels, view
from bot.render.escape import plain

TOLD = {"gpu_uuid": "{}", "driver": "driver {}", "torch": "torch {}", "triton": "Triton {}"}
"""What is said of a machine where it is what makes it another one."""


def _named(runner: Runner, told: Iterable[str]) -> str:
    known = {name: getattr(runner, name) for name in TOLD if name in told}
    parts = [TOLD[name].format(value) for name, value in known.items() if value]
    where = runner.gpu_name or labels.arch(runner.arch)
    return plain(f"{where} ({', '.join(parts)})" if parts else where, 160)


def _differences(runners: list[Runner]) -> set[str]:
    return {name for one, other in pairwise(runners) for name in other.differs_in(one)}


def sentence(campaign: Campaign) -> str:
    """Empty where there is one machine."""
    if not campaign.left or campaign.profile is None:
        return ""
    now = campaign.profile.baseline.runner
    runners = [*(one.baseline.runner for one in campaign.left), now]
    names = [_named(runner, _differences(runners)) for runner in runners]
    at, timed = ("for", "estimated") if now.evidence is Evidence.STATIC else ("on", "timed")
    later = zip(names[1:], campaign.left, strict=True)
    since = " and ".join(f"{at} {name} from v{before.until + 1} on" for name, before in later)
    return f"Profiled {at} {names[0]}; {timed} {since}, v0 and the best so far once more"


def told(baseline: Measurement) -> str:
    """As one thing that happened."""
    again = "estimated" if baseline.runner.evidence is Evidence.STATIC else "measured"
    return f"another machine, {_named(baseline.runner, TOLD)}: v0 was {again} again"


def is_one(campaign: Campaign, number: int, other: int) -> bool:
    """Whether what two variants are worth was found out on one machine: only then is one divided by the other. Each is
    worth so many times v0 on its own, so v0 fits everybody."""
    mine, its = view.measurement_of(campaign, number), view.measurement_of(campaign, other)
    return not other or mine is None or its is None or not mine.runner.differs_in(its.runner)
