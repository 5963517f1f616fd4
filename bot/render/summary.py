"""A campaign as one JSON object, for scripts and for `demo-output/summary.json`."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Round
from bot.model.ids import variant_name


def _variant(played: Round, campaign: Campaign) -> dict[str, Any]:
    verdict, number = played.verdict, played.variant.number
    score = verdict.score if verdict else None
    return {
        "name": variant_name(number),
        "title": played.variant.hypothesis.title,
        "technique": played.variant.hypothesis.technique,
        "proposer": played.variant.proposer,
        "parent": variant_name(played.variant.parent),
        "digest": played.variant.digest,
        "winner": campaign.winner == number,
        "verdict": str(verdict.decision) if verdict else None,
        "speedup": round(score.speed or score.value, 4) if score else None,
        "findings": [finding.model_dump(mode="json") for finding in verdict.findings] if verdict else [],
    }


def summary(campaign: Campaign) -> dict[str, Any]:
    """What was asked, what was found, how it ended. `speedup` is a ratio of `evidence`, over the whole suite."""
    profile = campaign.profile
    return {
        "schema": 1,
        "campaign": campaign.id,
        "kernel": campaign.command.kernel if campaign.command else None,
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
        "variants": [_variant(played, campaign) for played in campaign.rounds],
    }
