"""The rows of a profile, the same for comments, records and the terminal: plain cells, escaped where they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bot.model.campaign import Campaign, Profile
from bot.model.diagnosis import CaseRoof, Ceiling, Clue, Strategy
from bot.model.measurement import Evidence, Passport
from bot.model.profiling import Counters, KernelCounters, Timeline, Traffic
from bot.render import gains, labels, numbers
from bot.render.numbers import UNKNOWN

Row = Sequence[object]
BASES = {
    "counters": "counters of the GPU",
    "timeline": "a timeline of the GPU",
    "timed": "timed",
    "compiled": "read from the compiled kernel",
    "counted": "counted",
    "model": "heuristic",
}
TIERS = {1: "element-wise", 2: "with a reduction", 3: "fused, in several passes"}
OTHER = "Nothing of ours"


def mark(profile: Profile) -> str:
    return numbers.ESTIMATED if profile.baseline.runner.evidence is Evidence.STATIC else ""


def head(words: str, profile: Profile) -> str:
    return f"{words} {mark(profile)}".strip()


def count(value: float) -> str:
    """Operations, in the unit people use."""
    for size, unit in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} FLOP"


def intensity(value: float | None) -> str:
    return f"{value:.3g}" if value is not None else UNKNOWN


def tier(profile: Profile) -> str:
    number = profile.diagnosis.tier
    return f"{number}, {TIERS[number]}" if number else UNKNOWN


def dispatch(profile: Profile) -> str:
    """What the library itself would run on that machine, where that is not what was judged; empty elsewhere."""
    other = [one for one in profile.dispatch if one.by_itself != one.judged]
    if not other:
        return ""
    by_itself = " and ".join(dict.fromkeys(one.by_itself for one in other))
    judged = " and ".join(dict.fromkeys(one.judged for one in other))
    return f"{profile.site.kernel} would run {by_itself} here; judged is {judged}"


def observations(profile: Profile) -> list[str]:
    """The slowest pass, the largest case, and how time grows with bytes (L-21)."""
    names = labels.case_names(profile.suite)
    timed = [(one, one.timing.median_us) for one in profile.baseline.cases if one.timing is not None]
    if not timed:
        return []
    slowest = max(timed, key=lambda pair: pair[1])
    moving = [pair for pair in timed if pair[0].minimum_bytes > 0] or timed
    largest = max(moving, key=lambda pair: (pair[0].minimum_bytes, pair[1]))
    smallest = min(moving, key=lambda pair: (pair[0].minimum_bytes, -pair[1]))
    found = [
        f"slowest: {names.get(slowest[0].case, slowest[0].case)}, {head(numbers.duration(slowest[1]), profile)}",
        f"largest: {names.get(largest[0].case, largest[0].case)}, at least {numbers.size(largest[0].minimum_bytes)}",
    ]
    if largest[0].minimum_bytes > smallest[0].minimum_bytes > 0:
        more = numbers.ratio(largest[0].minimum_bytes / smallest[0].minimum_bytes)
        longer = head(numbers.ratio(largest[1] / smallest[1]), profile)
        found.append(f"from the smallest to the largest: {more} the bytes, {longer} the time")
    return found


NOTHING, NO_SHARE = "nothing", "nothing to move"
ROOFLINE = ("Case", "Work", "Least bytes", "FLOP/byte", "Bound by", "Roof", "Time", "Of the roof")


def rooflines(profile: Profile) -> list[Row]:
    """Each case against the ceiling that binds it. What has nothing to move has no such ceiling."""
    names, idle = labels.case_names(profile.suite), _idle(profile)
    us = {case.case: case.timing.median_us if case.timing else None for case in profile.baseline.cases}
    return [
        [names.get(roof.case, roof.case), "", NOTHING, "", "", "none", numbers.duration(us.get(roof.case)), NO_SHARE]
        if roof.case in idle
        else [
            names.get(roof.case, roof.case),
            count(roof.flops) if roof.flops else UNKNOWN,
            numbers.size(roof.minimum_bytes),
            intensity(roof.intensity),
            roof.bound or UNKNOWN,
            numbers.duration(roof.roof_us),
            numbers.duration(us.get(roof.case)),
            share(roof),
        ]
        for roof in profile.diagnosis.roofs
    ]


def _idle(profile: Profile) -> set[str]:
    """Cases that have nothing to move, as the gradient of the loss is 1: none is counted, or v0 itself shows that none
    of what is counted has to be, as in profiles from when the bytes of the gradient still were."""
    ones = {case.id for case in profile.suite.cases if case.grad == "one"}
    roofs = profile.diagnosis.roofs
    return {roof.case for roof in roofs if roof.case in ones and (roof.minimum_bytes <= 0 or roof.reason is not None)}


def share(roof: CaseRoof) -> str:
    """Never a share that cannot be: its code stands there instead."""
    return f"error: {roof.reason}" if roof.reason is not None else numbers.percent(roof.percent)


def says(ceiling: Ceiling) -> str:
    """A ceiling with its source, as every number of the hardware is written."""
    value = f"{ceiling.value:,.0f}" if ceiling.value >= 1000 else f"{ceiling.value:.4g}"
    return f"{ceiling.what} ({ceiling.kind}): {value} {ceiling.unit} <- {ceiling.source}"


def ceilings(profile: Profile) -> list[str]:
    """Each once: the fastest of the measured ones, and what datasheets say."""
    found: dict[tuple[str, str, str], Ceiling] = {}
    for roof in profile.diagnosis.roofs:
        for one in (roof.ceiling, roof.peak):
            if one is None:
                continue
            key = (one.what, one.kind, "" if one.kind == "measured" else one.source)
            if key not in found or one.value > found[key].value:
                found[key] = one
    return [says(one) for one in found.values()]


def ridge(profile: Profile) -> str:
    """Where bandwidth and peak meet: one of the vector units, another of the tensor cores."""
    known: dict[float, float] = {}
    for roof in profile.diagnosis.roofs:
        if roof.ridge is not None and roof.peak is not None:
            known[roof.peak.value] = min(roof.ridge, known.get(roof.peak.value, math.inf))
    if not known:
        return f"ridge: {UNKNOWN}: no peak of arithmetic is in the registry for this GPU"
    each = [f"{known[peak]:.3g} FLOP a byte{f' at {peak:.4g} TFLOP/s' * (len(known) > 1)}" for peak in sorted(known)]
    return f"ridge: {', '.join(each)}; below it memory is the limit"


def _says_error(roof: CaseRoof) -> str:
    return f"{roof.case}: {roof.detail} ({roof.reason})"


def errors(profile: Profile) -> list[str]:
    idle = _idle(profile)
    return [_says_error(roof) for roof in profile.diagnosis.roofs if roof.reason and roof.case not in idle]


def clues(profile: Profile) -> list[Clue]:
    """Without what was once held against cases that have nothing to move."""
    idle = _idle(profile)
    dropped = {_says_error(roof) for roof in profile.diagnosis.roofs if roof.case in idle}
    return [clue for clue in profile.diagnosis.clues if clue.evidence not in dropped]


def told(clue: Clue) -> tuple[str, str, str, str]:
    return clue.evidence, clue.inference, clue.action, f"{clue.confidence}, {BASES[clue.basis]}"


PLAN = ("Try", "Because", "Technique", "Gives at most (estimated)")


def plan(profile: Profile) -> list[Row]:
    return [
        [one.name, one.because, ", ".join(one.techniques), numbers.ratio(one.at_most) if one.at_most else UNKNOWN]
        for one in profile.diagnosis.plan
    ]


def unfit(profile: Profile) -> str:
    """What is not worth a round here, so that nobody wonders whether it was forgotten."""
    diagnosis = profile.diagnosis
    if not diagnosis.unfit:
        return ""
    if not diagnosis.strategies:
        return "No idea that is known here finds anything to change in this source."
    return f"Nothing to change in this source for {', '.join(diagnosis.unfit)}."


def came_of(campaign: Campaign) -> list[Row]:
    """What was tried of the plan, with what it could have given and what it gave. Wrong ones are told as well."""
    profile = campaign.profile
    ahead = {one.name: one for one in profile.diagnosis.plan} if profile else {}
    rows: list[Row] = []
    for played in campaign.rounds:
        name, verdict = played.variant.hypothesis.technique, played.verdict
        general = name.partition(":")[0]  # the plan does not tell an op's kernels apart
        planned = ahead.get(general)
        rows.append([
            f"v{played.variant.number}",
            name,
            _limit(planned) if planned else _unplanned(profile, general),
            numbers.speed_alone(verdict.score if verdict else None),
            gains.over_best(campaign, played) or UNKNOWN,
            labels.DECISIONS[verdict.decision] if verdict else "being judged",
        ])  # fmt: skip
    return rows


def _limit(planned: Strategy) -> str:
    return numbers.ratio(planned.at_most) if planned.at_most else UNKNOWN


def _unplanned(profile: Profile | None, name: str) -> str:
    """Some ideas find something to change only in what another has made."""
    return "fits since another" if profile and name in profile.diagnosis.unfit else "not planned"


CAME = ("#", "Technique", "At most (estimated)", "Gave, over v0", "Against the best before", "Decision")
KERNELS = ("Kernel", "Launches a pass", "Time a pass", "Share of the pass", "Case")


def plain_name(kernel: str) -> str:
    """Of torch's own kernels the name, without the page of types that C++ hangs on it."""
    return kernel.removeprefix("void ").split("<")[0].split("(")[0].strip() or kernel


def busiest(timelines: Iterable[Timeline], names: dict[str, str], most: int) -> list[Row]:
    """Where the time of a pass goes: kernels, gaps between them, and the GPU idle for the host."""
    rows: list[Row] = []
    for one in timelines:
        case = names.get(one.case, one.case)
        for kernel in one.kernels[:most]:
            part = numbers.percent(100 * kernel.us / one.wall_us)
            rows.append([plain_name(kernel.kernel), kernel.launches, numbers.duration(kernel.us), part, case])
        idle = max(0.0, one.wall_us - one.busy_us - one.gap_us)
        if one.gap_us:
            gaps = numbers.percent(100 * one.gap_us / one.wall_us)
            rows.append(["gaps between kernels", "", numbers.duration(one.gap_us), gaps, case])
        waits = f"the host ({numbers.many(one.waits, 'wait')})" if one.waits else "the host"
        rows.append([waits, "", numbers.duration(idle), numbers.percent(100 * idle / one.wall_us), case])
    return rows


PASSPORTS = ("Chip", "Compiles", "Kernel", "Registers", "Spills", "Shared memory", "Widest load")


def passports(stamps: Iterable[Passport]) -> list[Row]:
    rows: list[Row] = []
    for stamp in stamps:
        if not stamp.ok:
            rows.append([labels.arch(stamp.arch), "no", stamp.error or "no reason was given", "", "", "", ""])
        for kernel, needs in stamp.kernels:
            rows.append([
                labels.arch(stamp.arch), "yes" if stamp.ok else "no", kernel, needs.registers,
                numbers.size(needs.spill_bytes), numbers.size(needs.shared_bytes), f"{needs.load_bits} bits",
            ])  # fmt: skip
    return rows


STATUS = {
    "read": "read",
    "absent": "unavailable",
    "too_old": "unavailable: too old",
    "no_permission": "unavailable: no permission",
    "mig": "unavailable: MIG",
    "nothing_launched": "unavailable: nothing was launched",
    "not_asked": "unavailable",
    "failed": "unavailable: it failed",
}
SHOWN = {
    "sm__warps_active.avg.pct_of_peak_sustained_active": "Occupancy",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "Compute throughput",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "Memory throughput",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "L1 throughput",
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
}
MOVED = {
    "dram__bytes_read.sum": "DRAM read",
    "dram__bytes_write.sum": "DRAM written",
    "lts__t_bytes.sum": "L2 moved",
}
GOOD, POOR = 60.0, 30.0
"""Percent of a peak (T-07)."""
FULL, EMPTY = 50.0, 25.0
"""Percent of the warps that fit (T-07). Hit rates are told without a word."""


def status(profile: Profile) -> str:
    counters = profile.counters
    if counters is None and profile.baseline.runner.evidence is Evidence.STATIC:
        return "unavailable: a profiler watches a GPU, and nothing ran on one"
    if counters is None:
        return "unavailable: no profiler was asked"
    tool = f"{counters.tool} {counters.version}".strip()
    return f"{STATUS[counters.status]} ({counters.detail}; {tool})" if counters.detail else STATUS[counters.status]


def _assessed(name: str, value: float) -> str:
    if "throughput" not in name and "warps_active" not in name:
        return ""
    good, poor = (GOOD, POOR) if "throughput" in name else (FULL, EMPTY)
    return "high" if value > good else "low" if value < poor else "in between"


COUNTED = ("Kernel", "Case", "Metric", "Value", "Assessment")


def counted(counters: Counters | None, names: dict[str, str]) -> list[Row]:
    rows: list[Row] = []
    for kernel in counters.kernels if counters is not None else ():
        for name, label in SHOWN.items():
            value = kernel.get(name)
            if value is not None:
                case = names.get(kernel.case, kernel.case)
                rows.append([kernel.kernel, case, label, numbers.percent(value), _assessed(name, value)])
        for name, label in MOVED.items():
            value = kernel.get(name)
            if value is not None:
                case = names.get(kernel.case, kernel.case)
                rows.append([kernel.kernel, case, label, numbers.size(round(value)), ""])
        rows += [
            [kernel.kernel, names.get(kernel.case, kernel.case), f"Stall: {reason}", f"{value:.2f} warps an issue", ""]
            for reason, value in stalls(kernel)
        ]
    return rows


def stalls(kernel: KernelCounters, most: int = 3) -> list[tuple[str, float]]:
    prefix, suffix = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
    found = [
        (one.name.removeprefix(prefix).removesuffix(suffix).replace("_", " "), one.value)
        for one in kernel.counters
        if one.name.startswith(prefix) and one.name.endswith(suffix) and one.value > 0
    ]
    return sorted(found, key=lambda pair: -pair[1])[:most]


MOVES = (
    *("Kernel", "Case", "Launches", "Moves at least", "Asks of L2", "DRAM", "L2"),
    *("Held against", "Counted over read"),
)
AGREE = {True: "agrees", False: "more than 10 % apart"}
MOST_APART = 0.10
"""analysis/agreement.py draws the line there."""


def _both(traffic: Traffic) -> str:
    known = (traffic.dram_read, traffic.dram_written)
    return UNKNOWN if None in known else numbers.size(round(sum(one for one in known if one is not None)))


def _size(value: float | None) -> str:
    return numbers.size(round(value)) if value is not None else UNKNOWN


def agreement(traffic: Traffic) -> str:
    """What spilled registers are of it is said; in old journals, what of them can explain that more was read."""
    if traffic.ratio is None:
        return UNKNOWN
    said = f"{traffic.ratio:.3f}, {AGREE[bool(traffic.agrees)]}"
    if traffic.level != "l2" or not traffic.spilled:
        return said
    if traffic.asked is not None:
        return f"{said}, {_size(traffic.spilled_asked)} of spilled registers counted"
    if 1 - traffic.ratio <= MOST_APART:
        return said
    most = f"up to {_size(traffic.spilled)} of spilled registers"
    return f"{said} with {most}" if traffic.agrees else f"{said}, with {most}"


def moves(profile: Profile) -> list[Row]:
    """The traffic count beside the profiler's; nothing where no profiler read any of it."""
    names = labels.case_names(profile.suite)
    return [
        [
            one.kernel,
            names.get(one.case, one.case),
            one.launches,
            _size(one.compulsory),
            _size(one.asked),
            _both(one),
            _size(one.l2),
            {"dram": "DRAM", "l2": "L2", None: UNKNOWN}[one.level],
            agreement(one),
        ]
        for one in profile.traffic
        if one.l2 is not None or one.dram_read is not None
    ]
