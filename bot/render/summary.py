"""A campaign as one JSON object, for scripts and for `demo-output/summary.json`."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Round
from bot.model.ids import variant_name
from bot.model.rivals import Rivalry
from bot.model.verdict import CaseScore, Score
from bot.render import gains, mind, numbers, rival_rows

DECIMALS = 4


def _figure(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)


def _case(case: CaseScore) -> dict[str, Any]:
    return {
        "case": case.case,
        "before_us": _figure(case.before_us),
        "after_us": _figure(case.after_us),
        "speedup": _figure(case.speedup),
        "memory_ratio": _figure(case.memory_ratio),
    }


def _score(campaign: Campaign, number: int, score: Score | None) -> dict[str, Any]:
    """`speedup` is what people read; `score` is what was judged, into which the goal may weigh memory."""
    span = numbers.speed_interval(score) if score else None
    return {
        "speedup": _figure(numbers.speed(score)) if score else None,
        "speedup_low": _figure(span[0]) if span else None,
        "speedup_high": _figure(span[1]) if span else None,
        "score": _figure(score.value) if score else None,
        "memory_ratio": _figure(score.memory) if score else None,
        "shapes": [
            {
                "shape": row.name,
                "before_us": _figure(row.before_us),
                "after_us": _figure(row.after_us),
                "speedup": _figure(row.speedup),
            }
            for row in gains.shapes(campaign, number)
        ],
        "cases": [_case(case) for case in score.cases] if score else [],
    }


def _variant(played: Round, campaign: Campaign) -> dict[str, Any]:
    verdict, number = played.verdict, played.variant.number
    return {
        "name": variant_name(number),
        "title": played.variant.hypothesis.title,
        "technique": played.variant.hypothesis.technique,
        "proposer": played.variant.proposer,
        "parent": variant_name(played.variant.parent),
        "digest": played.variant.digest,
        "winner": campaign.winner == number,
        "verdict": str(verdict.decision) if verdict else None,
        "gain_over_best": _figure(verdict.gain_over_best) if verdict else None,
        **_score(campaign, number, verdict.score if verdict else None),
        "findings": [finding.model_dump(mode="json") for finding in verdict.findings] if verdict else [],
    }


def summary(campaign: Campaign, rivals: Rivalry | None = None) -> dict[str, Any]:
    """What was asked, what was found, how it ended. Every ratio is v0 over the variant: above 1 is less time or memory;
    `evidence` says whether a GPU measured the times or a model estimated them."""
    profile, command = campaign.profile, campaign.command
    return {
        "schema": 1,
        "campaign": campaign.id,
        "kernel": command.kernel if command else None,
        "goal": str(command.goal) if command else None,
        "evidence": str(profile.baseline.runner.evidence) if profile else None,
        "arch": profile.baseline.runner.arch if profile else None,
        "pinned_sha": campaign.pull.head_sha if campaign.pull else None,
        "pushed_commit": campaign.pushed,
        "stage": str(campaign.stage),
        "outcome": str(campaign.outcome) if campaign.outcome else None,
        "reason_code": str(campaign.reason) if campaign.reason else None,
        "detail": campaign.detail,
        "stopped": str(campaign.stopped) if campaign.stopped else None,
        "diagnosis": profile.diagnosis.sentence if profile else None,
        "mind": list(mind.of_ending(campaign)),
        "speedup_is": gains.mean_of(campaign),
        "variants": [_variant(played, campaign) for played in campaign.rounds],
        "rivals": rival_rows.as_json(rivals),
    }
