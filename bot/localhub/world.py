"""What the embedded GitHub knows: accounts, tokens, threads and what was said. It keeps no address of its own."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, field_serializer

from bot.errors import CorruptRecord
from bot.model.ids import CommitSha, Login, RefName, RepoName
from bot.model.people import Role

Scope: TypeAlias = Literal["read", "comment", "status", "push", "ledger", "dispatch"]
"""What a token may do. `ledger` moves the bot's own branches alone, `push` any branch; `dispatch` starts workflows."""
SCOPES: frozenset[Scope] = frozenset({"read", "comment", "status", "push", "ledger", "dispatch"})
ReviewState: TypeAlias = Literal["APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED"]
StatusState: TypeAlias = Literal["error", "failure", "pending", "success"]
ACTIONS_BOT = ("github-actions[bot]", 41898282)
FIRST_ID = 1_000_001
"""Ids are one ascending row over everything, so that their order is the order of events within one second, too."""


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", regex_engine="python-re")


class Account(Record):
    id: int
    login: Login
    role: Role
    is_bot: bool = False


class Token(Record):
    login: Login
    scopes: frozenset[Scope]

    @field_serializer("scopes")
    def _in_order(self, scopes: frozenset[Scope]) -> list[Scope]:
        return sorted(scopes)


class Said(Record):
    """Whatever an account did, and when."""

    id: int
    author: Login
    created_at: str


class Push(Said):
    before: CommitSha
    after: CommitSha


class PullPart(Record):
    """What makes a thread a pull request."""

    is_draft: bool
    head_repo: RepoName | None
    head_ref: RefName
    base_ref: RefName
    first: CommitSha
    """The head when the pull request was opened."""
    head: CommitSha
    merged_at: str | None = None
    pushes: list[Push] = []


class Thread(Said):
    """An issue, or a pull request, which GitHub numbers and comments like one."""

    number: int
    title: str
    body: str
    closed_at: str | None = None
    pull: PullPart | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_at is None


class Comment(Said):
    number: int
    body: str
    updated_at: str
    minimized: str = ""
    """Why it is folded away, in lower case; empty while it is shown."""


class Reaction(Said):
    comment: int
    content: str


class Review(Said):
    number: int
    state: ReviewState
    body: str
    commit: CommitSha


class Status(Said):
    sha: CommitSha
    state: StatusState
    context: str
    description: str
    target_url: str


class World(Record):
    repo: RepoName
    created_at: str
    last_id: int = FIRST_ID - 1
    last_event: int = 0
    forks: list[RepoName] = []
    accounts: dict[str, Account] = {}
    tokens: dict[str, Token] = {}
    threads: dict[int, Thread] = {}
    comments: dict[int, Comment] = {}
    reactions: dict[int, Reaction] = {}
    reviews: dict[int, Review] = {}
    statuses: list[Status] = []

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def add_account(self, login: str, role: Role, is_bot: bool) -> Account:
        """A new account, or another role for one that is there."""
        known = self.accounts.get(login)
        number = known.id if known else ACTIONS_BOT[1] if login == ACTIONS_BOT[0] else self.new_id()
        self.accounts[login] = Account(id=number, login=login, role=role, is_bot=is_bot)
        return self.accounts[login]

    def token(self, login: str, scopes: Collection[Scope]) -> str:
        """The token of this account with exactly these scopes; the same one when asked again."""
        wanted = Token(login=self.accounts[login].login, scopes=frozenset(scopes))
        found = next((text for text, token in self.tokens.items() if token == wanted), None)
        text = found or f"hub_{secrets.token_hex(18)}"
        self.tokens[text] = wanted
        return text

    def pulls(self) -> list[tuple[Thread, PullPart]]:
        return [(thread, thread.pull) for thread in self.threads.values() if thread.pull is not None]

    def comments_on(self, number: int) -> list[Comment]:
        return [comment for comment in self.comments.values() if comment.number == number]

    def reactions_to(self, comment: int) -> list[Reaction]:
        return [reaction for reaction in self.reactions.values() if reaction.comment == comment]

    def reviews_of(self, number: int) -> list[Review]:
        return [review for review in self.reviews.values() if review.number == number]

    def latest_statuses(self, sha: str) -> list[Status]:
        """One a context: the latest."""
        latest = {status.context: status for status in self.statuses if status.sha == sha}
        return list(latest.values())


def load(path: Path) -> World | None:
    if not path.exists():
        return None
    try:
        return World.model_validate_json(path.read_bytes())
    except ValueError as error:
        raise CorruptRecord(
            f"{path} is not the state of an embedded GitHub", hint="start with an empty folder"
        ) from error


def save(world: World, path: Path) -> None:
    """All of it or nothing: a copy of the folder taken at any moment can be opened."""
    fresh = path.with_suffix(".new")
    fresh.write_text(world.model_dump_json(indent=1), encoding="utf-8")
    fresh.replace(path)
