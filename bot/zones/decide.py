"""The decide zone: an event comes in, a campaign moves or somebody is answered. It never runs code of the PR."""

from __future__ import annotations

from typing import assert_never

from bot.commands import grammar
from bot.commands.markdown import command_lines
from bot.commands.policy import may
from bot.errors import UserError
from bot.forge.events import CommentPosted, Dispatched, Event, Ignored, ReviewsMayHaveChanged, Scheduled
from bot.model.commands import (
    Approve,
    Cancel,
    Command,
    CommandError,
    Explain,
    Help,
    ListKernels,
    Optimize,
    Reject,
    Restart,
    Retry,
    Status,
    Try,
)
from bot.model.people import Refusal
from bot.model.reasons import ReasonCode
from bot.settings import Settings
from bot.zones import refusals
from bot.zones.again import restart, retry
from bot.zones.campaigns import heard, newest_campaign, open_campaign
from bot.zones.desk import Desk, open_desk
from bot.zones.doors import Doors, Opener, open_doors
from bot.zones.hearing import hear, ignored
from bot.zones.moves import move, noted, start
from bot.zones.replies import mistaken, refused
from bot.zones.report import ZoneReport
from bot.zones.reviews import hear_reviews
from bot.zones.scribe import Scribe
from bot.zones.standing import standing_of
from bot.zones.telling import tell

__all__ = ["Desk", "act", "decide", "open_campaign", "open_desk"]


def _obey(command: Command, event: CommentPosted, desk: Desk, doors: Doors) -> ZoneReport:
    pull = doors.forge.pull(event.pull_number)
    known = heard(event, doors)
    if known is not None and not _cut_short(command, event, known):
        return noted(event, known, doors, ReasonCode.DUPLICATE_EVENT)
    scribe = newest_campaign(doors, event.pull_number)
    standing = standing_of(command, event, pull, doors)
    before, config = scribe.campaign if scribe else None, desk.config
    answer = may(command, event.actor, standing, pull, config.policy, before, config.sweep.pools)
    if isinstance(answer, Refusal):
        return refused(event, doors, answer)
    match command:
        case Help() | ListKernels() | Status() | Explain():
            return tell(command, event, scribe, desk, doors)
        case Optimize():
            return start(command, event, pull, desk, doors)
        case Approve() | Reject() | Cancel() | Try():
            assert scribe is not None, "the policy refuses these while nothing is waiting"
            return move(command, event, pull, scribe, doors)
        case Retry():
            assert scribe is not None, "the policy refuses this where no job failed"
            return retry(event, scribe, doors)
        case Restart():
            assert scribe is not None, "the policy refuses this before the first campaign"
            return restart(command, event, pull, scribe, desk, doors)
        case _:
            assert_never(command)


def _cut_short(command: Command, event: CommentPosted, known: Scribe) -> bool:
    """A restart whose job died between ending the old campaign and beginning the new one."""
    return isinstance(command, Restart) and known.campaign.comment_id != event.comment_id


def _comment(event: CommentPosted, settings: Settings, open: Opener) -> ZoneReport:
    """Parse first: a comment that holds no command costs neither a clone nor a request."""
    try:
        desk = open_desk(settings)
    except UserError as error:
        return _unready(event, settings, error, open)
    command = grammar.parse(event.body, desk.target.kernels())
    if command is None:
        return ignored(ReasonCode.NO_COMMAND, "the comment holds no command")
    doors = open(settings)
    doors.forge.react(event.comment_id, "eyes")
    if not event.is_pull:
        return refused(event, doors, refusals.not_a_pull())
    if isinstance(command, CommandError):
        return mistaken(event, doors, desk.explained(command))
    return _obey(command, event, desk, doors)


def _unready(event: CommentPosted, settings: Settings, error: UserError, open: Opener) -> ZoneReport:
    """The repository cannot be worked with; whoever asks is told what to mend."""
    if not command_lines(event.body[: grammar.LONGEST_COMMENT]):
        return ignored(ReasonCode.NO_COMMAND, "the comment holds no command")
    return refused(event, open(settings), refusals.unready(error))


def act(event: Event, settings: Settings, open: Opener = open_doors) -> ZoneReport:
    """`open` makes the doors: a replay's write nothing."""
    match event:
        case Ignored():
            return ignored(event.code, event.why)
        case CommentPosted():
            return _comment(event, settings, open)
        case ReviewsMayHaveChanged():
            return hear_reviews(event, settings, open)
        case Scheduled() | Dispatched():
            return ignored(ReasonCode.UNRELATED_EVENT, "nothing is scheduled in this version")
        case _:
            assert_never(event)


def decide(settings: Settings) -> ZoneReport:
    """One event from its file to its report."""
    return act(hear(settings), settings)
