"""What GitHub and the ledger say of whoever asks, before the policy weighs it."""

from __future__ import annotations

from bot.campaign.spending import seconds_of_person
from bot.forge.events import CommentPosted
from bot.model.campaign import Zone
from bot.model.commands import Command, Optimize, Restart, Retry
from bot.model.people import Standing
from bot.model.pull import PullSnapshot
from bot.zones.doors import Doors
from bot.zones.ground import trusted
from bot.zones.scribe import Scribe


def _seconds_today(event: CommentPosted, doors: Doors) -> float:
    scribes = (Scribe(doors.ledger, name, Zone.DECIDE, doors.clock) for name in doors.ledger.campaigns())
    day = doors.clock()[: len("2026-01-02")]
    return seconds_of_person(((scribe.campaign, scribe.lines) for scribe in scribes), event.actor.id, day)


def standing_of(command: Command, event: CommentPosted, pull: PullSnapshot, doors: Doors) -> Standing:
    """What only a campaign to come depends on is asked for one alone."""
    role, wrote = doors.forge.role(event.actor.login), event.actor.id == pull.author.id
    if not isinstance(command, Optimize | Retry | Restart):
        return Standing(role=role, wrote_pull=wrote)
    return Standing(
        role=role,
        wrote_pull=wrote,
        trusted_pull=not pull.from_fork and (role.may_write if wrote else trusted(pull, doors)),
        gpu_seconds_today=_seconds_today(event, doors),
    )
