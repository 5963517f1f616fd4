"""Every no about what has been: a variant to explain, a job to do again, a campaign to begin anew."""

from __future__ import annotations

from bot.commands.refusals import NOW
from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.ids import CommitSha, variant_name
from bot.model.people import Refusal
from bot.model.reasons import ReasonCode

WAYS_ON = {
    Outcome.PUSHED: "its winner was pushed",
    Outcome.REVERTED: "it has its result, and nothing was pushed",
    Outcome.NOTHING_TO_DO: "it found nothing better",
    Outcome.REJECTED: "somebody said no",
    Outcome.CANCELLED: "somebody cancelled it",
}


def no_campaign(verb: str) -> Refusal:
    return Refusal(
        code=ReasonCode.NO_CAMPAIGN,
        what=f"there is nothing to {verb}",
        why="Nobody has started a campaign on this pull request yet.",
        next="`/optimize list` shows the kernels; `/optimize <kernel>` starts a campaign for one.",
        paste="/optimize list",
    )


def not_failed(campaign: Campaign) -> Refusal:
    """The campaign is still at work, or it ended with an answer; neither is a job to do again."""
    if campaign.stage is not Stage.ENDED:
        return Refusal(
            code=ReasonCode.NOTHING_TO_RETRY,
            what="there is nothing to retry yet",
            why=f"No job of the open campaign has failed. Right now {NOW[campaign.stage]}.",
            next="Wait for it, or begin anew on the current head with `/optimize restart`.",
            paste="/optimize status",
        )
    end = WAYS_ON.get(campaign.outcome, "no job of it was lost") if campaign.outcome else "it is over"
    return Refusal(
        code=ReasonCode.NOTHING_TO_RETRY,
        what="there is nothing to retry",
        why=f"A retry does a failed job again. No job of the last campaign failed: {end}.",
        next="A new campaign with the same options, on the current head:",
        paste="/optimize restart",
    )


def retried_enough(campaign: Campaign) -> Refusal:
    return Refusal(
        code=ReasonCode.NOTHING_TO_RETRY,
        what=f"this job was already retried {campaign.retries} times",
        why="What fails that often does not mend itself, and every try costs time on the machine.",
        next="Show its last comment to whoever runs this bot. Once the cause is mended, begin anew:",
        paste="/optimize restart",
    )


def head_moved_since(campaign: Campaign, now: CommitSha) -> Refusal:
    """A retry is of the pinned commit alone; what stands there now is another question."""
    pinned = campaign.pull.head_sha[:7] if campaign.pull else "another commit"
    return Refusal(
        code=ReasonCode.REF_CHANGED,
        what=f"the campaign was pinned to {pinned}, and the head is now {now[:7]}",
        why="A retry works on the same commit as before, and its result could not be pushed any more.",
        next="Begin anew on the current head, with the same options:",
        paste="/optimize restart",
    )


def never_made(wanted: int, campaign: Campaign) -> Refusal:
    """Nothing to explain under this name; the nearest one there is goes into the line below."""
    made = [played.variant.number for played in campaign.rounds]
    near = min(made, key=lambda number: (abs(number - wanted), number), default=0)
    there = f"v0 to {variant_name(made[-1])}" if made else "v0, the untouched kernel, alone"
    return Refusal(
        code=ReasonCode.NO_SUCH_VARIANT,
        what=f"{variant_name(wanted)} does not exist in this campaign",
        why=f"There {'are' if made else 'is'} {there}. A variant gets its number when it is made.",
        next=f"Did you mean {variant_name(near)}?",
        paste=f"/optimize explain {variant_name(near)}",
    )
