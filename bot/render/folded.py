"""The tables behind the open one: what was compiled, every case, every finding, every command."""

from __future__ import annotations

from collections.abc import Sequence

from bot.model.campaign import Campaign
from bot.model.finalization import CommandRun
from bot.model.ids import VariantNumber
from bot.model.measurement import Evidence, Measurement, Passport, Resources, Runner
from bot.render import gains, labels, numbers, times, view
from bot.render.escape import Trusted, code, text
from bot.render.tables import NONE, grid, left_out, of_finalist

ELSEWHERE = "Does it compile elsewhere? (the largest launch of each kernel)"


def _resources(found: Measurement | None) -> list[Resources]:
    cases = found.cases if found else ()
    return [launch.resources for case in cases for launch in case.launches if launch.resources]


def _resource_row(campaign: Campaign, number: VariantNumber) -> list[object]:
    found = _resources(view.measurement_of(campaign, number))
    score = view.score_of(campaign, number)
    roof = (
        score.roof_percent
        if score
        else campaign.profile.diagnosis.roof_percent
        if campaign.profile and not number
        else None
    )
    if not found:
        return [f"v{number}", NONE, NONE, NONE, NONE, numbers.percent(roof)]
    widest = max(found, key=lambda r: r.load_bits)
    return [
        f"v{number}",
        str(max(r.registers for r in found)),
        numbers.size(max(r.spill_bytes for r in found)),
        numbers.size(max(r.shared_bytes for r in found)),
        f"{widest.load_bits}/{widest.store_bits} bit",
        numbers.percent(roof),
    ]


def resources(campaign: Campaign, numbers_shown: Sequence[VariantNumber]) -> Trusted:
    """The heaviest kernel of each variant, as compiled."""
    roof = "Share of roof" + (f" {numbers.ESTIMATED}" if view.is_static(campaign) else "")
    head = ["#", "Registers", "Spills a thread", "Shared memory", "Widest load/store", roof]
    return grid(head, [_resource_row(campaign, number) for number in numbers_shown])


def _stamp(passport: Passport | None) -> object:
    if passport is None:
        return "not compiled"
    if not passport.ok:
        return Trusted(f"**does not compile**: {text(passport.error, 100)}")
    if not passport.kernels:
        return "compiles"
    registers = max(r.registers for _, r in passport.kernels)
    spills = max(r.spill_bytes for _, r in passport.kernels)
    return f"{registers} registers, {numbers.size(spills) + ' spilled' if spills else 'no spills'}"


def passports(campaign: Campaign, numbers_shown: Sequence[VariantNumber]) -> Trusted:
    """Whether each variant compiles elsewhere, and at what cost."""
    found = {n: {p.arch: p for p in m.passports} for n in numbers_shown if (m := view.measurement_of(campaign, n))}
    arches = list(dict.fromkeys(arch for stamps in found.values() for arch in stamps))[:5]
    if not arches:
        return Trusted("")
    rows = [[f"v{n}", *(_stamp(stamps.get(arch)) for arch in arches)] for n, stamps in found.items() if stamps]
    return grid(["#", *(text(labels.arch(arch)) for arch in arches)], rows)


def case_head(campaign: Campaign) -> str:
    return text(f"Case ({labels.legend(campaign.profile.suite if campaign.profile else None)})")


def _spreads(found: Measurement | None) -> dict[str, str]:
    """How far apart the readings of a case lie; a modelled time has no spread."""
    timed = [(case.case, case.timing) for case in (found.cases if found else ()) if case.timing]
    return {
        case: f"{numbers.duration(timing.low_us)} to {numbers.duration(timing.high_us)}"
        for case, timing in timed
        if timing.low_us is not None and timing.high_us is not None
    }


def cases(campaign: Campaign, number: VariantNumber, most: int) -> Trusted:
    """Every scored case of one variant, before and after."""
    score = view.score_of(campaign, number)
    if score is None or not score.cases:
        return Trusted("")
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    mark = f" {numbers.ESTIMATED}" if score.evidence is Evidence.STATIC else ""
    kept = score.cases if len(score.cases) <= most else sorted(score.cases, key=lambda c: c.speedup)[:most]
    rows = [
        [
            names.get(case.case, case.case),
            numbers.duration(case.before_us),
            numbers.duration(case.after_us),
            numbers.ratio(case.speedup),
            numbers.more(case.memory_ratio),
        ]
        for case in kept
    ]
    head = [case_head(campaign), f"Before{mark}", f"After{mark}", f"Speed-up{mark}", "Memory"]
    spreads = _spreads(view.measurement_of(campaign, number))
    if any(case.case in spreads for case in kept):
        head.insert(3, "After, low to high")
        for case, row in zip(kept, rows, strict=True):
            row.insert(3, spreads.get(case.case, NONE))
    host = times.on_the_host(view.measurement_of(campaign, number))
    if any(case.case in host for case in kept):
        head.append(times.HOST_HEAD)
        for case, row in zip(kept, rows, strict=True):
            row.append(host.get(case.case, NONE))
    table = grid(head, rows) + left_out(len(kept), len(score.cases), "case")
    asked = of_finalist(view.measurement_of(campaign, number), score)
    return Trusted(
        table + _shapes(campaign, number, most) + "".join(f"\n\n{who}: {text(said, 500)}" for who, said in asked)
    )


def _shapes(campaign: Campaign, number: VariantNumber, most: int) -> str:
    """The sums that the speed-up is the mean of, where no line of a case shows them."""
    score, found = view.score_of(campaign, number), gains.shapes(campaign, number)
    if score is None or not found or not gains.adds_up(campaign):
        return ""
    mark = f" {numbers.ESTIMATED}" if score.evidence is Evidence.STATIC else ""
    rows = [
        [row.name, numbers.duration(row.before_us), numbers.duration(row.after_us), numbers.ratio(row.speedup)]
        for row in found[:most]
    ]
    head = ["Shape, forward + backward added", f"Before{mark}", f"After{mark}", f"Speed-up{mark}"]
    told = f"{numbers.ratio(numbers.speed(score))}{mark} is the {gains.mean_of(campaign)}:"
    return f"\n\n{told}\n\n{grid(head, rows)}{left_out(len(rows), len(found), 'shape')}"


def findings(campaign: Campaign, numbers_shown: Sequence[VariantNumber], most: int) -> Trusted:
    """Everything the guardrails had to say."""
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    every = [
        [
            f"v{r.variant.number}",
            finding.guardrail,
            finding.severity,
            names.get(finding.case, finding.case),
            labels.in_words(finding.message, names),
        ]
        for r in campaign.rounds
        if r.verdict and r.variant.number in numbers_shown
        for finding in r.verdict.findings
    ]
    if not every:
        return Trusted("")
    head = ["#", "Guardrail", "Weight", "Case", "What it found"]
    return Trusted(grid(head, every[:most]) + left_out(len(every[:most]), len(every), "finding"))


def baseline(campaign: Campaign, most: int) -> Trusted:
    """What the untouched kernel costs, case by case."""
    profile = campaign.profile
    if profile is None:
        return Trusted("")
    names = labels.case_names(profile.suite)
    mark = f" {numbers.ESTIMATED}" if view.is_static(campaign) else ""
    found = profile.baseline.cases
    rows = [
        [
            names.get(case.case, case.case),
            numbers.duration(case.timing.median_us if case.timing else None),
            numbers.size(case.minimum_bytes),
            numbers.ratio(case.traffic_factor),
            numbers.size(case.memory_bytes),
        ]
        for case in found[:most]
    ]
    head = [case_head(campaign), f"Time{mark}", "Least traffic", "Moved / least", "Allocated"]
    return Trusted(grid(head, rows) + left_out(len(rows), len(found), "case"))


def commands(runs: Sequence[tuple[str, CommandRun]]) -> Trusted:
    """Commands of the target that were run, each with what it was for."""
    rows = [
        [
            what,
            Trusted(run.result if run.result == "passed" else f"**{run.result}**"),
            run.summary,
            numbers.seconds(run.seconds),
            code(" ".join(run.argv)),
        ]
        for what, run in runs
    ]
    return grid(["Check", "Result", "Last line", "Took", "Command"], rows) if rows else Trusted("")


def machine(runner: Runner | None, moved: str = "") -> Trusted:
    """What the numbers depend on. `moved`: where a search that went on elsewhere began."""
    if runner is None:
        return Trusted("")
    known = {
        "Compiled for": labels.arch(runner.arch),
        "GPU": runner.gpu_name or "none: nothing was timed",
        "GPU id": runner.gpu_uuid,
        "Driver": runner.driver,
        "Python": runner.python,
        "torch": runner.torch,
        "triton": runner.triton,
        "Sandbox": runner.sandbox,
        "Machines": moved,
    }
    return grid(["What", "Value"], [[what, value] for what, value in known.items() if value])
