"""What an event file says, as one of five words. Whatever cannot be believed is Ignored, with a code and the reason.

Only the fields named here are read; GitHub may add others. A payload is hostile until it fitted these shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import from_json

from bot.model.ids import CommitSha, Login, RefName, RepoName
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from bot.model.word import Word

MAX_PAYLOAD = 2 * 2**20
"""An issue and a comment at GitHub's limit of 65,536 characters, each as a 12-byte escape, stay below it."""
MAX_INPUTS = 25
"""GitHub's own limit for workflow_dispatch."""
Moment: TypeAlias = Annotated[
    str,
    StringConstraints(
        pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
    ),
]
Number: TypeAlias = Annotated[int, Field(ge=1, lt=2**63)]
Short: TypeAlias = Annotated[str, StringConstraints(max_length=1000)]


class CommentPosted(Word):
    """A person wrote a comment. Whether it holds a command, and whether they may give it, is decided elsewhere."""

    repo: RepoName
    pull_number: int
    comment_id: int
    actor: Actor
    body: str
    created_at: str
    is_pull: bool
    """False for an issue: a command there is due an answer, not an action."""


class ReviewsMayHaveChanged(Word):
    """Somebody reviewed something at this commit. Carries no content on purpose: the truth is read by API."""

    repo: RepoName
    head_sha: CommitSha


class Scheduled(Word):
    cron: str


class Dispatched(Word):
    """Started by hand."""

    repo: RepoName
    actor: Actor
    ref: RefName
    inputs: tuple[tuple[str, str], ...] = ()


class Ignored(Word):
    """Nobody's business, or nothing that can be believed."""

    code: ReasonCode
    why: str


Event: TypeAlias = CommentPosted | ReviewsMayHaveChanged | Scheduled | Dispatched | Ignored


class _Shape(BaseModel):
    """A part of a payload. Strict: GitHub does not write numbers as strings."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, regex_engine="python-re")


class _Account(_Shape):
    id: Number
    login: Login
    type: Short

    @property
    def is_person(self) -> bool:
        return self.type == "User" and not self.login.endswith("[bot]")

    def actor(self) -> Actor:
        return Actor(id=self.id, login=self.login, is_bot=not self.is_person)


class _Repository(_Shape):
    full_name: RepoName


class _Comment(_Shape):
    id: Number
    user: _Account
    body: str | None
    created_at: Moment
    performed_via_github_app: Any = None


class _Issue(_Shape):
    number: Number
    pull_request: dict[str, Any] | None = None


class _CommentPayload(_Shape):
    comment: _Comment
    issue: _Issue
    repository: _Repository
    sender: _Account


class _WorkflowRun(_Shape):
    event: Short
    head_sha: CommitSha


class _RunPayload(_Shape):
    action: Short
    workflow_run: _WorkflowRun
    repository: _Repository


class _SchedulePayload(_Shape):
    schedule: Short


class _DispatchPayload(_Shape):
    inputs: Annotated[dict[Short, Short | bool | int | float | None], Field(max_length=MAX_INPUTS)] | None = None
    ref: RefName
    repository: _Repository
    sender: _Account


class _ActionPayload(_Shape):
    action: Short


class _Unbelievable(Exception):
    """The payload is not what GitHub sends. Never leaves this module."""


S = TypeVar("S", bound=_Shape)


def _fit(shape: type[S], payload: object) -> S:
    try:
        return shape.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ascii(".".join(str(part) for part in first["loc"][:6])[:60])
        raise _Unbelievable(f"at {place}: {first['msg'][:200]}") from error


def _ignored(code: ReasonCode, why: str) -> Ignored:
    return Ignored(code=code, why=why)


def _comment(payload: object, own_id: int | None) -> Event:
    action = _fit(_ActionPayload, payload).action
    if action == "edited":
        return _ignored(ReasonCode.EDITED_COMMENT, "an edited comment is not read: commands are new comments")
    if action != "created":
        return _ignored(ReasonCode.UNRELATED_EVENT, f"a comment was {_name(action)}, not created")
    seen = _fit(_CommentPayload, payload)
    author = seen.comment.user
    if author.id == own_id or not author.is_person or seen.comment.performed_via_github_app is not None:
        return _ignored(ReasonCode.BOT_COMMENT, f"{author.login} is a bot or spoke through one")
    if seen.sender.id != author.id:
        return _ignored(ReasonCode.CONFUSED_SENDER, f"sent by {seen.sender.login}, written by {author.login}")
    return CommentPosted(
        repo=seen.repository.full_name,
        pull_number=seen.issue.number,
        comment_id=seen.comment.id,
        actor=author.actor(),
        body=seen.comment.body or "",
        created_at=seen.comment.created_at,
        is_pull=seen.issue.pull_request is not None,
    )


def _run(payload: object, own_id: int | None) -> Event:
    seen = _fit(_RunPayload, payload)
    if seen.action != "completed" or seen.workflow_run.event != "pull_request_review":
        event = _name(seen.workflow_run.event)
        return _ignored(ReasonCode.UNRELATED_EVENT, f"a workflow run for {event} was {_name(seen.action)}")
    return ReviewsMayHaveChanged(repo=seen.repository.full_name, head_sha=seen.workflow_run.head_sha)


def _schedule(payload: object, own_id: int | None) -> Event:
    return Scheduled(cron=_fit(_SchedulePayload, payload).schedule)


def _dispatch(payload: object, own_id: int | None) -> Event:
    seen = _fit(_DispatchPayload, payload)
    given = {name: "" if value is None else str(value) for name, value in (seen.inputs or {}).items()}
    return Dispatched(
        repo=seen.repository.full_name, actor=seen.sender.actor(), ref=seen.ref, inputs=tuple(sorted(given.items()))
    )


_READERS: dict[str, Callable[[object, int | None], Event]] = {
    "issue_comment": _comment,
    "workflow_run": _run,
    "schedule": _schedule,
    "workflow_dispatch": _dispatch,
}


def _name(text: str) -> str:
    """A stranger's word, fit for one line of a log."""
    return ascii(text[:60])


def read_event(name: str, payload: bytes, own_id: int | None) -> Event:
    """`own_id` is the bot's account id. Never raises: whatever this is, it becomes one of the five."""
    reader = _READERS.get(name)
    if reader is None:
        return _ignored(ReasonCode.UNRELATED_EVENT, f"events named {_name(name)} are not for me")
    if len(payload) > MAX_PAYLOAD:
        return _ignored(ReasonCode.MALFORMED_EVENT, f"{len(payload)} bytes, more than {MAX_PAYLOAD}")
    try:
        return reader(from_json(payload), own_id)
    except _Unbelievable as error:
        return _ignored(ReasonCode.MALFORMED_EVENT, str(error))
    except ValueError as error:
        return _ignored(ReasonCode.MALFORMED_EVENT, f"not JSON: {_name(str(error))}")
