"""A pull request as GitHub described it at one moment."""

from __future__ import annotations

from bot.model.ids import CommitSha, RefName, RepoName
from bot.model.people import Actor
from bot.model.word import Word

CHECKOUT = "local/checkout"
"""In place of a repository's name where a campaign is of a checkout and of no pull request."""


class PullSnapshot(Word):
    number: int
    is_open: bool
    is_draft: bool
    author: Actor
    head_sha: CommitSha
    head_ref: RefName
    head_repo: RepoName | None
    """None when the fork was deleted."""
    base_ref: RefName
    base_repo: RepoName
    base_sha: CommitSha | None = None
    """Where the target branch stood when a campaign began; None when it was not asked for, or is gone."""

    @property
    def from_fork(self) -> bool:
        return self.head_repo != self.base_repo

    @property
    def is_local(self) -> bool:
        """Nothing is pushed from there: a winner is a commit on a branch of the checkout."""
        return self.number == 0 and self.head_repo == CHECKOUT
