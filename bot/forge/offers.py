"""What the bot opens by itself: pull requests of its own branches, and issues. Kept apart from the conversation, for
only the sweep may do it. Importing this costs nothing; `open_offers` brings PyGithub.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from bot.forge.client import own_account
from bot.forge.marks import key_of
from bot.forge.views import IssueView, PullView
from bot.model.people import Actor

__all__ = ["IssueView", "Offers", "PullView", "find_issue", "open_offers"]


class Offers(Protocol):
    """Everything may raise ForgeError. Its twin in memory is tests/fakes/offers.py."""

    def me(self) -> Actor:
        """The account our token writes as."""

    def pulls_from(self, branch: str) -> tuple[PullView, ...]:
        """Pull requests from this branch of the repository itself, open, closed and merged, the newest first."""

    def open_pull(self, *, head: str, base: str, title: str, body: str) -> int:
        """A new pull request. When ours from that branch is open already, that one's number."""

    def edit_pull(self, number: int, *, title: str, body: str) -> None: ...

    def own_issues(self) -> tuple[IssueView, ...]:
        """Issues that our account opened, open and closed, the oldest first. No pull requests among them."""

    def open_issue(self, *, title: str, body: str) -> int:
        """A new issue. Its body begins with a marker, by which it is found again after a doubtful answer."""

    def edit_issue(self, number: int, *, title: str, body: str) -> None: ...


def find_issue(offers: Offers, key: str) -> IssueView | None:
    """Our issue with this key, the oldest where there are several. Anybody can write our marker: the author decides."""
    return next((issue for issue in offers.own_issues() if key_of(issue.body) == key), None)


def open_offers(
    api_url: str,
    repo: str,
    token: str,
    *,
    own_login: str | None = None,
    own_id: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Offers:
    """Connect to a repository on GitHub, as `client.open_forge` does."""
    from bot.forge.offers_rest import GithubOffers
    from bot.forge.rest import GithubForge, connect

    github = connect(api_url, token)
    own = GithubForge(github, repo, own_account(own_login, own_id), sleep)
    return GithubOffers(github, repo, own, sleep)
