"""Folds away what is settled, so that a finished campaign shows its status and its result and little else.

It is a courtesy to the reader: a comment that cannot be folded stays as it is, and nothing else suffers.
"""

from __future__ import annotations

import sys

from bot.errors import ForgeError
from bot.forge.client import Forge, Hidden
from bot.forge.marks import key_of
from bot.model.campaign import Campaign
from bot.zones.people import ANSWERS


def _fold(forge: Forge, comment: int, why: Hidden) -> None:
    try:
        forge.minimize(comment, why)
    except ForgeError as error:
        print(f"comment {comment} stays open: {error}", file=sys.stderr)


def _ours(campaign: Campaign, forge: Forge) -> dict[int, str]:
    """Our own comments that still show, by id: key. Anybody can write a marker of ours, so the author's id decides."""
    assert campaign.pull is not None
    own = forge.me().id
    shown = (c for c in forge.comments(campaign.pull.number) if c.actor.id == own and not c.is_minimized)
    return {c.id: key for c in shown if (key := key_of(c.body))}


def hush_questions(campaign: Campaign, forge: Forge, but: str = "") -> None:
    """Questions that were answered or overtaken; `but` is the key of the one that waits."""
    for comment, key in _ours(campaign, forge).items():
        if key.startswith(f"{campaign.id}/checkpoint/") and key != f"{campaign.id}/{but}":
            _fold(forge, comment, "OUTDATED")


def hush_everything_but(campaign: Campaign, forge: Forge, kept: tuple[str, ...]) -> None:
    """At the end: the questions, earlier ends, and what people were answered on the way."""
    for comment, key in _ours(campaign, forge).items():
        if key.startswith(f"{campaign.id}/") and key not in kept:
            _fold(forge, comment, "OUTDATED")
        elif key.startswith(ANSWERS):
            _fold(forge, comment, "RESOLVED")
