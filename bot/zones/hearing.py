"""The event of a job, read before anything else is: every comment is an event, and most are nobody's business."""

from __future__ import annotations

from bot.errors import UserError
from bot.forge.events import Event, Ignored, read_event
from bot.model.campaign import Zone
from bot.model.reasons import ReasonCode
from bot.settings import Settings
from bot.zones.report import ZoneReport


def hear(settings: Settings) -> Event:
    if settings.event_path is None or not settings.event_path.is_file():
        raise UserError(
            f"GITHUB_EVENT_PATH: no event was given, or {settings.event_path} is no file",
            hint="set GITHUB_EVENT_PATH to the file of the event; GitHub Actions does it itself",
            reason=ReasonCode.CONFIG_INVALID,
        )
    return read_event(settings.event_name, settings.event_path.read_bytes(), settings.bot_id)


def ignored(code: ReasonCode, why: str) -> ZoneReport:
    return ZoneReport(zone=Zone.DECIDE, decision="ignored", reason_code=code, detail=why)


def dismissed(event: Event) -> ZoneReport | None:
    """The report on an event that is nobody's business; None for one that matters."""
    return ignored(event.code, event.why) if isinstance(event, Ignored) else None
