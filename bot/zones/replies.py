"""One answer to one comment, however often the comment is delivered, and the reaction that goes with it.

Who may not write here is answered too, but cannot make us fill a conversation: a no is explained once a pull request,
and what is open to everybody is kept in one comment a question, brought up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bot.forge.events import CommentPosted
from bot.forge.threads import find, keep, say_once
from bot.model.campaign import Campaign, Zone
from bot.model.commands import CommandError
from bot.model.people import Refusal
from bot.model.reasons import ReasonCode
from bot.render import comments
from bot.zones.doors import Doors
from bot.zones.people import asked_key, outsider_key, reply_key
from bot.zones.report import ZoneReport

REACTIONS = {"refused": "-1", "mistaken": "confused"}


def _react(event: CommentPosted, doors: Doors, reaction: str) -> None:
    doors.forge.react(event.comment_id, reaction)
    doors.forge.unreact(event.comment_id, "eyes")


def _is_outsider(event: CommentPosted, doors: Doors) -> bool:
    return not doors.forge.role(event.actor.login).may_write


def _explain_once(event: CommentPosted, doors: Doors, say: Callable[[bool], str], reaction: str) -> str:
    """To an outsider the first no on a pull request says why; after it a reaction is the answer."""
    number, outside = event.pull_number, event.is_pull and _is_outsider(event, doors)
    key = outsider_key(event.actor) if outside else reply_key(event.comment_id)
    known = find(doors.forge, number, key) is not None
    if not known:
        say_once(doors.forge, number, key, say(outside))
    _react(event, doors, reaction)
    return "a reaction is the answer: this account was told why before" if known and outside else ""


def answered(
    event: CommentPosted, doors: Doors, body: str, code: ReasonCode, campaign: Campaign | None = None, about: str = ""
) -> ZoneReport:
    """`about` names the question, for who asks it again."""
    if _is_outsider(event, doors):
        keep(doors.forge, event.pull_number, asked_key(event.actor, about or str(code), campaign), body)
    else:
        say_once(doors.forge, event.pull_number, reply_key(event.comment_id), body)
    _react(event, doors, "+1")
    return ZoneReport(zone=Zone.DECIDE, decision="answered", reason_code=code)


def _refusal(refusal: Refusal, event: CommentPosted, once: bool) -> str:
    return comments.refusal(refusal, event.actor, once=once)


def refused(event: CommentPosted, doors: Doors, refusal: Refusal) -> ZoneReport:
    say = partial(_refusal, refusal, event)
    said = _explain_once(event, doors, say, REACTIONS["refused"])
    return _no(refusal.code, refusal.what, said)


def mistaken(event: CommentPosted, doors: Doors, error: CommandError) -> ZoneReport:
    said = _explain_once(event, doors, lambda once: comments.command_error(error, event.actor), REACTIONS["mistaken"])
    return _no(error.code, error.what, said)


def _no(code: ReasonCode, what: str, said: str) -> ZoneReport:
    detail = f"{what}; {said}" if said else what
    return ZoneReport(zone=Zone.DECIDE, decision="refused", reason_code=code, detail=detail)
