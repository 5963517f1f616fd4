"""The door to GitHub's REST API. PyGithub repeats nothing by itself: `calls` does, and looks before it writes again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from github import Auth, Github
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PullRequest import PullRequest
from github.PullRequestReview import PullRequestReview
from pydantic import ValidationError

from bot.errors import ForgeError, OperatorError
from bot.forge.calls import CallFailed, calling, if_there, read, write
from bot.forge.marks import key_of
from bot.forge.views import CommentView, Hidden, ReviewView, StatusState
from bot.model.people import Actor, Role
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode

ACTIONS_BOT = Actor(id=41898282, login="github-actions[bot]", is_bot=True)
GHOST = Actor(id=10137, login="ghost")
"""Whom GitHub shows for an account that was deleted."""
ROLES = {str(role): role for role in Role}
LONGEST_DESCRIPTION = 140
TIMEOUT_S = 30

T = TypeVar("T")


def connect(api_url: str, token: str) -> Github:
    return Github(
        base_url=api_url,
        auth=Auth.Token(token),
        lazy=True,
        retry=None,  # its own sends a POST again after a 502, and two comments stand there
        per_page=100,
        timeout=TIMEOUT_S,
        user_agent="kernelwright",
        seconds_between_requests=None,
        seconds_between_writes=None,
    )


def _when(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def actor_of(user: NamedUser | Organization | None) -> Actor:
    if user is None:
        return GHOST
    try:
        return Actor(id=user.id, login=user.login, is_bot=user.type == "Bot")
    except ValidationError:
        # A login outside our pattern must not hide a whole conversation. Nobody has this name, so it holds no right.
        return Actor(id=user.id, login=f"account-{user.id}", is_bot=user.type == "Bot")


def _comment(found: IssueComment) -> CommentView:
    return CommentView(
        id=found.id,
        actor=actor_of(found.user),
        body=found.body or "",
        created_at=_when(found.created_at),
        updated_at=_when(found.updated_at),
        url=found.html_url,
        # PyGithub has no word for it; its raw_data would ask for the comment once more.
        is_minimized=bool(found._rawData.get("minimized")),
    )


def _review(found: PullRequestReview) -> ReviewView:
    return ReviewView(
        id=found.id,
        actor=actor_of(found.user),
        state=found.state,
        commit_id=found.commit_id or "",
        submitted_at=_when(found.submitted_at),
        body=found.body or "",
    )


def _pull(found: PullRequest) -> PullSnapshot:
    home: Any = found.head.repo  # None when the fork was deleted, whatever PyGithub's types say
    try:
        return PullSnapshot(
            number=found.number,
            is_open=found.state == "open",
            is_draft=found.draft,
            author=actor_of(found.user),
            head_sha=found.head.sha,
            head_ref=found.head.ref,
            head_repo=home.full_name if home else None,
            base_ref=found.base.ref,
            base_repo=found.base.repo.full_name,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ForgeError(
            f"pull request {found.number}: its {where} is not one we can work with",
            hint="give the branch a name of letters, digits, dots, dashes and slashes",
        ) from error


class GithubForge:
    def __init__(self, github: Github, repo: str, own: Actor | str | None, sleep: Callable[[float], None]) -> None:
        self._github = github
        self._repo = github.get_repo(repo)
        self._own = own
        self._sleep = sleep

    def me(self) -> Actor:
        """As we were told; else as GitHub says; else GitHub's own bot, for a job's own token may not ask."""
        if not isinstance(self._own, Actor):
            self._own = self._ask_who(self._own)
        return self._own

    def _ask_who(self, login: str | None) -> Actor:
        try:
            return self._read("asking which account the token belongs to", partial(self._account, login))
        except CallFailed as failure:
            if failure.status != 403 or login:
                raise
            return ACTIONS_BOT

    def _account(self, login: str | None) -> Actor:
        me: Any = self._github.get_user(login) if login else self._github.get_user().complete()
        return actor_of(me)

    def _check_own(self, user: NamedUser | Organization | None) -> None:
        """What we write must come from whom we take ourselves for, or we would never find it again."""
        author = actor_of(user)
        if author.id != self.me().id:
            raise OperatorError(
                f"the token writes as {author.login} ({author.id}), not as {self.me().login} ({self.me().id})",
                hint=f"set KERNELWRIGHT_BOT_LOGIN={author.login} and KERNELWRIGHT_BOT_ID={author.id} for this job",
                reason=ReasonCode.CONFIG_INVALID,
            )

    # Reading

    def _read(self, what: str, ask: Callable[[], T]) -> T:
        return read(what, ask, self._sleep)

    def pull(self, number: int) -> PullSnapshot:
        return self._read(f"reading pull request {number}", lambda: _pull(self._repo.get_pull(number).complete()))

    def role(self, login: str) -> Role:
        def ask() -> str:
            name = self._repo.get_collaborator_role_name(login)
            # A role of the organisation's own making: the old permission says what it amounts to.
            return name if name in ROLES else self._repo.get_collaborator_permission(login)

        return ROLES.get(if_there(f"reading the role of {login}", ask, self._sleep) or "", Role.NONE)

    def comments(self, number: int) -> tuple[CommentView, ...]:
        def ask() -> tuple[CommentView, ...]:
            return tuple(_comment(found) for found in self._repo.get_issue(number).get_comments())

        return self._read(f"reading the comments of {number}", ask)

    def _lazy_comment(self, comment_id: int) -> IssueComment:
        return self._repo.get_issue(0).get_comment(comment_id)  # the number of the issue is not part of the address

    def comment(self, comment_id: int) -> CommentView | None:
        lazy = self._lazy_comment(comment_id)
        return if_there(f"reading comment {comment_id}", lambda: _comment(lazy.complete()), self._sleep)

    def reviews(self, number: int) -> tuple[ReviewView, ...]:
        def ask() -> tuple[ReviewView, ...]:
            found = self._repo.get_pull(number).get_reviews()
            return tuple(_review(review) for review in found if review.state != "PENDING")

        return self._read(f"reading the reviews of {number}", ask)

    def changed_files(self, number: int) -> tuple[str, ...]:
        files = self._read(f"reading the files of {number}", lambda: tuple(self._repo.get_pull(number).get_files()))
        names = (name for file in files for name in (file.previous_filename, file.filename))
        return tuple(dict.fromkeys(name for name in names if name))

    def pulls_with_head(self, sha: str) -> tuple[int, ...]:
        def ask() -> tuple[int, ...]:
            # GitHub's own list of a commit's pull requests leaves out those from forks.
            return tuple(sorted(pull.number for pull in self._repo.get_pulls(state="open") if pull.head.sha == sha))

        return self._read(f"looking for pull requests at {sha}", ask)

    def branch_sha(self, ref: str) -> str | None:
        name = ref.removeprefix("refs/").removeprefix("heads/")
        found = if_there(f"reading the branch {name}", self._repo.get_git_ref(f"heads/{name}").complete, self._sleep)
        return found.object.sha if found else None

    # Writing

    def _posted(self, number: int, key: str) -> int | None:
        mine = (c for c in self.comments(number) if c.actor.id == self.me().id and key_of(c.body) == key)
        return next((comment.id for comment in mine), None)

    def post_comment(self, number: int, body: str) -> int:
        """After a doubtful answer it is repeated only if a marker lets us look for it first."""

        def post() -> int:
            with calling(f"commenting on {number}"):
                made = self._repo.get_issue(number).create_comment(body)
            self._check_own(made.user)
            return made.id

        key = key_of(body)
        return write(post, partial(self._posted, number, key) if key else None, self._sleep)

    def edit_comment(self, comment_id: int, body: str) -> None:
        def edit() -> bool:
            with calling(f"editing comment {comment_id}"):
                self._lazy_comment(comment_id).edit(body)
            return True

        write(edit, lambda: None, self._sleep)

    def minimize(self, comment_id: int, why: Hidden = "OUTDATED") -> None:
        """GitHub has this in GraphQL alone, which names a comment by another id."""
        what = f"hiding comment {comment_id}"
        found = self._read(what, self._lazy_comment(comment_id).complete)

        def hide() -> bool:
            with calling(what):
                return found.minimize(why)

        if not found.raw_data.get("minimized"):
            write(hide, lambda: None, self._sleep)

    def react(self, comment_id: int, content: str) -> None:
        def react() -> bool:
            with calling(f"reacting to comment {comment_id}"):
                made = self._lazy_comment(comment_id).create_reaction(content)
            self._check_own(made.user)
            return True

        write(react, lambda: None, self._sleep)  # GitHub keeps one of a kind for each account

    def unreact(self, comment_id: int, content: str) -> None:
        what = f"reading the reactions to comment {comment_id}"
        found = self._read(what, lambda: list(self._lazy_comment(comment_id).get_reactions()))
        for reaction in (given for given in found if given.content == content):
            if actor_of(reaction.user).id == self.me().id:
                self._take_back(comment_id, reaction.id)

    def _take_back(self, comment_id: int, reaction_id: int) -> None:
        """As harmless to repeat as a read: what is gone stays gone."""
        address = f"{self._lazy_comment(comment_id).url}/reactions/{reaction_id}"
        # PyGithub's own call would swallow every error.
        delete = partial(self._github.requester.requestJsonAndCheck, "DELETE", address)
        if_there(f"taking back a reaction to comment {comment_id}", delete, self._sleep)

    def _latest_status(self, sha: str, context: str) -> tuple[str, str, str] | None:
        def ask() -> list[Any]:
            return list(self._repo.get_commit(sha).get_combined_status().statuses)

        found = self._read(f"reading the statuses of {sha}", ask)
        mine = (status for status in found if status.context == context)
        return next(((s.state, s.description or "", s.target_url or "") for s in mine), None)

    def set_status(self, sha: str, state: StatusState, context: str, description: str, target_url: str = "") -> None:
        """Nothing is sent when it stands already: GitHub keeps a thousand a commit and context, and no more."""
        short = description if len(description) <= LONGEST_DESCRIPTION else description[: LONGEST_DESCRIPTION - 1] + "…"
        address: dict[str, Any] = {"target_url": target_url} if target_url else {}

        def find() -> bool | None:
            return True if self._latest_status(sha, context) == (state, short, target_url) else None

        def post() -> bool:
            with calling(f"setting the status of {sha}"):
                self._repo.get_commit(sha).create_status(state, description=short, context=context, **address)
            return True

        if not find():
            write(post, find, self._sleep)
