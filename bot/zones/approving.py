"""Whether a yes counts: one set of rules for comments and reviews, asked when they come in and again before a push."""

from __future__ import annotations

import datetime
import re

from bot.commands.policy import may
from bot.forge.client import CommentView, Forge, ReviewView
from bot.model.campaign import Campaign
from bot.model.commands import Approve, Reject
from bot.model.ids import VariantNumber
from bot.model.people import Actor, Grant, Refusal, Standing
from bot.model.policy import RepoPolicy
from bot.model.pull import PullSnapshot

DECISIONS = ("APPROVED", "CHANGES_REQUESTED")
NAMED = re.compile(r"(?<![\w.])v(0|[1-9][0-9]{0,2})(?![\w.]*\w)")


def grant_of(
    command: Approve | Reject, actor: Actor, campaign: Campaign, now: PullSnapshot, policy: RepoPolicy, forge: Forge
) -> Grant | Refusal:
    """The policy's word on this answer, with the role that the account holds at this moment."""
    standing = Standing(role=forge.role(actor.login), wrote_pull=actor.id == now.author.id)
    return may(command, actor, standing, now, policy, campaign)


def last_decisions(reviews: tuple[ReviewView, ...]) -> tuple[ReviewView, ...]:
    """Each person's last word; later remarks are COMMENTED and take nothing back."""
    last: dict[int, ReviewView] = {}
    for review in reviews:
        if review.state != "COMMENTED":
            last[review.actor.id] = review
    return tuple(last.values())


def variants_named(body: str) -> tuple[VariantNumber, ...]:
    """The variants that a review speaks of, each once. What it quotes is somebody else's word."""
    own = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith(">"))
    return tuple(sorted({int(number) for number in NAMED.findall(own)}))


def blocking(
    reviews: tuple[ReviewView, ...], question: CommentView, campaign: Campaign, forge: Forge
) -> ReviewView | None:
    """A writer's request for changes that stands: given on the pinned commit after the question, and not taken back."""
    assert campaign.pull is not None
    head = campaign.pull.head_sha
    for review in last_decisions(reviews):
        about = review.commit_id == head and review.submitted_at >= question.created_at
        stands = review.state == "CHANGES_REQUESTED" and about and not review.actor.is_bot
        if stands and forge.role(review.actor.login).may_write:
            return review
    return None


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def is_past(since: str, days: int, now: str) -> bool:
    """Whether more than so many days lie between two times."""
    return moment(now) - moment(since) > datetime.timedelta(days=days)
