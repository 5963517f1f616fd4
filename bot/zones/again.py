"""Second chances: a job that failed is done again, or a campaign is begun anew on the current head."""

from __future__ import annotations

from bot.commands.mistakes import unknown_kernel
from bot.forge.events import CommentPosted
from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.commands import Restart
from bot.model.facts import Cancelled, Fact, Retried
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.zones import refusals
from bot.zones.conversation import FINAL_REACTION
from bot.zones.desk import Desk
from bot.zones.doors import Doors
from bot.zones.hushing import hush_everything_but
from bot.zones.moves import go_on, noted, start
from bot.zones.replies import mistaken, refused
from bot.zones.report import ZoneReport
from bot.zones.scribe import Scribe


def retry(event: CommentPosted, scribe: Scribe, doors: Doors) -> ZoneReport:
    """The order that failed is placed anew, with what was found until then, at the commit that was pinned."""
    fact = Retried(actor=event.actor, comment_id=event.comment_id)

    def while_it_failed(now: Campaign) -> tuple[Fact, ...]:
        return (fact,) if now.stage is Stage.ENDED and now.outcome is Outcome.FAILED else ()

    if not scribe.settle(while_it_failed):
        return refused(event, doors, refusals.too_late(scribe.campaign))
    hush_everything_but(scribe.campaign, doors.forge, (f"{scribe.campaign.id}/status",))
    began = scribe.campaign.comment_id
    doors.forge.react(began, "eyes")
    doors.forge.unreact(began, FINAL_REACTION[Outcome.FAILED])
    return noted(event, scribe, doors, ReasonCode.ACCEPTED)


def _retire(event: CommentPosted, scribe: Scribe, doors: Doors) -> bool:
    """End the campaign whose place is taken. False when it can no longer be stopped."""
    why = f"begun anew on the current head by {event.actor.login}"
    fact = Cancelled(actor=event.actor, comment_id=event.comment_id, detail=why)
    if scribe.campaign.stage not in (Stage.CLOSING, Stage.ENDED):
        before = len(scribe.campaign.ignored)
        scribe.record(fact)
        if len(scribe.campaign.ignored) > before:
            return False
    go_on(scribe, doors, ReasonCode.CANCELLED_BY_USER)
    return scribe.campaign.stage is Stage.ENDED


def restart(
    command: Restart, event: CommentPosted, pull: PullSnapshot, scribe: Scribe, desk: Desk, doors: Doors
) -> ZoneReport:
    """The same request again, on the head as it is now. The old campaign ends first: a pull request has one."""
    asked = scribe.campaign.command
    assert asked is not None, "the policy refuses this before the first campaign"
    if asked.kernel not in desk.target.kernels():
        return mistaken(event, doors, desk.explained(unknown_kernel(asked.kernel, (), desk.target.kernels(), "")))
    if not _retire(event, scribe, doors):
        return refused(event, doors, refusals.too_late(scribe.campaign))
    if scribe.campaign.outcome is not Outcome.PUSHED:
        hush_everything_but(scribe.campaign, doors.forge, ())
    anew = asked.model_copy(update={"sha": command.sha})
    return start(anew, event, pull, desk, doors, restarts=scribe.campaign.id)
