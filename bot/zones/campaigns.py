"""The campaigns of one pull request, as the ledger holds them."""

from __future__ import annotations

from collections.abc import Iterator

from bot.forge.events import CommentPosted
from bot.model.campaign import Stage, Zone
from bot.model.facts import Answered, CampaignRequested, Cancelled, Fact, Retried, TryRequested
from bot.zones.doors import Doors
from bot.zones.scribe import Scribe


def campaigns_of(doors: Doors, pull: int) -> Iterator[Scribe]:
    for name in doors.ledger.campaigns():
        scribe = Scribe(doors.ledger, name, Zone.DECIDE, doors.clock)
        if scribe.campaign.pull and scribe.campaign.pull.number == pull:
            yield scribe


def open_campaign(doors: Doors, pull: int) -> Scribe | None:
    """The campaign of this pull request that has not ended."""
    return next((s for s in campaigns_of(doors, pull) if s.campaign.stage is not Stage.ENDED), None)


def newest_campaign(doors: Doors, pull: int) -> Scribe | None:
    """The open campaign, else the one that began last."""
    every = list(campaigns_of(doors, pull))
    return next(
        (s for s in every if s.campaign.stage is not Stage.ENDED),
        max(every, key=lambda s: (s.campaign.requested_at, s.campaign.comment_id), default=None),
    )


def spoke(fact: Fact, comment: int) -> bool:
    """Whether this fact was written because of that comment."""
    match fact:
        case CampaignRequested() | Cancelled() | TryRequested() | Retried():
            return fact.comment_id == comment
        case Answered():
            return fact.answer.via == "comment" and fact.answer.source_id == comment
        case _:
            return False


def heard(event: CommentPosted, doors: Doors) -> Scribe | None:
    """The campaign that already took this comment in: it was delivered twice, or the job died after that."""
    return next(
        (
            scribe
            for scribe in campaigns_of(doors, event.pull_number)
            if any(spoke(line.fact, event.comment_id) for line in scribe.lines)
        ),
        None,
    )
