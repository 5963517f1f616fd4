"""The question a campaign waits on, as GitHub shows it. An answer counts only after it."""

from __future__ import annotations

from bot.campaign.effects import AskHuman
from bot.forge.client import CommentView, Forge
from bot.forge.threads import find
from bot.model.campaign import Campaign, Checkpoint


def question_of(campaign: Campaign, checkpoint: Checkpoint, forge: Forge) -> CommentView | None:
    """Our own comment that asks it; None when it was not asked yet, or was deleted since."""
    assert campaign.pull is not None
    key = AskHuman(checkpoint=checkpoint, turn=len(campaign.orders)).key
    return find(forge, campaign.pull.number, f"{campaign.id}/{key}")
