"""Everything a campaign leaves behind as files, rendered from its journal: the same journal, the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from bot.model.campaign import Campaign, Profile, Round
from bot.model.facts import JournalLine, Profiled, RoundOpened, VariantJudged
from bot.model.measurement import Measurement
from bot.model.rivals import Rivalry
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.render import (
    escape,
    folded,
    from_roof,
    gains,
    labels,
    machines,
    mind,
    numbers,
    profile_page,
    rival_rows,
    script_rows,
    self_tuned,
    steps,
    story,
    tables,
    times,
    view,
)
from bot.render.advice import advice
from bot.render.environment import render
from bot.render.escape import Trusted
from bot.render.record_data import manifest, memory, results_csv, rivals_csv, script_csv
from bot.render.record_logs import optimize_log, performance_trend

VERDICTS = {
    Decision.ACCEPTED: "ACCEPTED",
    Decision.ACCEPTED_WITH_NOTE: "MIXED",
    Decision.REJECTED: "REJECTED",
    Decision.INCONCLUSIVE: "INCONCLUSIVE",
}
ROUND_DECISIONS = {
    Decision.ACCEPTED: "ACCEPTED",
    Decision.ACCEPTED_WITH_NOTE: "ACCEPTED (trade-off)",
    Decision.REJECTED: "ROLLED BACK",
    Decision.INCONCLUSIVE: "ROLLED BACK",
}
Show = Callable[[float | None], str]
EVERY = 10_000
"""Records are files: no row is left out of them."""
DIFF_LIMIT = 400_000


def _when(lines: tuple[JournalLine, ...]) -> dict[str, str]:
    """The first time each thing was written down."""
    at: dict[str, str] = {}
    for line in lines:
        match line.fact:
            case Profiled():
                at.setdefault("profiled", line.at)
            case RoundOpened(variant=variant):
                at.setdefault(f"opened v{variant.number}", line.at)
            case VariantJudged(number=number):
                at.setdefault(f"judged v{number}", line.at)
            case _:
                at.setdefault("created", line.at)
    return at


def _named(kernel: str, prefix: str, suffix: str, files: tuple[SourceFile, ...]) -> dict[str, str]:
    """The op file under the short name people look for; further files say which one they are."""
    found: dict[str, str] = {}
    for i, file in enumerate(files):
        stem = "" if i == 0 else f"__{PurePosixPath(file.path).with_suffix('').as_posix().replace('/', '.')}"
        found[f"{prefix}{kernel}{suffix}{stem}.py"] = file.text
    return found


def _deltas(
    profile: Profile, head: tuple[str, str], before: dict[str, float], after: dict[str, float], show: Show
) -> Trusted:
    """Every case before and after; the change is signed, below zero is less."""
    names = labels.case_names(profile.suite)
    rows = [
        [
            case.direction,
            names.get(case.id, case.id),
            show(before.get(case.id)),
            show(after.get(case.id)),
            numbers.change(before.get(case.id), after.get(case.id)),
        ]
        for case in profile.suite.cases
        if case.id in before or case.id in after
    ]
    return tables.grid(["Metric", "x", *head, "Δ%"], rows) if rows else Trusted("unknown")


def _failure(played: Round) -> str:
    """The words of the source system for a variant that was not right."""
    found = played.measurement
    if found is None:
        return ""
    if found.fault is not None:
        return f"{labels.fault(found.fault)}: {found.fault.detail}".rstrip(": ")
    wrong = [check for check in view.asked(found) if not check.passed]
    return f"{wrong[0].case}: {wrong[0].worst or 'output'} is wrong" if wrong else ""


def _round_values(campaign: Campaign, profile: Profile, played: Round, at: dict[str, str]) -> dict[str, Any]:
    number, verdict = played.variant.number, played.verdict
    mark = times.mark(profile.baseline.runner.evidence)
    score = verdict.score if verdict else None
    memory = _memory(profile.baseline) if times.is_here(profile, played) else {}
    parent = view.sources_of(campaign, played.variant.parent)
    diff = view.diff(parent, played.variant.files)
    return {
        "n": number,
        "played": played,
        "idea": played.variant.hypothesis,
        "opened": at.get(f"opened v{number}", "unknown"),
        "judged": at.get(f"judged v{number}", "unknown"),
        "diff": escape.fence(diff, "diff", limit=DIFF_LIMIT, lines=EVERY) if diff else "no difference",
        "speed": _deltas(
            profile,
            (f"v0{mark}", f"v{number}{mark}"),
            times.v0_us(profile, played),
            times.variant_us(played),
            numbers.duration,
        ),
        "memory": _deltas(profile, ("v0", f"v{number}"), memory, _memory(played.measurement), _bytes),
        "failure": _failure(played),
        "correct": tables.correct(played.measurement),
        "findings": folded.findings(campaign, (number,), EVERY),
        "verdict": VERDICTS[verdict.decision] if verdict else "unknown",
        "decision": ROUND_DECISIONS[verdict.decision] if verdict else "unknown",
        "reason": verdict.reason if verdict else "",
        "speedup": numbers.score(score),
        "gained": numbers.over(score, "v0"),
        "gain": gains.step(campaign, played),
    }


def _memory(found: Measurement | None) -> dict[str, float]:
    return {case.case: float(case.memory_bytes) for case in found.cases} if found else {}


def _bytes(value: float | None) -> str:
    return numbers.size(None if value is None else int(value))


def _rivals(profile: Profile, rivals: Rivalry | None) -> dict[str, Any]:
    """Two tables: beside v0, and beside the best variant."""
    names = labels.case_names(profile.suite)
    return {
        "beaten": rival_rows.beaten(rivals, names),
        "rivals_v0": rival_rows.of_profile(rivals, names, EVERY),
        "rivals": rival_rows.of_report(rivals, names, EVERY),
        "from_roof": from_roof.of_report(rivals, names, EVERY),
        "from_roof_head": from_roof.headline(rivals),
    }


def _shared(campaign: Campaign, profile: Profile, at: dict[str, str], rivals: Rivalry | None) -> dict[str, Any]:
    every = (0, *(played.variant.number for played in campaign.rounds))
    number = view.best(campaign)
    final_diff = view.diff(view.sources_of(campaign, 0), view.committed(campaign)) if number else ""
    runs = campaign.finalization
    checks = script_rows.commands(runs) if runs else []
    return {
        "campaign": campaign,
        "kernel": view.kernel(campaign),
        "profile": profile,
        "site": profile.site,
        "runner": profile.baseline.runner,
        "moved": escape.text(machines.sentence(campaign)),
        "static": view.is_static(campaign),
        "mark": times.mark(profile.baseline.runner.evidence).strip(),
        "number": number,
        "at": at,
        "created": at.get("created", "unknown"),
        "held_back": steps.held_back(campaign),
        "tuned": self_tuned.said(profile),
        "counted": steps.counted(campaign),
        "minds": [escape.text(said, escape.SENTENCE_LIMIT) for said in mind.of_ending(campaign)],
        "history": story.story(campaign),
        "stopped": labels.STOPPED[campaign.stopped] if campaign.stopped else "unknown",
        "title": view.title_of(campaign, number),
        "gained": numbers.over(view.score_of(campaign, number), "v0") if number else "none",
        "made_of": gains.explained(campaign, number),
        "baseline": folded.baseline(campaign, EVERY),
        "variants": tables.variants(campaign, every),
        "resources": folded.resources(campaign, every),
        "passports": folded.passports(campaign, every),
        "cases": folded.cases(campaign, number, EVERY),
        "machine": folded.machine(profile.baseline.runner, machines.sentence(campaign)),
        "launches": _launches(profile),
        "checks": folded.commands(checks),
        "script": script_rows.section(campaign),
        "applied": "Yes" if campaign.pushed else "No",
        "diff": escape.fence(final_diff, "diff", limit=DIFF_LIMIT, lines=EVERY) if final_diff else "no change",
        "refused": [played for played in campaign.rounds if played.verdict and not view.is_accepted(played)],
        "goal": str(campaign.command.goal) if campaign.command else "unknown",
        "scope": str(campaign.command.scope) if campaign.command else "unknown",
        "asked_gpu": str(campaign.command.gpu) if campaign.command else "unknown",
        "budget": view.budget(campaign),
        "correct": tables.correct(view.measurement_of(campaign, number)),
    } | _rivals(profile, rivals)


def _profiled(campaign: Campaign, shared: dict[str, Any], rivals: Rivalry | None) -> dict[str, Any]:
    """The page of the diagnosis, on the machine that it is of."""
    profile = campaign.as_profiled
    assert profile is not None
    if campaign.left:
        then = campaign.model_copy(update={"profile": profile})
        shared = _shared(then, profile, shared["at"], rivals) | {"moved": shared["moved"]}
    return shared | profile_page.of_record(campaign, profile)


def _launches(profile: Profile) -> Trusted:
    """How each kernel of the untouched source is launched, once for each different launch."""
    rows: dict[tuple[str, ...], None] = {}
    for case in profile.baseline.cases:
        for launch in case.launches:
            constants = ", ".join(f"{name}={value}" for name, value in launch.constants)
            grid = "x".join(map(str, launch.grid))
            rows[(launch.kernel, grid, str(launch.num_warps), str(launch.num_stages), constants or "none")] = None
    head = ["Kernel", "Grid", "num_warps", "num_stages", "Constants"]
    return tables.grid(head, list(rows)) if rows else Trusted("unknown")


def _of_round(campaign: Campaign, profile: Profile, played: Round, shared: dict[str, Any]) -> dict[str, str]:
    kernel, number = profile.site.kernel, played.variant.number
    values = shared | _round_values(campaign, profile, played, shared["at"])
    made = _named(kernel, "", f"_v{number}", played.variant.files)
    made[f"{kernel}_v{number}_notes.md"] = render("records/notes.md.j2", **values)
    made[f"plans/v{number}_plan.md"] = render("records/plan.md.j2", **values)
    made[f"rounds/round-{number + 1}/summary.md"] = render("records/summary.md.j2", **values)
    made[f"memory/v{number}.json"] = memory(campaign, profile, number, shared["at"].get(f"judged v{number}", ""))
    if played.measurement is not None:
        us = times.variant_us(played)
        v0 = times.baseline_us(profile) if times.is_here(profile, played) else times.befores(played)
        made[f"benchmarks/v{number}_results.csv"] = results_csv(profile, number, played.measurement, us, v0)
    return made | _snapshot(number, played.variant.files)


def _snapshot(number: int, files: tuple[SourceFile, ...]) -> dict[str, str]:
    return {f"rounds/round-{number + 1}/kernel_snapshot/{file.path}": file.text for file in files}


def _of_baseline(campaign: Campaign, profile: Profile, shared: dict[str, Any]) -> dict[str, str]:
    us = times.baseline_us(profile)
    return {
        **_named(profile.site.kernel, "original_", "", profile.sources),
        "benchmarks/v0_baseline.csv": results_csv(profile, 0, profile.baseline, us, us),
        "memory/v0.json": memory(campaign, profile, 0, shared["at"].get("profiled", "")),
        "rounds/round-1/summary.md": render("records/baseline_summary.md.j2", **shared),
        **_snapshot(0, profile.sources),
    }


def records(campaign: Campaign, lines: tuple[JournalLine, ...], rivals: Rivalry | None = None) -> dict[str, bytes]:
    """Path below the campaign's folder -> content. Before the profile there is only the log."""
    made = {"logs/optimize.md": optimize_log(lines)}
    profile = campaign.profile
    if profile is not None:
        shared = _shared(campaign, profile, _when(lines), rivals)
        made["manifest.yaml"] = manifest(campaign, profile, shared["at"].get("created", ""))
        made["logs/performance_trend.md"] = performance_trend(lines)
        for page in ("README", "comparison", "report"):
            made[f"{page}.md"] = render(f"records/{page}.md.j2", **shared, advice=advice(campaign, lines))
        made["profile.md"] = render("records/profile.md.j2", **_profiled(campaign, shared, rivals))
        made |= _of_baseline(campaign, profile, shared)
        if rivals is not None:
            made["benchmarks/rivals.csv"] = rivals_csv(profile, rivals)
        made |= {f"benchmarks/v{one.variant}_script.csv": script_csv(one.table) for one in script_rows.tables(campaign)}
        for played in campaign.rounds:
            made |= _of_round(campaign, profile, played, shared)
    return {path: made[path].encode("utf-8", "replace") for path in sorted(made)}
