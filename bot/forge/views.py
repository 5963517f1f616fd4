"""What we see of a conversation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from bot.model.ids import CommitSha
from bot.model.people import Actor
from bot.model.word import Word

StatusState: TypeAlias = Literal["error", "failure", "pending", "success"]
Hidden: TypeAlias = Literal["OUTDATED", "RESOLVED"]
"""Why a comment of ours is folded away."""


class CommentView(Word):
    id: int
    actor: Actor
    body: str
    created_at: str
    updated_at: str
    url: str = ""
    is_minimized: bool = False


class ReviewView(Word):
    id: int
    actor: Actor
    state: str
    """APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED."""
    commit_id: str
    submitted_at: str
    body: str = ""


class PullView(Word):
    """A pull request from one branch of the repository itself, whatever became of it."""

    number: int
    author: Actor
    title: str
    body: str
    is_open: bool
    is_merged: bool
    head_sha: CommitSha
    url: str


class IssueView(Word):
    number: int
    author: Actor
    title: str
    body: str
    is_open: bool
    url: str


class Answer(Word):
    """Whatever GitHub said to one request of doctor's."""

    status: int
    """0 when there was no answer."""
    data: Any = None
