"""What the bot asks of a place where pull requests live. Importing this costs nothing; `open_forge` brings PyGithub."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from bot.errors import OperatorError
from bot.forge.views import CommentView, Hidden, ReviewView, StatusState
from bot.model.people import Actor, Role
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode

__all__ = ["CommentView", "Forge", "Hidden", "ReviewView", "StatusState", "open_forge", "own_account"]


class Forge(Protocol):
    """Everything may raise ForgeError. Its twin in memory is tests/fakes/forge.py."""

    def me(self) -> Actor:
        """The account our token writes as."""

    def pull(self, number: int) -> PullSnapshot: ...

    def role(self, login: str) -> Role:
        """NONE for a stranger; any other trouble is an error, so that nobody gains a right by an outage."""

    def comments(self, number: int) -> tuple[CommentView, ...]:
        """All of them, oldest first."""

    def comment(self, comment_id: int) -> CommentView | None: ...

    def post_comment(self, number: int, body: str) -> int:
        """A new comment. `threads.say_once` is what a zone calls."""

    def edit_comment(self, comment_id: int, body: str) -> None: ...

    def minimize(self, comment_id: int, why: Hidden = "OUTDATED") -> None:
        """Fold a comment away; it can still be opened. One that is folded already is left alone."""

    def react(self, comment_id: int, content: str) -> None: ...

    def unreact(self, comment_id: int, content: str) -> None:
        """Take back our own reaction, if there is one."""

    def reviews(self, number: int) -> tuple[ReviewView, ...]:
        """Submitted ones, oldest first."""

    def set_status(
        self, sha: str, state: StatusState, context: str, description: str, target_url: str = ""
    ) -> None: ...

    def changed_files(self, number: int) -> tuple[str, ...]:
        """Paths the pull request touches; a rename is two."""

    def pulls_with_head(self, sha: str) -> tuple[int, ...]:
        """Open pull requests whose head is this commit, those from forks too."""

    def branch_sha(self, ref: str) -> str | None:
        """Where a branch of the base repository stands."""


def own_account(login: str | None, number: int | None) -> Actor | str | None:
    """What a job was told of its token's account: all of it, the login alone, or nothing."""
    if number is not None and not login:
        raise OperatorError(
            "the bot's id was given without its login",
            hint="set KERNELWRIGHT_BOT_LOGIN beside KERNELWRIGHT_BOT_ID, or neither of them",
            reason=ReasonCode.CONFIG_INVALID,
        )
    if not login or number is None:
        return login
    return Actor(id=number, login=login, is_bot=login.endswith("[bot]"))


def open_forge(
    api_url: str,
    repo: str,
    token: str,
    *,
    own_login: str | None = None,
    own_id: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Forge:
    """Connect to a repository on GitHub. Nothing is asked of it yet.

    `own_login` and `own_id` name the account of a token that may not ask who it is.
    """
    from bot.forge.rest import GithubForge, connect

    return GithubForge(connect(api_url, token), repo, own_account(own_login, own_id), sleep)
