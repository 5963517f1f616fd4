"""The JSON lines of `kernelwright optimize --json`: one object a line, the same keys for ever.

docs/terminal.md lists them. What is not known is null. A ratio above 1 is faster, and `evidence` says whether a clock
or a model said so.
"""

from __future__ import annotations

import json
from typing import Any

from bot.model.campaign import Campaign, Checkpoint
from bot.model.facts import (
    Answered,
    Fact,
    FilePassed,
    Finalized,
    MachineChanged,
    NumbersRaced,
    OrderFailed,
    Profiled,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.ids import variant_name
from bot.model.verdict import Score
from bot.render import numbers, view

SCHEMA = 1


def _figure(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _score(score: Score | None) -> dict[str, Any]:
    return {
        "evidence": str(score.evidence) if score else None,
        "speedup": _figure(numbers.speed(score)) if score else None,
        "score": _figure(score.value) if score else None,
        "score_low": _figure(score.low) if score else None,
        "score_high": _figure(score.high) if score else None,
        "memory_ratio": _figure(score.memory) if score else None,
    }


def _told(fact: Fact) -> tuple[str, dict[str, Any]] | None:
    """The event that a fact is to people who listen, or None where it is none."""
    match fact:
        case Profiled(profile=profile):
            diagnosis = profile.diagnosis
            return "profiled", {
                "evidence": str(profile.baseline.runner.evidence),
                "arch": profile.baseline.runner.arch,
                "gpu": profile.baseline.runner.gpu_name or None,
                "bottleneck": str(diagnosis.bottleneck),
                "sentence": diagnosis.sentence,
                "roof_percent": _figure(diagnosis.roof_percent),
                "cases": len(profile.suite.cases),
            }
        case NumbersRaced(race=race):
            return "numbers_raced", {
                "of": variant_name(race.of),
                "racers": len(race.others),
                "left": sum(bool(racer.left) for racer in race.others),
                "seconds": _figure(race.seconds),
                "note": race.note or None,
            }
        case MachineChanged(baseline=found):
            passed, total = view.right(found)
            return "machine_changed", {
                "gpu": found.runner.gpu_name or None,
                "gpu_uuid": found.runner.gpu_uuid or None,
                "checks_passed": passed,
                "checks": total,
                "seconds": _figure(found.seconds),
            }
        case RoundOpened(variant=variant):
            return "round_opened", {
                "variant": variant_name(variant.number),
                "parent": variant_name(variant.parent),
                "title": variant.hypothesis.title,
                "technique": variant.hypothesis.technique,
                "proposer": variant.proposer,
            }
        case VariantMeasured(number=number, measurement=found):
            passed, total = view.right(found)
            return "variant_measured", {
                "variant": variant_name(number),
                "checks_passed": passed,
                "checks": total,
                "fault": found.fault.kind if found.fault else None,
                "seconds": _figure(found.seconds),
            }
        case VariantJudged(number=number, verdict=verdict):
            return "variant_judged", {
                "variant": variant_name(number),
                "decision": str(verdict.decision),
                **_score(verdict.score),
                "reason": verdict.reason,
                "guardrails": sorted({f.guardrail for f in verdict.findings if f.severity != "info"}),
            }
        case SearchEnded(why=why):
            return "search_ended", {"why": str(why)}
        case FilePassed(file=file):
            return "file_passed", {
                "variant": variant_name(file.variant),
                "test": file.test,
                "seconds": _figure(file.run.seconds),
            }
        case Finalized(finalization=done):
            return "finalized", {
                "variant": variant_name(done.variant),
                "passed": done.passed,
                "tests_passed": all(run.passed for run in done.tests),
                "tests_ran": bool(done.tests) and not done.untested,
                "tests_failed_before": done.failed_before,
                "style_passed": bool(done.style) and done.style[-1].passed,
                "script_passed": done.script_passed,
            }
        case OrderFailed(reason=reason, detail=detail):
            return "order_failed", {"reason_code": str(reason), "detail": detail}
        case Answered(answer=answer):
            return "answered", {
                "checkpoint": str(answer.checkpoint),
                "approved": answer.approved,
                "variant": variant_name(answer.variant) if answer.variant else None,
                "reason": answer.reason,
            }
        case _:
            return None


def _line(event: str, campaign: Campaign, at: str, values: dict[str, Any]) -> str:
    command = campaign.command
    shared = {
        "schema": SCHEMA,
        "event": event,
        "at": at,
        "campaign": campaign.id,
        "kernel": command.kernel if command else None,
        "stage": str(campaign.stage),
    }
    return json.dumps(shared | values, ensure_ascii=True, allow_nan=False)


def of_fact(fact: Fact, campaign: Campaign, at: str) -> str | None:
    """`campaign` holds the fact already."""
    told = _told(fact)
    return _line(told[0], campaign, at, told[1]) if told else None


def of_stage(campaign: Campaign, at: str) -> str:
    return _line("stage", campaign, at, {})


def of_checkpoint(campaign: Campaign, checkpoint: Checkpoint, at: str) -> str:
    """Somebody is asked; what may be answered."""
    choices = [variant_name(number) for number in campaign.lineage[1:]]
    best = variant_name(view.best(campaign)) if view.best(campaign) else None
    return _line("checkpoint", campaign, at, {"checkpoint": str(checkpoint), "recommended": best, "choices": choices})


def of_result(campaign: Campaign, at: str) -> str:
    best = view.best(campaign)
    return _line(
        "result",
        campaign,
        at,
        {
            "outcome": str(campaign.outcome) if campaign.outcome else None,
            "reason_code": str(campaign.reason) if campaign.reason else None,
            "detail": campaign.detail,
            "winner": variant_name(best) if best else None,
            **_score(view.score_of(campaign, best) if best else None),
            "commit": campaign.pushed,
        },
    )


def of_interrupt(campaign: Campaign, at: str, again: str) -> str:
    """Stopped by the person at the keyboard; `again` goes on from there."""
    return _line("interrupted", campaign, at, {"again": again})
