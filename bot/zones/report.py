"""What a zone says when it exits: one JSON object for the job after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from bot.campaign.machine import owed
from bot.campaign.queueing import pool_of
from bot.model.campaign import Campaign, Order, Stage, Zone
from bot.model.reasons import ReasonCode
from bot.model.sweep import Pool
from bot.model.word import Word

Next = Literal["measure", "publish", "push", "wait", "none"]


class ZoneReport(Word):
    zone: Zone
    decision: Literal["acted", "answered", "refused", "ignored", "failed"]
    reason_code: ReasonCode
    detail: str = ""
    campaign: str = ""
    stage: Stage | None = None
    order: Order | None = None
    ledger_commit: str = ""
    pinned_sha: str = ""
    pool: Pool | None = None
    """The GPU family that the order waits for."""
    next: Next = "none"


def what_next(campaign: Campaign) -> Next:
    """Which zone has work now; `wait` when a human has it."""
    if campaign.order is not None:
        return "measure"
    zones = [effect.zones for effect in owed(campaign)]
    if any(Zone.PUSH in zone and Zone.DECIDE not in zone for zone in zones):
        return "push"
    if zones:
        return "publish"
    return "none" if campaign.stage in (Stage.ENDED, Stage.NEW) else "wait"


def about(
    zone: Zone, campaign: Campaign, *, code: ReasonCode, ledger_commit: str, decision: str = "acted", detail: str = ""
) -> ZoneReport:
    return ZoneReport.model_validate(
        {
            "zone": zone,
            "decision": decision,
            "reason_code": code,
            "detail": detail,
            "campaign": campaign.id,
            "stage": campaign.stage,
            "order": campaign.order,
            "ledger_commit": ledger_commit,
            "pinned_sha": campaign.pull.head_sha if campaign.pull else "",
            "pool": pool_of(campaign) if campaign.order else None,
            "next": what_next(campaign),
        }
    )


def write_outputs(report: ZoneReport, path: Path | None) -> None:
    """Step outputs for the workflow. JSON holds no newline, so no value can forge another output."""
    if path is None:
        return
    lines = [
        f"decision={report.decision}",
        f"reason_code={report.reason_code}",
        f"campaign={report.campaign}",
        f"next={report.next}",
        f"result={json.dumps(report.model_dump(mode='json'), separators=(',', ':'))}",
    ]
    with path.open("a", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
