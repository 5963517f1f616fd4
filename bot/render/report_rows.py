"""The tables of the HTML report: plain words in rows. The page escapes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.model.campaign import Campaign, Round
from bot.model.facts import JournalLine
from bot.model.finalization import CommandRun, Finalization
from bot.model.measurement import Measurement, Resources
from bot.model.rivals import Rivalry
from bot.render import gains, labels, machines, numbers, rival_rows, tables, times, view
from bot.render.escape import plain
from bot.render.terminal import told

CELL = 600
"""Characters of one cell."""


@dataclass(frozen=True, slots=True)
class Table:
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int = -1
    """The row that matters most."""


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], strong: int = -1) -> Table | None:
    shown = tuple(tuple(plain(cell, CELL) for cell in row) for row in rows)
    return Table(tuple(head), shown, strong) if shown else None


def _mark(campaign: Campaign) -> str:
    return times.mark(view.evidence(campaign))


def variants(campaign: Campaign) -> Table | None:
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    base = view.measurement_of(campaign, 0)
    rows: list[list[object]] = (
        [["v0", "untouched source", tables.correct(base), "1.00x", "-", "baseline"]] if base else []
    )
    strong = -1
    for played in campaign.rounds:
        number, verdict = played.variant.number, played.verdict
        score = verdict.score if verdict else None
        if number == view.best(campaign) and view.is_accepted(played):
            strong = len(rows)
        decision = labels.DECISIONS[verdict.decision] if verdict else "not judged yet"
        reason = f": {verdict.reason}" if verdict and verdict.reason else ""
        rows.append(
            [
                f"v{number}",
                played.variant.hypothesis.title,
                tables.correct(played.measurement),
                numbers.score(score),
                tables.worst_case(score, names),
                f"{decision}{reason}",
            ]
        )
    worst = f"Worst case{_mark(campaign)}"
    return _table(["#", "Change", "Correct", tables.score_head(campaign), worst, "Verdict"], rows, strong)


def _legend(campaign: Campaign) -> str:
    return f"Case ({labels.legend(campaign.profile.suite if campaign.profile else None)})"


def baseline(campaign: Campaign) -> Table | None:
    """What the untouched kernel costs."""
    if campaign.profile is None:
        return None
    names = labels.case_names(campaign.profile.suite)
    rows = [
        [
            names.get(case.case, case.case),
            numbers.duration(case.timing.median_us if case.timing else None),
            numbers.size(case.minimum_bytes),
            numbers.ratio(case.traffic_factor),
            numbers.size(case.memory_bytes),
        ]
        for case in campaign.profile.baseline.cases
    ]
    head = [_legend(campaign), f"Time{_mark(campaign)}", "Least traffic", "Moved / least", "Allocated"]
    return _table(head, rows)


def cases(campaign: Campaign, number: int) -> Table | None:
    """Every scored case of one variant, before and after."""
    score = view.score_of(campaign, number)
    if score is None:
        return None
    names, mark = labels.case_names(campaign.profile.suite if campaign.profile else None), times.mark(score.evidence)
    rows = [
        [
            names.get(case.case, case.case),
            numbers.duration(case.before_us),
            numbers.duration(case.after_us),
            numbers.ratio(case.speedup),
            numbers.ratio(case.memory_ratio),
        ]
        for case in score.cases
    ]
    head = [_legend(campaign), f"v0{mark}", f"v{number}{mark}", f"Speed-up{mark}", "Memory, v0 / it"]
    host = times.on_the_host(view.measurement_of(campaign, number))
    if any(case.case in host for case in score.cases):
        head.append(times.HOST_HEAD)
        rows = [[*row, host.get(case.case, "-")] for case, row in zip(score.cases, rows, strict=True)]
    return _table(head, rows)


def rivals(campaign: Campaign, found: Rivalry | None) -> Table | None:
    """The best variant against plain PyTorch and torch.compile, or v0 where nothing won."""
    if found is None:
        return None
    head, rows = rival_rows.rows(found, view.case_names(campaign))
    return _table(head, rows)


def findings(campaign: Campaign, played: Round) -> Table | None:
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    found = played.verdict.findings if played.verdict else ()
    rows = [[one.guardrail, one.severity, names.get(one.case, one.case) or "-", one.message] for one in found]
    return _table(["Guardrail", "Weight", "Case", "What it found"], rows)


def idea(campaign: Campaign, played: Round) -> Table:
    """The hypothesis, as it was written before it was tried, and what became of it."""
    variant, found = played.variant, played.measurement
    thought = variant.hypothesis
    known = [
        ("Why it should be faster", thought.why),
        ("Expected", thought.expected),
        ("Technique", thought.technique),
        ("Proposed by", variant.proposer),
        ("Grew from", f"v{variant.parent}"),
        ("Builds on, or avoids", ", ".join(thought.references)),
        ("Correct", tables.correct(found)),
        *tables.of_finalist(found, played.verdict.score if played.verdict else None),
        ("Against the best before it", gains.over_best(campaign, played)),
        ("Source", f"sha256 {variant.digest[:16]}"),
    ]
    told = _table(["", ""], [row for row in known if row[1]])
    assert told is not None
    return told


def _heaviest(found: Measurement | None) -> list[Resources]:
    return [launch.resources for case in (found.cases if found else ()) for launch in case.launches if launch.resources]


def resources(campaign: Campaign) -> Table | None:
    """The heaviest kernel of each variant, as compiled."""
    rows = []
    for number in (0, *(played.variant.number for played in campaign.rounds)):
        found, score = _heaviest(view.measurement_of(campaign, number)), view.score_of(campaign, number)
        diagnosed = campaign.profile.diagnosis.roof_percent if campaign.profile and number == 0 else None
        if found:
            widest = max(found, key=lambda one: one.load_bits)
            rows.append(
                [
                    f"v{number}",
                    str(max(one.registers for one in found)),
                    numbers.size(max(one.spill_bytes for one in found)),
                    numbers.size(max(one.shared_bytes for one in found)),
                    f"{widest.load_bits}/{widest.store_bits} bit",
                    numbers.percent(score.roof_percent if score else diagnosed),
                ]
            )
    roof = f"Share of roof{_mark(campaign)}"
    return _table(["#", "Registers", "Spills a thread", "Shared memory", "Widest load/store", roof], rows)


def passports(campaign: Campaign) -> Table | None:
    """Whether each variant compiles elsewhere, and at what cost."""
    numbered = (0, *(played.variant.number for played in campaign.rounds))
    found = {n: {p.arch: p for p in m.passports} for n in numbered if (m := view.measurement_of(campaign, n))}
    arches = list(dict.fromkeys(arch for stamps in found.values() for arch in stamps))
    rows = []
    for number, stamps in found.items():
        row = [f"v{number}"]
        for arch in arches:
            stamp = stamps.get(arch)
            if stamp is None:
                row.append("not compiled")
            elif not stamp.ok:
                row.append(f"does not compile: {plain(stamp.error, 100)}")
            else:
                registers = max((one.registers for _, one in stamp.kernels), default=None)
                spills = max((one.spill_bytes for _, one in stamp.kernels), default=0)
                row.append(
                    "compiles"
                    if registers is None
                    else f"{registers} registers, {numbers.size(spills) + ' spilled' if spills else 'no spills'}"
                )
        rows.append(row)
    return _table(["#", *map(labels.arch, arches)], rows) if arches else None


def machine(campaign: Campaign) -> Table | None:
    """What the numbers depend on."""
    runner, command = view.runner(campaign), campaign.command
    if runner is None:
        return None
    known = [
        ("Compiled for", labels.arch(runner.arch)),
        ("GPU", runner.gpu_name or "none: nothing was timed"),
        ("GPU id", runner.gpu_uuid),
        ("Driver", runner.driver),
        ("Python", runner.python),
        ("torch", runner.torch),
        ("triton", runner.triton),
        ("Sandbox", runner.sandbox),
        ("Machines", machines.sentence(campaign)),
        ("Evidence", str(runner.evidence)),
        ("Policy asks for", campaign.policy.evidence if command else ""),
    ]
    return _table(["What", "Value"], [row for row in known if row[1]])


def asked(campaign: Campaign) -> Table | None:
    """Who asked for what, where."""
    command, pull = campaign.command, campaign.pull
    if command is None:
        return None
    where = f"{pull.head_repo}, branch {pull.head_ref}" if pull else ""
    known = [
        ("Kernel", command.kernel),
        ("Goal", labels.GOALS[command.goal]),
        ("Passes", labels.SCOPES[command.scope]),
        ("GPU", labels.GPUS[command.gpu]),
        ("Budget", numbers.many(view.budget(campaign), "variant")),
        ("Target", command.target.text if command.target else ""),
        ("Asked by", campaign.requester.login if campaign.requester else ""),
        ("Asked at", campaign.requested_at),
        ("Where", where),
        ("Base commit", pull.head_sha if pull else ""),
        ("Commit" if view.is_local(campaign) else "Pushed commit", campaign.pushed or ""),
        ("Campaign", campaign.id),
    ]
    return _table(["", ""], [row for row in known if row[1]])


def checks(done: Finalization | None) -> Table | None:
    """Commands of the target that were run on the winner."""
    runs: list[tuple[str, CommandRun]] = [("tests", run) for run in done.tests] if done else []
    runs += [("style", run) for run in done.style] if done else []
    rows = [[what, run.result, run.summary, numbers.seconds(run.seconds), " ".join(run.argv)] for what, run in runs]
    return _table(["Check", "Result", "Last line", "Took", "Command"], rows)


def story(lines: tuple[JournalLine, ...]) -> Table | None:
    """Every fact in the order it was written down."""
    return _table(["When", "Zone", "What"], [[line.at, line.zone, told(line)] for line in lines])
