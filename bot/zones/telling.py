"""Questions that change nothing: help, list, status, explain."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from bot.commands import help
from bot.forge.events import CommentPosted
from bot.git.difference import difference
from bot.model.campaign import Campaign, Stage
from bot.model.commands import Explain, Help, ListKernels, Status
from bot.model.reasons import ReasonCode
from bot.render import comments
from bot.zones.conversation import links
from bot.zones.desk import Desk
from bot.zones.doors import Doors
from bot.zones.replies import answered
from bot.zones.report import ZoneReport
from bot.zones.scribe import Scribe
from bot.zones.waiting import waiting

Question: TypeAlias = Help | ListKernels | Status | Explain
CODES = {
    "help": ReasonCode.HELP_COMPLETED,
    "list": ReasonCode.LIST_COMPLETED,
    "status": ReasonCode.STATUS_COMPLETED,
    "explain": ReasonCode.EXPLAIN_COMPLETED,
}


def _told(command: Question, event: CommentPosted, scribe: Scribe | None, desk: Desk, doors: Doors) -> str:
    kernels = desk.target.kernels()
    match command:
        case Help(topic=topic) if topic is not None:
            return comments.meaning(topic)
        case Help():
            touched = desk.touched(doors.forge.changed_files(event.pull_number))
            return comments.help(help.page(kernels, desk.config.policy, touched))
        case ListKernels():
            return comments.listing(kernels, desk.touched(doors.forge.changed_files(event.pull_number)))
        case Status():
            return _status(scribe, doors)
        case Explain():
            assert scribe is not None, "the policy refuses this before the first campaign"
            found = links(scribe.campaign, scribe, doors)
            return comments.explanation(scribe.campaign, command.variant, found, difference)
        case _:
            assert_never(command)


def _status(scribe: Scribe | None, doors: Doors) -> str:
    if scribe is None or scribe.campaign.stage is Stage.ENDED:
        return comments.status_none(scribe.campaign if scribe else None)
    return comments.status(scribe.campaign, links(scribe.campaign, scribe, doors), waiting(scribe, doors))


def tell(command: Question, event: CommentPosted, scribe: Scribe | None, desk: Desk, doors: Doors) -> ZoneReport:
    """`scribe` holds the open campaign of the pull request, else its last one."""
    body = _told(command, event, scribe, desk, doors)
    campaign: Campaign | None = scribe.campaign if scribe else None
    return answered(event, doors, body, CODES[command.verb], campaign, command.verb)
