"""The door for pull requests and issues of our own, by GitHub's REST API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from github import Github
from github.Issue import Issue
from github.PullRequest import PullRequest

from bot.errors import OperatorError
from bot.forge.calls import CallFailed, calling, read, write
from bot.forge.client import Forge
from bot.forge.marks import key_of
from bot.forge.rest import actor_of
from bot.forge.views import IssueView, PullView
from bot.model.people import Actor
from bot.model.reasons import ReasonCode

T = TypeVar("T")
NOT_ALLOWED = "not permitted to create or approve pull requests"
"""GitHub's words while a setting of the repository keeps Actions from it, whatever rights the token has."""


def _pull(found: PullRequest) -> PullView:
    return PullView(
        number=found.number,
        author=actor_of(found.user),
        title=found.title,
        body=found.body or "",
        is_open=found.state == "open",
        is_merged=found.merged_at is not None,
        head_sha=found.head.sha,
        url=found.html_url,
    )


def _issue(found: Issue) -> IssueView:
    return IssueView(
        number=found.number,
        author=actor_of(found.user),
        title=found.title,
        body=found.body or "",
        is_open=found.state == "open",
        url=found.html_url,
    )


def _may_not_open(failure: CallFailed) -> CallFailed | OperatorError:
    if NOT_ALLOWED not in str(failure):
        return failure
    return OperatorError(
        "this repository does not let GitHub Actions open pull requests",
        hint="Settings > Actions > General > Workflow permissions: allow Actions to create pull requests; "
        "or give the push job the token of a GitHub App",
        reason=ReasonCode.PUSH_FORBIDDEN,
    )


class GithubOffers:
    def __init__(self, github: Github, repo: str, own: Forge, sleep: Callable[[float], None]) -> None:
        self._repo = github.get_repo(repo)
        self._owner = repo.partition("/")[0]
        self._own = own
        self._sleep = sleep

    def me(self) -> Actor:
        return self._own.me()

    def _read(self, what: str, ask: Callable[[], T]) -> T:
        return read(what, ask, self._sleep)

    # Pull requests

    def pulls_from(self, branch: str) -> tuple[PullView, ...]:
        def ask() -> tuple[PullView, ...]:
            found = self._repo.get_pulls(state="all", head=f"{self._owner}:{branch}", sort="created", direction="desc")
            return tuple(_pull(pull) for pull in found if pull.head.ref == branch)

        return self._read(f"reading the pull requests from {branch}", ask)

    def _open_one(self, branch: str) -> int | None:
        ours = (pull for pull in self.pulls_from(branch) if pull.is_open and pull.author.id == self.me().id)
        return next((pull.number for pull in ours), None)

    def open_pull(self, *, head: str, base: str, title: str, body: str) -> int:
        def create() -> int:
            try:
                with calling(f"opening a pull request from {head}"):
                    return self._repo.create_pull(base, head, title=title, body=body).number
            except CallFailed as failure:
                raise _may_not_open(failure) from failure

        return self._open_one(head) or write(create, partial(self._open_one, head), self._sleep)

    def edit_pull(self, number: int, *, title: str, body: str) -> None:
        self._edit(f"editing pull request {number}", partial(self._repo.get_pull(number).edit, title=title, body=body))

    # Issues

    def own_issues(self) -> tuple[IssueView, ...]:
        me = self.me()

        def ask() -> tuple[IssueView, ...]:
            mine: Any = me.login  # its type says an account, which would have to be asked for
            found = self._repo.get_issues(state="all", creator=mine, sort="created", direction="asc")
            # An issue of the list that is a pull request has this field; PyGithub would ask for the others once more.
            return tuple(_issue(issue) for issue in found if "pull_request" not in issue._rawData)

        return tuple(issue for issue in self._read("reading our own issues", ask) if issue.author.id == me.id)

    def _marked(self, key: str) -> int | None:
        return next((issue.number for issue in self.own_issues() if key_of(issue.body) == key), None)

    def open_issue(self, *, title: str, body: str) -> int:
        def create() -> int:
            with calling(f"opening the issue {title[:60]!a}"):
                return self._repo.create_issue(title, body).number

        key = key_of(body)
        return write(create, partial(self._marked, key) if key else None, self._sleep)

    def edit_issue(self, number: int, *, title: str, body: str) -> None:
        self._edit(f"editing issue {number}", partial(self._repo.get_issue(number).edit, title=title, body=body))

    def _edit(self, what: str, act: Callable[[], object]) -> None:
        def edit() -> bool:
            with calling(what):
                act()
            return True

        write(edit, lambda: None, self._sleep)  # the same words twice are the same words
