"""Keys of what people are answered with beside a campaign's own comments."""

from __future__ import annotations

from bot.model.campaign import Campaign, Stage
from bot.model.people import Actor

ANSWERS = ("reply/", "outsider/", "asked/")


def reply_key(comment: int) -> str:
    """The one answer to one comment."""
    return f"reply/{comment}"


def outsider_key(actor: Actor) -> str:
    """The one explanation somebody without write access gets on a pull request."""
    return f"outsider/{actor.id}"


def asked_key(actor: Actor, about: str, campaign: Campaign | None) -> str:
    """An outsider's question, once while the campaign runs and once after it: by then the first was folded away."""
    where = f"{campaign.id}/{'over' if campaign.stage is Stage.ENDED else 'open'}" if campaign else "none"
    return f"asked/{actor.id}/{about}/{where}"
