"""Records that programs read: manifest, CSV tables, memory. What is not known is null or empty, never a guess."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

from bot.model.campaign import Campaign, Profile, Round
from bot.model.diagnosis import Bottleneck
from bot.model.ids import variant_name
from bot.model.measurement import Case, CaseResult, Evidence, Fault, Measurement
from bot.model.rivals import RivalCase, Rivalry
from bot.model.verdict import Decision
from bot.render import numbers, times, view

BOUND = {Bottleneck.MEMORY: "memory_bound", Bottleneck.COMPUTE: "compute_bound"}
TIMEOUTS = ("compile_timeout", "run_timeout")
ERRORS = {"compile_failed": "compilation", "compile_timeout": "timeout", "run_timeout": "timeout"}
STATIC_TOOLS = "triton compiler, interpreter, time model"


def manifest(campaign: Campaign, profile: Profile, created: str) -> str:
    """The keys of P-20 in their order, then ours. Every value is JSON, so that no text can become another type."""
    site, command = profile.site, campaign.command
    known: dict[str, Any] = {
        "target_op": site.kernel,
        "target_backend": "TRITON",
        "target_lang": "TRITON",
        "target_gpu": profile.baseline.runner.arch,
        "execution_mode": "repo",
        "project_skill": site.preset,
        "performance_target": command.target.text if command and command.target else None,
        "primary_metric": f"{command.goal}, {command.scope}" if command else None,
        "target_shapes": [case.id for case in profile.suite.cases],
        "kernel_source": list(site.files),
        "test_command": [part.replace("{test}", site.test_file) for part in site.test_command],
        "benchmark_command": list(site.benchmark_command),
        "quick_command": None,
        "representative_shapes": None,
        "git_commit": True,
        "git_branch": f"optimize/{campaign.id}",
        "max_iterations": view.budget(campaign) or None,
        "created": created or None,
        "campaign": campaign.id,
        "evidence": str(profile.baseline.runner.evidence),
        "base_commit": campaign.pull.head_sha if campaign.pull else None,
        "gpu_name": profile.baseline.runner.gpu_name or None,
        "gpu_uuid": profile.baseline.runner.gpu_uuid or None,
    }
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items())


def _harmless(cell: object) -> object:
    """A spreadsheet would run a text that begins like a formula."""
    text = str(cell)
    return f"'{text}" if isinstance(cell, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _head(evidence: Evidence) -> list[str]:
    """The head says what the numbers are; values of a model never stand under a head that means a clock."""
    ours = ["kernel", "variant", "evidence", "arch", "case", "direction", "dtype", "shape"]
    facts = ["minimum_bytes", "traffic_factor", "memory_bytes"]
    if evidence is Evidence.STATIC:
        return [*ours, "estimated_us", "estimated_v0_us", "estimated_speedup", *facts]
    return [*ours, "median_us", "low_us", "high_us", "samples", "timer", "v0_median_us", "speedup", *facts, "gpu_name"]


def _shape(case: Case) -> str:
    return " ".join(f"{name}={size}" for name, size in case.shape)


def _speed(found: Measurement, result: CaseResult | None, v0: float | None, us: float | None) -> dict[str, object]:
    ratio = v0 / us if v0 and us else None
    if found.runner.evidence is Evidence.STATIC:
        return {"estimated_us": us, "estimated_v0_us": v0, "estimated_speedup": ratio}
    known: dict[str, object] = {"median_us": us, "v0_median_us": v0, "speedup": ratio}
    if result is None or result.timing is None:
        return known
    timing = result.timing
    spread = {"low_us": timing.low_us, "high_us": timing.high_us, "samples": timing.samples, "timer": timing.timer}
    return known | spread


def results_csv(profile: Profile, number: int, found: Measurement, us: dict[str, float], v0: dict[str, float]) -> str:
    """One row a case. `us` is what the verdict was reached on."""
    rows = {result.case: result for result in found.cases}
    buffer = StringIO()
    table = csv.DictWriter(buffer, _head(found.runner.evidence), restval="", lineterminator="\n")
    table.writeheader()
    for case in profile.suite.cases:
        result = rows.get(case.id)
        row: dict[str, object] = {
            "kernel": profile.site.kernel,
            "variant": f"v{number}",
            "evidence": str(found.runner.evidence),
            "arch": found.runner.arch,
            "case": case.id,
            "direction": case.direction,
            "dtype": case.dtype,
            "shape": _shape(case),
            "minimum_bytes": result.minimum_bytes if result else None,
            "traffic_factor": result.traffic_factor if result else None,
            "memory_bytes": result.memory_bytes if result else None,
        } | _speed(found, result, v0.get(case.id), us.get(case.id))
        if found.runner.evidence is Evidence.MEASURED:
            row["gpu_name"] = found.runner.gpu_name
        table.writerow({key: "" if value is None else _harmless(value) for key, value in row.items()})
    return buffer.getvalue()


RIVALS = (
    "kernel", "rival", "evidence", "arch", "case", "direction", "dtype", "shape", "v0_median_us", "rival_median_us",
    "rival_over_v0", "low", "high", "blocks", "processes", "best", "best_over_v0", "best_over_rival", "why_not",
    "gpu_name",
)  # fmt: skip
"""`low` and `high` are of the blocks: one process has no interval."""


def _played(one: RivalCase) -> dict[str, object]:
    return {
        "v0_median_us": one.v0_us,
        "rival_median_us": one.rival_us,
        "rival_over_v0": one.over_v0,
        "low": one.low,
        "high": one.high,
        "blocks": one.blocks,
        "processes": 1,
        "best_over_v0": one.best_over_v0,
        "best_over_rival": 1 / one.over_best if one.over_best is not None else None,
    }


def script_csv(rows: str) -> str:
    """What the repository's own script wrote, but for what a spreadsheet would run."""
    buffer = StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerows([_harmless(cell) for cell in row] for row in csv.reader(StringIO(rows, newline="")))
    return buffer.getvalue()


def rivals_csv(profile: Profile, rivals: Rivalry) -> str:
    """One row a rival and case; who could not be played stands there with the reason, and without a number."""
    buffer, runner = StringIO(), profile.baseline.runner
    table = csv.DictWriter(buffer, RIVALS, restval="", lineterminator="\n")
    table.writeheader()
    for tally in rivals.tallies:
        played, missing = {one.case: one for one in tally.cases}, dict(tally.missing)
        for case in profile.suite.cases:
            if case.id not in played and case.id not in missing:
                continue
            row: dict[str, object] = {
                "kernel": profile.site.kernel,
                "rival": tally.name,
                "evidence": str(runner.evidence),
                "arch": runner.arch,
                "case": case.id,
                "direction": case.direction,
                "dtype": case.dtype,
                "shape": _shape(case),
                "best": variant_name(rivals.best) if rivals.best else None,
                "why_not": missing.get(case.id),
                "gpu_name": runner.gpu_name,
            } | (_played(played[case.id]) if case.id in played else {})
            table.writerow({key: "" if value is None else _harmless(value) for key, value in row.items()})
    return buffer.getvalue()


def _status(found: Measurement | None) -> str | None:
    if found is None:
        return None
    if found.fault is not None:
        return "TIMEOUT_FAIL" if found.fault.kind in TIMEOUTS else "FAIL"
    return ("PASS" if all(check.passed for check in found.checks) else "FAIL") if found.checks else None


def _gate(played: Round | None, found: Measurement | None) -> dict[str, Any]:
    """BASELINE passes by being right; a variant by its verdict."""
    if played is None:
        return {"result": _status(found), "failure_reason": None}
    if played.verdict is None:
        return {"result": None, "failure_reason": None}
    if played.verdict.decision.is_accepted:
        return {"result": "PASS", "failure_reason": None}
    timeout = found is not None and found.fault is not None and found.fault.kind in TIMEOUTS
    return {"result": "TIMEOUT_FAIL" if timeout else "FAIL", "failure_reason": played.verdict.reason or None}


def _error_type(fault: Fault | None, found: Measurement | None) -> str:
    if fault is not None:
        return ERRORS.get(fault.kind, "runtime")
    return "accuracy" if found and any(not check.passed for check in found.checks) else "performance"


def _missing(profile: Profile) -> list[dict[str, Any]]:
    """What nobody published of this GPU."""
    return [
        {
            "error_type": "performance",
            "error_message": number.says(),
            "root_cause": None,
            "fix_applied": "what needs it is left out",
            "lesson": None,
        }
        for number in profile.hardware
        if number.value is None
    ]


def _pitfalls(profile: Profile, played: Round | None, found: Measurement | None) -> list[dict[str, Any]]:
    if played is None:
        return _missing(profile)
    verdict = played.verdict
    if verdict is None or verdict.decision is not Decision.REJECTED:
        return []
    fault = found.fault if found else None
    return [
        {
            "error_type": _error_type(fault, found),
            "error_message": (fault.detail if fault and fault.detail else verdict.reason) or None,
            "root_cause": None,
            "fix_applied": f"rolled back to v{played.variant.parent}",
            "lesson": None,
        }
    ]


def _performance(profile: Profile, evidence: Evidence, us: dict[str, float], speedup: float | None) -> dict[str, Any]:
    """Times by shape only: no single one would stand for the kernel. A modelled time has a key of its own."""
    measured = evidence is Evidence.MEASURED
    return {
        "latency_us": None,
        "latency_us_by_shape": us if measured and us else None,
        "estimated_us_by_shape": us if not measured and us else None,
        "tflops": None,
        "bandwidth_gbps": None,
        "tflops_peak_utilization_pct": None,
        "bandwidth_peak_utilization_pct": None,
        "speedup_over_v0" if measured else "estimated_speedup_over_v0": speedup,
        "comparison_with_previous": {"latency_delta": None, "tflops_delta": None, "bandwidth_delta": None},
    }


def _optimization(campaign: Campaign, played: Round | None) -> dict[str, Any]:
    if played is None:
        return {
            "action_category": "baseline",
            "action_description": "no code change",
            "expected_impact": None,
            "risks_and_rollback": None,
        }
    idea = played.variant.hypothesis
    return {
        "action_category": idea.technique,
        "action_description": idea.title,
        "expected_impact": idea.expected,
        "risks_and_rollback": f"roll back to v{played.variant.parent}",
    }


def _worst_margin(found: Measurement | None) -> float | None:
    margins = [check.margin for check in found.checks if check.margin is not None] if found else []
    return max(margins, default=None)


def _isa(found: Measurement | None) -> list[dict[str, Any]]:
    used = [launch.resources for case in (found.cases if found else ()) for launch in case.launches if launch.resources]
    if not used:
        return []
    spills = max(one.spill_bytes for one in used)
    registers = max(one.registers for one in used)
    return [
        {"metric": "spill_bytes", "target": 0, "current": spills, "met": spills == 0},
        {"metric": "registers", "target": None, "current": registers, "met": None},
    ]


def _commit(campaign: Campaign, number: int) -> str | None:
    if number == 0:
        return campaign.pull.head_sha if campaign.pull else None
    return campaign.pushed if campaign.pushed and campaign.winner == number else campaign.ref_of(f"lineage/v{number}")


def memory(campaign: Campaign, profile: Profile, number: int, timestamp: str) -> str:
    """The schema of `memory/vN.json`; every number may be null."""
    played = campaign.round_of(number)
    found = view.measurement_of(campaign, number)
    score = view.score_of(campaign, number)
    diagnosis = profile.diagnosis
    evidence = profile.baseline.runner.evidence
    us = times.variant_us(played) if played else times.baseline_us(profile)
    tool = STATIC_TOOLS if evidence is Evidence.STATIC else profile.baseline.runner.gpu_name
    known = {
        "version": f"v{number}",
        "masked": False,
        "timestamp": timestamp or None,
        "evidence": str(evidence),
        "performance": _performance(profile, evidence, us, numbers.speed(score) if score else None if number else 1.0),
        "optimization": _optimization(campaign, played),
        "profile_evidence": {
            "tool_used": tool or None,
            "evidence_summary": diagnosis.sentence,
            "bottleneck_type": BOUND.get(diagnosis.bottleneck),
            "confidence": diagnosis.confidence,
            "evidence_chain": [f"{c.evidence} -> {c.inference} -> {c.action}" for c in diagnosis.clues],
        },
        "correctness": {"rel_err": None, "worst_error_over_limit": _worst_margin(found), "status": _status(found)},
        "isa_metric_progress": _isa(found),
        "search_log": [],
        "pitfalls_and_fixes": _pitfalls(profile, played, found),
        "references": [
            {"source_type": "user-input", "path_or_url": reference, "description": None}
            for reference in (played.variant.hypothesis.references if played else ())
        ],
        "quality_gate": _gate(played, found),
        "git_commit_hash": _commit(campaign, number),
    }
    return json.dumps(known, indent=2, allow_nan=False) + "\n"
