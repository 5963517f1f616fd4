"""What we see of a conversation."""

from __future__ import annotations

from typing import Literal, TypeAlias

from bot.model.people import Actor
from bot.model.word import Word

StatusState: TypeAlias = Literal["error", "failure", "pending", "success"]


class CommentView(Word):
    id: int
    actor: Actor
    body: str
    created_at: str
    updated_at: str
    url: str = ""


class ReviewView(Word):
    id: int
    actor: Actor
    state: str
    """APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED."""
    commit_id: str
    submitted_at: str
    body: str = ""
