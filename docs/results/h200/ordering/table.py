"""Writes the tables of the README beside it: whether the estimate puts launch numbers in the order in which they raced,
and whole variants in that in which the judge saw them.

Run it from the root of the repository, after a campaign was added:

    python docs/results/h200/ordering/table.py

Of each op the last campaign that raced v0's launch numbers counts. What was compiled for its profile is estimated as
on a machine without a GPU, from the compiler's numbers and the counted bytes alone; what raced was timed a dozen blocks
a case.
"""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from bot.analysis.estimate import estimate_case, estimate_survey, estimated
from bot.analysis.stats import geometric_mean
from bot.engine import race_field
from bot.engine.space import block_constant
from bot.hardware.catalog import for_runner
from bot.model.campaign import Profile
from bot.model.commands import Scope
from bot.model.grouping import primary_groups
from bot.model.measurement import Measurement

HERE = Path(__file__).resolve().parent
CAMPAIGNS = HERE.parent / "campaigns"
BEGIN, END = "<!-- made by table.py -->\n", "<!-- end -->\n"
APART = 1.05
"""Pairs that differ by less are as good as equal."""

Config: TypeAlias = tuple[int, int]
"""The block and the warps of a launch."""
Times: TypeAlias = Mapping[str, Mapping[Config, float]]
"""Microseconds by case."""


READER = SimpleNamespace(**runpy.run_path(str(CAMPAIGNS / "table.py")))
"""The reader of journals, which is a script of its own."""


def estimates(profile: Profile, kernel: str) -> Times:
    """What the model says of every set of numbers that was compiled for this kernel, today's included."""
    sheet, cases = for_runner(profile.baseline.runner), {case.id: case for case in profile.suite.cases}
    found: dict[str, dict[Config, float]] = {}
    for facts in profile.baseline.cases:
        launch = next((launch for launch in facts.launches if launch.kernel == kernel), None)
        block = block_constant(launch) if launch is not None else None
        if launch is None or block is None or facts.case not in cases:
            continue
        today = (block[1], launch.num_warps)
        told = {today: estimate_case(facts, cases[facts.case], sheet)}
        for one in profile.survey:
            if one.setting.kernel == kernel and one.case == facts.case and one.setting.num_stages is None:
                config = (dict(one.setting.constants).get(block[0], block[1]), one.setting.num_warps or today[1])
                told[config] = estimate_survey(one, facts, cases[facts.case], sheet)
        found[facts.case] = {config: us for config, us in told.items() if us is not None}
    return found


@dataclass(frozen=True, slots=True)
class Seen:
    """One kernel of one campaign: what both the model and the race know."""

    folder: str
    kernel: str
    model: Times
    raced: Times

    def pairs(self) -> Iterator[bool]:
        """Of each pair that is clearly apart, whether the model has it in the same order."""
        for case, raced in self.raced.items():
            model = self.model.get(case, {})
            for one, other in itertools.combinations([config for config in raced if config in model], 2):
                if max(raced[one], raced[other]) > APART * min(raced[one], raced[other]):
                    yield (model[one] - model[other]) * (raced[one] - raced[other]) > 0

    def places(self) -> Iterator[tuple[str, int, int]]:
        """(case, the model's place of the fastest that raced, of how many)"""
        for case, raced in self.raced.items():
            both = [config for config in raced if config in self.model.get(case, {})]
            if len(both) > 2:
                fastest = min(both, key=lambda config: raced[config])
                yield case, 1 + sorted(both, key=lambda config: self.model[case][config]).index(fastest), len(both)


def seen_of(one: Any) -> list[Seen]:
    """The kernels of one campaign that raced as v0 launches them, and were compiled with other numbers."""
    campaign = one.campaign
    race = campaign.race_of(0)
    if campaign.profile is None or race is None or not race.racers:
        return []
    profile: Profile = campaign.profile
    raced = race_field.tables(race, profile.baseline, profile.suite)
    kernels = {kernel: {row.case: row.us for row in rows} for kernel, (_, rows) in raced.items()}
    found = [Seen(one.folder, kernel, estimates(profile, kernel), times) for kernel, times in kernels.items()]
    return [seen for seen in found if any(True for _ in seen.pairs())]


def all_seen() -> list[Seen]:
    """Of each op the last campaign with such a race."""
    found: dict[str, list[Seen]] = {}
    for one in READER.read_all(CAMPAIGNS):
        if seen := seen_of(one):
            found[one.kernel] = seen
    return [seen for several in found.values() for seen in several]


def row(seen: Seen) -> list[object]:
    pairs, places = list(seen.pairs()), list(seen.places())
    upper = sum(2 * place <= many + 1 for _, place, many in places)
    said = ", ".join(f"{place} of {many}" for _, place, many in places)
    link = f"[{seen.folder}](../campaigns/{seen.folder}/journal.jsonl)"
    share = f"{100 * sum(pairs) / len(pairs):.0f} %"
    return [f"`{seen.kernel}`", link, len(pairs), sum(pairs), share, said or "-", f"{upper} of {len(places)}"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One campaign whose judge timed two variants or more: of each arm, v0 as 0, how many times as fast as v0 it is by
    the clock and by the model."""

    op: str
    folder: str
    clock: Mapping[int, float]
    model: Mapping[int, float]

    @property
    def fastest(self) -> int:
        return max(self.clock, key=lambda number: self.clock[number])

    @property
    def place(self) -> int:
        """The model's place of the fastest."""
        return 1 + sorted(self.model, key=lambda number: -self.model[number]).index(self.fastest)

    @property
    def is_in_upper_half(self) -> bool:
        return 2 * self.place <= len(self.clock) + 1

    def pairs(self) -> Iterator[bool]:
        for one, other in itertools.combinations(self.clock, 2):
            if max(self.clock[one], self.clock[other]) > APART * min(self.clock[one], self.clock[other]):
                yield (self.clock[one] - self.clock[other]) * (self.model[one] - self.model[other]) > 0


def modelled(profile: Profile, found: Measurement) -> float | None:
    """How many times as fast as v0 by the model, over the steps that are scored."""
    sheet, groups = for_runner(profile.baseline.runner), primary_groups(profile.suite, Scope.GENERAL)
    before, after = (
        {one.case: one.timing.median_us for one in estimated(arm, profile.suite, sheet).cases if one.timing is not None}
        for arm in (profile.baseline, found)
    )
    if not {case.id for group in groups for case in group.cases} <= before.keys() & after.keys():
        return None
    gains = [sum(before[c.id] for c in group.cases) / sum(after[c.id] for c in group.cases) for group in groups]
    return geometric_mean(gains, [group.weight for group in groups])


def judged_of(one: Any) -> Judged | None:
    profile, timed = one.campaign.profile, READER._timed(one.campaign)
    clock, model = {0: 1.0}, {0: 1.0}
    for played in one.campaign.rounds:
        number = played.variant.number
        told = modelled(profile, played.measurement) if number in timed else None
        if told is not None:
            clock[number], model[number] = READER._speed(one.campaign, timed[number]).ratio, told
    return Judged(one.kernel, one.folder, clock, model) if len(clock) > 2 else None


def all_judged() -> list[Judged]:
    """Of each op the last such campaign."""
    found = {one.kernel: judged for one in READER.read_all(CAMPAIGNS) if (judged := judged_of(one)) is not None}
    return list(found.values())


def judged_row(one: Judged) -> list[object]:
    arms = ", ".join(f"v{n} {one.clock[n]:.3g}x ({one.model[n]:.3g}x)" for n in one.clock if n)
    pairs = list(one.pairs())
    link = f"[{one.op}](../campaigns/{one.folder}/journal.jsonl)"
    return [link, arms, len(pairs), sum(pairs), f"v{one.fastest}: {one.place} of {len(one.clock)}"]


JUDGED = (
    "Campaign",
    "By the clock (by the model)",
    "Pairs more than 5 % apart",
    "In the same order",
    "The model's place of the fastest",
)


def made_of_variants() -> str:
    every = all_judged()
    pairs = [same for one in every for same in one.pairs()]
    upper = f"in its upper half in {sum(one.is_in_upper_half for one in every)} of {len(every)}"
    share = f"{sum(pairs)} ({100 * sum(pairs) / len(pairs):.0f} %)" if pairs else "0"
    rows = [*map(judged_row, every), ["all", "", len(pairs), share, upper]]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in [JUDGED, ["---"] * len(JUDGED), *rows])


HEAD = (
    *("Kernel", "Campaign", "Pairs more than 5 % apart", "In the same order", "Share"),
    *("The model's place of the fastest, case by case", "In its upper half"),
)


def made() -> str:
    every = all_seen()
    rows = [row(seen) for seen in every]
    pairs = [same for seen in every for same in seen.pairs()]
    places = [place for seen in every for place in seen.places()]
    upper = sum(2 * place <= many + 1 for _, place, many in places)
    total = f"{100 * sum(pairs) / len(pairs):.0f} %" if pairs else "-"
    rows.append(["all", "", len(pairs), sum(pairs), total, "", f"{upper} of {len(places)}"])
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in [HEAD, ["---"] * len(HEAD), *rows])


def main() -> None:
    page = HERE / "README.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    tables = f"{made()}\n## Whole variants\n\n{made_of_variants()}"
    page.write_text(f"{before}{BEGIN}\n{tables}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
