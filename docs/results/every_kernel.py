"""Writes the tables of all kernels into the README beside it, one a kind of GPU: of each kernel its last campaign there
that came to its end.

    python docs/results/every_kernel.py

What counts, and how fast a winner is, is as the tables of each GPU have it (h200/campaigns/table.py).
"""

from __future__ import annotations

import runpy
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bot.analysis.measured import over_all
from bot.analysis.roofline import case_percent
from bot.analysis.stats import geometric_mean
from bot.hardware.catalog import for_runner
from bot.ledger.layout import JOURNAL
from bot.model.commands import Scope
from bot.model.grouping import Group, primary_groups
from bot.model.measurement import CaseResult, Timing
from bot.render import numbers, view
from bot.render.escape import Trusted, text
from bot.targets.sizes import SIZES

HERE = Path(__file__).resolve().parent
FOLDERS = tuple(HERE / gpu / "campaigns" for gpu in ("h200", "h100"))
HEAD = ("Kernel", "Forward + backward", "At its roof", "How it ended", "Asked for on")


TABLE = SimpleNamespace(**runpy.run_path(str(HERE / "h200/campaigns/table.py")))
"""The reader of journals, which is a script of its own."""


def gpu(one: Any) -> str:
    runner = view.runner(one.campaign)
    return runner.gpu_name if runner is not None and runner.gpu_name else numbers.UNKNOWN


def last_ones(folders: Sequence[Path]) -> dict[str, dict[str, tuple[Any, Path]]]:
    """By GPU and kernel the last campaign that came to its end, and the folder it lies in. The GPU that has most
    of them is the first."""
    every = [(one, folder) for folder in folders for one in TABLE.read_all(folder) if one.is_over]
    found: dict[str, dict[str, tuple[Any, Path]]] = {}
    for one, folder in sorted(every, key=lambda pair: pair[0].lines[0].at):
        found.setdefault(gpu(one), {})[one.kernel] = (one, folder)
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def _roof_us(one: Any, result: CaseResult, us: float) -> float:
    """What v0's time comes down to at the roof; as it is where the roof is unknown or v0 already above it."""
    timed = result.model_copy(update={"timing": Timing(median_us=us, timer="replay")})
    share = case_percent(timed, for_runner(view.runner(one.campaign)))
    return us * min(share, 100.0) / 100 if share else us


def at_roof(one: Any) -> float:
    """How many times as fast v0 would be if each case took no longer than its roof says, over the same steps."""
    assert one.campaign.profile is not None
    cases, steps = TABLE._results(one), primary_groups(one.campaign.profile.suite, Scope.GENERAL)
    found = []
    for step in steps:
        now = {case.id: TABLE._before(one, cases[case.id]) for case in step.cases}
        roof = sum(_roof_us(one, cases[name], us) for name, us in now.items())
        found.append((sum(now.values()) / roof, step.weight))
    return geometric_mean([gain for gain, _ in found], [weight for _, weight in found])


def row(one: Any, folder: Path) -> list[object]:
    place = f"{folder.parent.name}/{folder.name}/{one.folder}/{JOURNAL}"
    won = TABLE.gave([one]) is not None
    speed = TABLE.gain(TABLE._speed(one.campaign, one.readings)) if won else "1.00x, as it was"
    ended, day = TABLE.ended(one.campaign), one.lines[0].at[:10]
    return [Trusted(f"[{text(one.kernel)}]({place})"), speed, numbers.ratio(at_roof(one)), ended, day]


def _mean(of: str, campaigns: Collection[Any]) -> str:
    speeds, most = ([of_one(one) for one in campaigns] for of_one in (lambda one: TABLE.gave([one]) or 1.0, at_roof))
    said = f"**{numbers.ratio(geometric_mean(speeds))}** where all of them at their roofs would be"
    return f"Geometric mean {of}: {said} {numbers.ratio(geometric_mean(most))}.\n"


def _of_gradient_one(step: Group) -> Group:
    """A loss has its backward pass scored twice, of a gradient of 1 and of another. A step of training has one."""
    if not any(case.grad == "one" for case in step.cases):
        return step
    return Group(tuple(case for case in step.cases if case.direction != "backward" or case.grad == "one"))


def as_trained(one: Any) -> float | None:
    """The winner's speed-up if all that is done to a loss is to take its gradient; None where there is no loss."""
    steps = primary_groups(one.campaign.profile.suite, Scope.GENERAL)
    trained = [_of_gradient_one(step) for step in steps]
    if trained == list(steps):
        return None
    return over_all(trained, one.readings).ratio if TABLE.gave([one]) is not None else 1.0


def of_losses(campaigns: Sequence[Any]) -> list[str]:
    """What the same winners come to where a loss has one backward pass."""
    losses = {one.kernel: speed for one in campaigns if (speed := as_trained(one)) is not None}
    speeds = [losses.get(one.kernel) or TABLE.gave([one]) or 1.0 for one in campaigns]
    each = ", ".join(f"{kernel} {numbers.ratio(speed)}" for kernel, speed in sorted(losses.items()))
    told = (
        "A loss counts with two backward passes, of a gradient of 1 and of another, as whoever weighs losses has it. "
        "With the first of them alone, as most training has it, the mean over those ops is "
        f"**{numbers.ratio(geometric_mean(speeds))}** ({each}).\n"
    )
    return [told] if losses else []


def means(campaigns: Sequence[Any]) -> str:
    known = [one for one in campaigns if one.kernel in TABLE.KNOWN_BEFORE]
    whole = TABLE.over_the_library({one.kernel: TABLE.gave([one]) for one in campaigns}).strip()
    lines = [_mean(f"over {len(campaigns)} of the {numbers.many(len(SIZES), 'op')}", campaigns)]
    lines += [f"{whole}\n"] if whole else []
    lines += of_losses(campaigns)
    of_known = f"over {len(known)} of the {len(TABLE.KNOWN_BEFORE)} whose stock times were known before"
    return "\n".join([*lines, _mean(of_known, known)] if known else lines)


def section(name: str, found: Collection[tuple[Any, Path]]) -> str:
    fastest = sorted(found, key=lambda pair: (-(TABLE.gave([pair[0]]) or 1.0), pair[0].kernel))
    rows = [row(*pair) for pair in fastest]
    return "\n".join((f"### {text(name)}\n", means([one for one, _ in found]), TABLE.grid(HEAD, rows)))


def page(folders: Sequence[Path] = FOLDERS) -> str:
    """No mean is over two kinds of GPU: it would be of neither."""
    found = last_ones(folders)
    if not found:
        return "No campaign came to its end yet.\n"
    sections = [section(name, of_kernel.values()) for name, of_kernel in found.items()]
    return "\n".join((TABLE.intervals(HERE), *sections))


def main() -> None:
    readme = HERE / "README.md"
    readme.write_text(TABLE.written(readme.read_text(encoding="utf-8"), page()), encoding="utf-8")


if __name__ == "__main__":
    main()
