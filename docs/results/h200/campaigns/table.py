"""Writes the tables of the README beside it, from each journal.jsonl below it; or those of another such folder.

Run it from the root of the repository, after a campaign was added:

    python docs/results/h200/campaigns/table.py
    python docs/results/h200/campaigns/table.py docs/results/h100/campaigns

A journal is folded as the bot folds it, and every figure is made again from the blocks that were read.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bot.analysis.measured import CaseReading, is_paired, over_all
from bot.analysis.paired import FEWEST_PROCESSES, Estimate
from bot.analysis.rivals import rivalry
from bot.analysis.roofline import case_percent
from bot.analysis.stats import case_readings, geometric_mean
from bot.campaign.machine import fold
from bot.cli.show import id_of
from bot.errors import CorruptRecord
from bot.hardware.catalog import for_runner
from bot.ledger import journal
from bot.ledger.layout import JOURNAL
from bot.ledger.slim import HASH, is_slim
from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.commands import Scope
from bot.model.facts import JournalLine, Profiled, RoundOpened, SearchEnded, VariantMeasured
from bot.model.grouping import Group, primary_groups
from bot.model.ids import VariantNumber, variant_name
from bot.model.measurement import CaseResult, Timing
from bot.model.race import Racer
from bot.render import labels, numbers, steps, terminal, times, view
from bot.render import machines as two_machines
from bot.render.escape import Trusted, code, text
from bot.render.rival_rows import WHO
from bot.targets.liger import stem
from bot.targets.sizes import SIZES

HERE = Path(__file__).resolve().parent
CALIBRATION = HERE.parent / "calibration/README.md"
BEGIN, END = "<!-- made by table.py -->\n", "<!-- end -->\n"
NONE = Trusted("-")
REPORT = "report.md"
PAUSE_S = 600.0
"""A command has ten minutes on these machines. Where no line was written for longer, nobody worked for a while."""
SUMMARY = (
    *("Kernel", "How it ended", "Figures are of", "Variants", "A minute", "Forward + backward", "Forward", "Backward"),
    *("Full", "Rivals", "Slowest case, of its roof", f"{times.HOST_HEAD}, where it grew most"),
    *("From first to last line", "Read on"),
)
KNOWN_BEFORE = frozenset((
    "rms_norm", "layer_norm", "fused_add_rms_norm", "poly_norm", "dyt", "softmax", "swiglu", "geglu", "relu_squared",
    "rope", "cross_entropy", "kl_div", "jsd", "tvd", "group_norm",
))  # fmt: skip
"""Kernels whose stock times on an H200 had been read by hand before the engine was there."""
UNJUDGED = ("tiled_mlp",)
"""Kernels of the library that cannot be judged; `docs/kernels.md` says why."""
TOOLS = ("Kernel", "compute-sanitizer", "The winner under torch.compile")
CASES = ("Kernel", "Case", "v0, us", "Variant", "Its time, us", "Speed-up", "Of the roof", times.HOST_HEAD)


def grid(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Without padding: a campaign more does not move the others. Cells are escaped unless they are Trusted."""
    lines = [map(Trusted, head), [Trusted("---")] * len(head), *rows]
    return "".join(f"| {' | '.join(text(cell) for cell in line)} |\n" for line in lines)


def intervals(folder: Path) -> str:
    """What an interval is worth, said on each page that has some."""
    calibration = Path(os.path.relpath(CALIBRATION, folder)).as_posix()
    return (
        f"An interval holds the truth less often than its 95 % say: in the [calibrations]({calibration}) 78 of 100 "
        "did, at a median error of 0.05 points.\n"
    )


# Reading a journal


def _without_texts(node: dict[str, Any]) -> dict[str, Any]:
    """A file whose text was left out has its hash for a text: which ones are alike can still be seen."""
    return {"path": node["path"], "text": node[HASH]} if {"path", HASH} <= set(node) else node


def _paired_up(lines: tuple[JournalLine, ...]) -> tuple[JournalLine, ...]:
    """What was measured is named by the digest of whole texts; here it is that of the variant with its number.
    That the two agree is for `kernelwright rebuild` to say, which has the texts."""
    known: dict[VariantNumber, str] = {}
    found = []
    for line in lines:
        fact = line.fact
        if isinstance(fact, RoundOpened):
            known[fact.variant.number] = fact.variant.digest
        if isinstance(fact, VariantMeasured) and fact.number in known:
            measured = fact.measurement.model_copy(update={"source": known[fact.number]})
            line = line.model_copy(update={"fact": fact.model_copy(update={"measurement": measured})})
        found.append(line)
    return tuple(found)


def read_lines(path: Path) -> tuple[JournalLine, ...]:
    """Every whole line: one that a killed process left unfinished does not count."""
    what = f"{path.parent.name}/{path.name}"
    content = journal.text_of(path.read_bytes(), what)
    *rows, _unfinished = content.split("\n")
    whole = [json.dumps(json.loads(row, object_hook=_without_texts)) if is_slim(row) else row for row in rows]
    lines = journal.parse("".join(f"{row}\n" for row in whole), what)
    return _paired_up(lines) if is_slim(content) else lines


@dataclass(frozen=True, slots=True)
class Read:
    """One campaign, and the variant that its figures are of; v0 where no variant was timed."""

    folder: str
    lines: tuple[JournalLine, ...]
    campaign: Campaign
    number: VariantNumber
    readings: Mapping[str, CaseReading]

    @property
    def kernel(self) -> str:
        return view.kernel(self.campaign)

    @property
    def is_over(self) -> bool:
        """Whether all is known that it can give. Nobody has to have said yes to it; a machine that broke, or a person
        who stopped it, says nothing of the kernel."""
        if self.campaign.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            return False
        return self.campaign.outcome is not None or self.campaign.finalization is not None

    @property
    def is_judged(self) -> bool:
        """Whether its search came to its end, the last questions to its winner and rivals included: what the library's
        own tests say of that is another matter."""
        return self.is_over or (self.campaign.stopped is not None and self.campaign.outcome is None)


def _speed(campaign: Campaign, readings: Mapping[str, CaseReading]) -> Estimate:
    assert campaign.profile is not None
    return over_all(primary_groups(campaign.profile.suite, Scope.GENERAL), readings)


def _timed(campaign: Campaign) -> dict[VariantNumber, dict[str, CaseReading]]:
    """The readings of each variant that a GPU timed in every case."""
    found = {}
    for played in campaign.rounds:
        if campaign.profile and played.measurement and played.verdict and played.verdict.score:
            readings = case_readings(played.measurement, campaign.profile.suite)
            if readings:
                found[played.variant.number] = readings
    return found


def _best(campaign: Campaign, found: Mapping[VariantNumber, dict[str, CaseReading]]) -> VariantNumber:
    """The winner, the incumbent, or the fastest of the others; what fresh processes read goes first."""

    def rank(number: VariantNumber) -> tuple[bool, bool, float]:
        readings = found[number]
        confirmed = all(reading.is_confirmed for reading in readings.values())
        return number == view.best(campaign), confirmed, _speed(campaign, readings).mean

    return max(found, key=rank, default=0)


def read(path: Path, folder: Path) -> Read:
    lines = read_lines(path)
    campaign = fold(Campaign(id=id_of(lines)), (line.fact for line in lines))
    if campaign.command is None:
        raise CorruptRecord(f"{path}: no campaign was asked for in it")
    found = _timed(campaign)
    number = _best(campaign, found)
    return Read(path.parent.relative_to(folder).as_posix(), lines, campaign, number, found.get(number, {}))


def read_all(folder: Path) -> list[Read]:
    """By kernel, and of each the earliest first."""
    found = [read(path, folder) for path in sorted(folder.rglob(JOURNAL))]
    return sorted(found, key=lambda one: (one.kernel, one.lines[0].at))


# What a row says


def named(one: Read) -> str:
    """A kernel's second campaign by its folder as well."""
    return one.kernel if one.folder == one.kernel else f"{one.kernel} ({one.folder})"


def linked(one: Read, folder: Path) -> Trusted:
    report = f"{one.folder}/{REPORT}"
    target = report if (folder / report).is_file() else f"{one.folder}/{JOURNAL}"
    return Trusted(f"[{text(named(one))}]({target})")


def _tests(campaign: Campaign) -> str:
    done = campaign.finalization
    if done is None:
        return "the library's tests were not run" if campaign.winner else ""
    anyhow = ", as they do on the untouched kernel" if done.failed_before else ""
    if done.untested:
        return "**all of the library's tests were skipped**"
    passed = bool(done.tests) and all(run.passed for run in done.tests)
    return "the library's tests passed" if passed else f"the library's tests failed{anyhow}"


def ended(campaign: Campaign) -> Trusted:
    if campaign.stage is Stage.ENDED and campaign.outcome is not None:
        how = text(steps.ended(campaign))
    else:
        how = Trusted(f"**not ended**: {text(terminal.DOING[campaign.stage])}")
    reason = code(campaign.reason) if campaign.reason else ""
    detail = text(campaign.detail, 140) if campaign.failed else ""
    searched = f"search: {text(labels.STOPPED[campaign.stopped])}" if campaign.stopped else ""
    unfit = numbers.many(len(campaign.ignored), "line that did not fit", "lines that did not fit")
    parts = (how, reason, detail, _tests(campaign), searched, unfit if campaign.ignored else "")
    return Trusted("; ".join(part for part in parts if part))


def figures_of(one: Read) -> str:
    """Which variant, and what became of it: the best of what was refused is no winner."""
    played = one.campaign.round_of(one.number)
    if played is None or played.verdict is None:
        return "no variant was timed"
    name = variant_name(one.number)
    if one.number == one.campaign.winner:
        return f"{name}, the winner"
    what = "the best so far" if view.is_accepted(played) else "the best of those timed, not a winner"
    return f"{name}, {labels.DECISIONS[played.verdict.decision]}: {what}"


def counted(campaign: Campaign) -> str:
    found = [played.measurement for played in campaign.rounds if played.measurement is not None]
    accepted = sum(view.is_accepted(played) for played in campaign.rounds)
    return f"{len(campaign.rounds)} tried, {sum(map(is_paired, found))} measured, {accepted} accepted"


def _without_a_round(one: Read, home: Sequence[Racer]) -> set[str]:
    """Ideas that raced and had no round; one that raced twice counts once, as it may be the same source."""
    tried = {played.variant.hypothesis.technique for played in one.campaign.rounds}
    return {racer.idea for racer in home if racer.idea} - tried


def gaps(lines: Sequence[JournalLine]) -> list[float]:
    """Seconds from each line to the next."""
    at = [datetime.fromisoformat(line.at) for line in lines]
    return [(after - before).total_seconds() for before, after in pairwise(at)]


def pace(one: Read) -> str:
    """Sources a minute that were new, from the profile to the end of the search: those that had a round, and those that
    came home in a race. Nobody knows it of a search that went on elsewhere: what was done again there has no line."""
    begun = next((i for i, line in enumerate(one.lines) if isinstance(line.fact, Profiled)), 0)
    over = next((i for i, line in enumerate(one.lines) if isinstance(line.fact, SearchEnded)), len(one.lines) - 1)
    search = gaps(one.lines[begun : over + 1])
    home = [racer for race in one.campaign.races for racer in race.others if not racer.left]
    raced = sum(not racer.idea for racer in home) + len(_without_a_round(one, home))
    judged = sum(played.verdict is not None for played in one.campaign.rounds)
    spent = sum(search) / 60
    known = raced + judged and spent > 0 and max(search) <= PAUSE_S
    return f"{(raced + judged) / spent:.1f}" if known else NONE


def paces(found: Sequence[Read]) -> str:
    """How many new sources a minute came home in races, and had a round or came home over whole searches."""
    raced = [
        (60 * sum(not racer.left for racer in race.others) / race.seconds, named(one))
        for one in found
        for race in one.campaign.races
        if race.seconds
    ]
    whole = [float(told) for told in map(pace, found) if told != NONE]
    if not raced or not whole:
        return ""
    most, whose = max(raced)
    return (
        f"New sources a minute, at the median: {median(rate for rate, _ in raced):.0f} in {len(raced)} races (at most "
        f"{most:.0f}, {whose}), and {median(whole):.1f} over {len(whole)} whole searches, whose rounds read one each.\n"
    )


def left_out(found: Sequence[Read]) -> str:
    """Of what was to race, how much did not come home, and why."""
    entered = [racer for one in found for race in one.campaign.races for racer in race.others]
    gone = [racer for racer in entered if racer.left]
    if not entered:
        return ""
    alike = sum(racer.is_nothing_new for racer in gone)
    share = f"{len(gone)} ({100 * len(gone) / len(entered):.0f} %)"
    return (
        f"Of {numbers.many(len(entered), 'version')} that were to race {share} did not come home: {alike} launch what "
        f"another does, so its time is known, {len(gone) - alike} failed, were wrong or were disturbed. Where a GPU "
        "times, the model keeps none from a race.\n"
    )


def rivals(one: Read) -> str:
    """How many times as fast as the variant that the figures are of, or as v0 where none was timed."""
    profile, number = one.campaign.profile, one.number
    found = view.measurement_of(one.campaign, number) if number else None
    told = rivalry(profile, number, found, one.campaign.rivals) if profile is not None else None
    if told is None:
        return "not played"
    over = {tally.name: tally.over_best if told.best else tally.over_v0 for tally in told.tallies}
    known = [f"{WHO[name]} {numbers.ratio(ratio)}" for name, ratio in over.items() if ratio]
    single = [f"{WHO[name]} in single passes alone" for name, ratio in over.items() if not ratio]
    said = [f"{', '.join(known)} as fast as {variant_name(told.best)}"] if known else []
    return "; ".join([*said, *single])


def gain(found: Estimate) -> str:
    low, high = found.interval()
    if math.isinf(high):
        return f"{numbers.ratio(found.ratio)} (no interval: fewer than {FEWEST_PROCESSES} fresh processes)"
    return f"{numbers.ratio(found.ratio)} [{numbers.ratio(math.exp(low))}, {numbers.ratio(math.exp(high))}]"


def _passes(one: Read, direction: str) -> str:
    """The geometric mean over the cases of one pass."""
    cases = one.campaign.profile.suite.cases if one.campaign.profile else ()
    groups = [Group((case,)) for case in cases if case.direction == direction]
    return gain(over_all(groups, one.readings)) if groups and one.readings else NONE


def _results(one: Read) -> dict[str, CaseResult]:
    found = view.measurement_of(one.campaign, one.number)
    return {result.case: result for result in found.cases} if found else {}


def _before(one: Read, result: CaseResult) -> float | None:
    """v0 in the same blocks, or by itself where no variant was timed."""
    if one.readings:
        return one.readings[result.case].before_us
    return result.timing.median_us if result.timing and not view.is_static(one.campaign) else None


def _share(one: Read, result: CaseResult, us: float | None) -> str:
    """Of both arms against one roof: the one that was read beside their blocks."""
    runner = view.runner(one.campaign)
    if us is None or runner is None:
        return numbers.UNKNOWN
    at = result.model_copy(update={"timing": Timing(median_us=us, timer="replay")})
    return numbers.percent(case_percent(at, for_runner(runner)))


def roof(one: Read, result: CaseResult) -> str:
    before = _share(one, result, _before(one, result))
    return f"{before} to {_share(one, result, one.readings[result.case].after_us)}" if one.readings else before


def slowest(one: Read) -> str:
    """Of the case in which v0 takes longest."""
    found = [result for result in _results(one).values() if _before(one, result) is not None]
    if not found:
        return NONE
    result = max(found, key=lambda result: _before(one, result) or 0.0)
    return f"{view.case_names(one.campaign)[result.case]}: {roof(one, result)}"


def wrapper(one: Read) -> str:
    """Of the case in which a call costs the caller most more than it did."""
    more = {case: result.paired.host_us[1] for case, result in _results(one).items()
            if result.paired is not None and result.paired.host_us is not None}  # fmt: skip
    if not more:
        return "not read"
    case = max(more, key=lambda name: more[name])
    told = times.on_the_host(view.measurement_of(one.campaign, one.number))[case]
    return f"{view.case_names(one.campaign)[case]}: {told}"


def _tested_s(one: Read) -> float:
    done = one.campaign.finalization
    scripts = [one.run for one in done.scripts] if done else []
    runs = (*done.tests, *scripts, *([done.untouched] if done.untouched else [])) if done else ()
    return sum(run.seconds for run in runs)


def _busy(one: Read) -> list[tuple[datetime, datetime]]:
    """When it worked: from line to line, but where none was written for long."""
    at = [datetime.fromisoformat(line.at) for line in _until_judged(one)]
    return [(before, after) for before, after in pairwise(at) if (after - before).total_seconds() <= PAUSE_S]


def _together_s(spans: Sequence[tuple[datetime, datetime]]) -> float:
    """How long any of them lasted: a campaign that was cut waits for the next of its lane."""
    total, until = 0.0, datetime.min.replace(tzinfo=UTC)
    for begun, ended in sorted(spans):
        total += max(0.0, (ended - max(begun, until)).total_seconds())
        until = max(until, ended)
    return total


def _of_gpus_s(found: Sequence[Read]) -> float:
    """What all of them took of the GPUs that they ran on."""
    of_gpu: dict[str, list[tuple[datetime, datetime]]] = {}
    for one in found:
        runner = view.runner(one.campaign)
        of_gpu.setdefault(runner.gpu_uuid if runner else "", []).extend(_busy(one))
    return sum(map(_together_s, of_gpu.values()))


def _until_judged(one: Read) -> Sequence[JournalLine]:
    """All of its lines; of one that was stopped in the library's tests those before them."""
    if one.is_over:
        return one.lines
    ended = [number for number, line in enumerate(one.lines) if isinstance(line.fact, SearchEnded)]
    return one.lines[: ended[-1] + 1]


def counted_ones(found: Sequence[Read]) -> list[Read]:
    """Of each kernel the last that came to its end; where none did, the last whose search did."""
    judged = {one.kernel: one for one in found if one.is_judged}
    return list((judged | {one.kernel: one for one in found if one.is_over}).values())


def cost(found: Sequence[Read]) -> str:
    """What the campaigns that count took of a GPU, whatever was done twice for it."""
    counting = counted_ones(found)
    tested = [_tested_s(one) for one in counting]
    spent = [_together_s(_busy(one)) for one in counting]
    judged = [all_of - tests for all_of, tests in zip(spent, tested, strict=True)]
    if not judged:
        return ""
    each, tests = numbers.seconds(median(judged)), f"{sum(tested) / 60:.0f} min"
    return (
        f"Profile, search and judging of the {len(judged)} that count took "
        f"{(_of_gpus_s(counting) - sum(tested)) / 60:.0f} min of a GPU, the "
        f"median of them {each}; the library's tests took {tests} beside.\n"
    )


def took(one: Read) -> str:
    spent = gaps(one.lines)
    races = sum(race.seconds for race in one.campaign.races)
    pauses = sum(gap for gap in spent if gap > PAUSE_S)
    parts = {"pauses": pauses, "races": races, "the library's tests": _tested_s(one)}
    known = ", ".join(f"{what} {numbers.seconds(part)}" for what, part in parts.items() if part)
    return f"{numbers.seconds(sum(spent))}{f', of which {known}' if known else ''}"


def summary_row(one: Read, folder: Path) -> list[object]:
    return [
        linked(one, folder), ended(one.campaign), figures_of(one), counted(one.campaign), pace(one),
        gain(_speed(one.campaign, one.readings)) if one.readings else NONE,
        *(_passes(one, direction) for direction in times.PASS_ORDER),
        rivals(one), slowest(one), wrapper(one), took(one), one.lines[0].at[:10],
    ]  # fmt: skip


def case_rows(one: Read) -> list[list[object]]:
    names, host = view.case_names(one.campaign), times.on_the_host(view.measurement_of(one.campaign, one.number))
    rows: list[list[object]] = []
    for case, result in _results(one).items():
        found = one.readings.get(case)
        after: list[object] = [NONE] * 3
        if found is not None:
            after = [variant_name(one.number), times.plain_us(found.after_us), gain(found.estimate)]
        before = times.plain_us(_before(one, result))
        rows.append([named(one), names[case], before, *after, roof(one, result), host.get(case, NONE)])
    return rows


# Over all kernels


def gave(campaigns: Sequence[Read]) -> float | None:
    """Of one kernel, its last campaign that came to its end: the winner's speed-up if the library's own tests and style
    check passed on it. None where there is nothing to give."""
    last = next((one for one in reversed(campaigns) if one.is_over), None)
    if last is None or not last.readings:
        return None
    done = last.campaign.finalization
    return _speed(last.campaign, last.readings).ratio if done is not None and done.passed else None


def untested(campaigns: Sequence[Read]) -> bool:
    """Whether all tests of the winner that counts were skipped."""
    last = next((one for one in reversed(campaigns) if one.is_over), None)
    done = last.campaign.finalization if last is not None else None
    return done is not None and done.passed and done.untested


def _mean(speeds: Collection[float | None]) -> float:
    return geometric_mean([speed if speed is not None else 1.0 for speed in speeds])


def as_the_library_counts(speeds: Mapping[str, float | None]) -> dict[str, float]:
    """By kernel of the library: several ops of one file are one kernel, and who cannot be judged is as it was."""
    of_file: dict[str, list[float | None]] = {}
    for op, speed in speeds.items():
        of_file.setdefault(stem(op), []).append(speed)
    return {file: _mean(ops) for file, ops in of_file.items()} | dict.fromkeys(UNJUDGED, 1.0)


def over_the_library(speeds: Mapping[str, float | None]) -> str:
    """Said where every op has its figure: the mean of a part of them would not be the library's."""
    if set(speeds) != set(SIZES):
        return ""
    kernels = as_the_library_counts(speeds)
    judged = {kernel: speed for kernel, speed in kernels.items() if kernel not in UNJUDGED}
    several = " and ".join(sorted({stem(op) for op in speeds if stem(op) != op}))
    without = "it" if len(UNJUDGED) == 1 else "those"
    return (
        f" Over the {numbers.many(len(kernels), 'kernel')} of the library, the ops of {several} as one of them and "
        f"{' and '.join(UNJUDGED)}, which cannot be judged, as 1.00x: **{numbers.ratio(_mean(kernels.values()))}**; "
        f"over the {len(judged)} without {without} **{numbers.ratio(_mean(judged.values()))}**."
    )


def _winners(of_kernel: Mapping[str, Sequence[Read]]) -> str:
    """Tests that were skipped are none that were passed."""
    won = [kernel for kernel, campaigns in of_kernel.items() if gave(campaigns) is not None]
    skipped = [kernel for kernel in won if untested(of_kernel[kernel])]
    passed = f"{len(won) - len(skipped)} with a winner that passed the library's own tests and style check"
    return f"{passed}, {len(skipped)} whose tests were all skipped ({', '.join(skipped)})" if skipped else passed


def as_judged(found: Sequence[Read]) -> str:
    """What the searches found, where some campaigns were stopped before the library's tests of it were over."""
    counting = counted_ones(found)
    stopped = sorted(text(named(one)) for one in counting if not one.is_over)
    speeds = {
        one.kernel: _speed(one.campaign, one.readings).ratio if view.best(one.campaign) else None for one in counting
    }
    tested = [gave([one]) for one in counting]
    nothing, passed = list(speeds.values()).count(None), len(tested) - tested.count(None)
    return (
        f"Geometric mean of forward + backward over {len(speeds)} of the {numbers.many(len(SIZES), 'op')} that can be "
        f"scored, of the best that each search found: **{numbers.ratio(_mean(speeds.values()))}**, those in which it "
        f"found nothing, {nothing}, as 1.00x.{over_the_library(speeds)} The library's own tests passed here for "
        f"{passed} of these winners; {numbers.many(len(stopped), 'campaign')} stopped before them "
        f"({', '.join(stopped)}). What is not tested here counted as 1.00x, the mean would be "
        f"{numbers.ratio(_mean(tested))}. Of several "
        "campaigns of a kernel the last whose search came to its end counts.\n"
    )


def over_kernels(found: Sequence[Read]) -> str:
    if any(not one.is_over for one in counted_ones(found)):
        return as_judged(found)
    of_kernel = {one.kernel: [other for other in found if other.kernel == one.kernel] for one in found}
    speeds = {kernel: gave(campaigns) for kernel, campaigns in of_kernel.items()}
    if not speeds:
        return "No campaign was measured yet.\n"
    known = {kernel: speed for kernel, speed in speeds.items() if kernel in KNOWN_BEFORE}
    there = f" Over {len(known)} of the {len(KNOWN_BEFORE)} whose stock times were known before: "
    return (
        f"Geometric mean of forward + backward over {len(speeds)} of the {numbers.many(len(SIZES), 'op')} that "
        f"can be scored: **{numbers.ratio(_mean(speeds.values()))}**.{over_the_library(speeds)}{there if known else ''}"
        f"{f'**{numbers.ratio(_mean(known.values()))}**. ' if known else ' '}"
        f"{_winners(of_kernel)}, {list(speeds.values()).count(None)} without one as 1.00x{_unended(of_kernel)}. "
        "Of several campaigns of a kernel the last that came to its end counts.\n"
    )


def _unended(of_kernel: Mapping[str, Sequence[Read]]) -> str:
    """Those that count as they were because nobody knows better."""
    names = [kernel for kernel, campaigns in of_kernel.items() if not any(one.is_over for one in campaigns)]
    return f" (no campaign of {' or '.join(names)} came to its end)" if names else ""


def machines(found: Sequence[Read]) -> str:
    """Where the numbers were read; two machines are two lines."""
    known: dict[str, list[str]] = {}
    for one in found:
        runner = view.runner(one.campaign)
        if runner is not None:
            parts = (runner.gpu_name or "no GPU", f"driver {runner.driver}", f"torch {runner.torch}",
                     f"Triton {runner.triton}", f"Python {runner.python}", runner.sandbox)  # fmt: skip
            known.setdefault(text(", ".join(parts)), []).append(one.folder)
    rows = [f"{machine}: {numbers.many(len(names), 'campaign')}" for machine, names in known.items()]
    moved = [(one, two_machines.sentence(one.campaign)) for one in found]
    rows += [f"{text(named(one))}: {text(sentence)}" for one, sentence in moved if sentence]
    return "".join(f"- {row}\n" for row in rows)


def tools(found: Sequence[Read], folder: Path) -> str:
    """What was said of each winner that counts by those who look at it and time nothing; nobody asked of old ones."""
    last = {one.kernel: one for one in found if one.is_over}
    rows = []
    for _, one in sorted(last.items()):
        told = view.measurement_of(one.campaign, one.number) if gave([one]) is not None else None
        if told is not None:
            looked = (told.sanitized, told.under_compile)
            rows.append([linked(one, folder), *(said.said if said is not None else "not asked" for said in looked)])
    return f"## What tools said of the winners that count\n\n{grid(TOOLS, rows)}" if rows else ""


def page(folder: Path) -> str:
    found = read_all(folder)
    return "\n".join((
        over_kernels(found), cost(found), paces(found), left_out(found),
        "## By campaign", "", intervals(folder), grid(SUMMARY, [summary_row(one, folder) for one in found]),
        machines(found), tools(found, folder),
        "## By case", "", grid(CASES, [row for one in found for row in case_rows(one)]),
    ))  # fmt: skip


def written(old: str, made: str) -> str:
    before, rest = old.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def main() -> None:
    folder = Path(sys.argv[1]).resolve() if sys.argv[1:] else HERE
    readme = folder / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8"), page(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
