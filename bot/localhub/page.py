"""A pull request's conversation as one static HTML page that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bot.localhub.browser import screenshot
from bot.localhub.history import Commit, FileChange, History
from bot.localhub.markdown import to_html
from bot.localhub.shapes import REACTIONS
from bot.localhub.world import Account, PullPart, Review, Status, Thread, World
from bot.model.people import Role
from bot.render.environment import templates_dir

if TYPE_CHECKING:
    from bot.localhub.server import Hub

__all__ = ["page_of_pull", "render_page", "screenshot"]

LARGEST_PICTURE = 2 * 2**20
PICTURE_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
"""Told by their first bytes; SVG is not among them, for it can hold a script."""
STORED_FILE = re.compile(r"(?:/[\w.-]+/[\w.-]+|(?:\.\./)*)/?(?:blob|raw)/([0-9a-f]{40})/([\w./+-]+)")
COMMIT_PATH = re.compile(r"/[\w.-]+/[\w.-]+/commit/([0-9a-f]{40})")
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
MOST_DIFF_LINES = 400
ROLE_WORDS = {Role.ADMIN: "owner", Role.MAINTAIN: "maintainer", Role.WRITE: "collaborator"}


def _parts(address: str) -> SplitResult:
    """The parts of an address; a broken one has none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


@dataclass(frozen=True, slots=True)
class Around:
    """What comments of this page may point at: pictures in the repository, commits on the page, sites elsewhere."""

    world: World
    history: History
    shas: frozenset[str]

    def is_account(self, login: str) -> bool:
        return login in self.world.accounts

    def link(self, address: str) -> str | None:
        """This hub is gone when the page is read: its own addresses lead to a place on the page or nowhere."""
        parts = _parts(address)
        if parts.hostname in ("127.0.0.1", "localhost"):
            found = COMMIT_PATH.fullmatch(parts.path)
            return f"#commit-{found[1]}" if found and found[1] in self.shas else None
        return parts.geturl() if parts.scheme in ("http", "https", "mailto") else None

    def picture(self, address: str) -> str | None:
        found = STORED_FILE.fullmatch(_parts(address).path)
        content = self.history.file(found[1], found[2]) if found else None
        if content is None or len(content) > LARGEST_PICTURE:
            return None
        kind = next((kind for magic, kind in PICTURE_KINDS.items() if content.startswith(magic)), None)
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}" if kind else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened, by the id that puts it in order."""

    id: int
    kind: str
    login: str
    at: str
    body: Markup | str = ""
    edited: bool = False
    reactions: tuple[tuple[str, int], ...] = ()
    review: Review | None = None
    commits: tuple[Commit, ...] = ()
    is_new: bool = False
    """Commits that came after the pull request was opened; their changes are shown."""
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: str
    old: str
    new: str
    text: str


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the template may ask for."""

    world: World
    history: History
    thread: Thread
    part: PullPart
    around: Around
    commits: list[Commit] = field(default_factory=list)

    def entries(self) -> list[Entry]:
        thread, part = self.thread, self.part
        found = [
            Entry(thread.id, "comment", thread.author, thread.created_at, self.html(thread.body or "_No description._"))
        ]
        base = self.history.merge_base(f"refs/heads/{part.base_ref}", part.first)
        first = tuple(self.history.commits(base, part.first))
        found.append(Entry(thread.id, "push", thread.author, thread.created_at, commits=first))
        for push in part.pushes:
            commits = tuple(self.history.commits(push.before, push.after))
            lost = bool(self.history.commits(push.after, push.before))
            found.append(
                Entry(push.id, "push", push.author, push.created_at, commits=commits, is_new=True, rewritten=lost)
            )
        for comment in self.world.comments_on(thread.number):
            counted = Counter(reaction.content for reaction in self.world.reactions_to(comment.id))
            marks = tuple((symbol, counted[name]) for name, symbol in REACTIONS.items() if counted[name])
            edited = comment.updated_at != comment.created_at
            body = self.html(comment.body)
            found.append(Entry(comment.id, "comment", comment.author, comment.created_at, body, edited, marks))
        for review in self.world.reviews_of(thread.number):
            body = self.html(review.body)
            found.append(Entry(review.id, "review", review.author, review.created_at, body, review=review))
        return sorted(found, key=lambda entry: entry.id)

    def html(self, text: str) -> Markup:
        return Markup(to_html(text, self.around))  # the result of the cleaner is safe HTML

    def account(self, login: str) -> Account:
        return self.world.accounts.get(login) or Account(id=0, login="ghost", role=Role.NONE)

    def label(self, login: str) -> str:
        account = self.account(login)
        if account.is_bot:
            return "bot"
        return "author" if login == self.thread.author else ROLE_WORDS.get(account.role, "")

    def hue(self, login: str) -> int:
        return hashlib.sha256(login.encode()).digest()[0] * 360 // 256

    def people(self) -> list[str]:
        return list(dict.fromkeys(entry.login for entry in self.entries()))

    def verdicts(self) -> dict[str, str]:
        """Each reviewer's last word."""
        decided = [r for r in self.world.reviews_of(self.thread.number) if r.state != "COMMENTED"]
        return {review.author: review.state for review in decided}

    def statuses(self) -> list[Status]:
        """The latest one a context, whichever commit it stands at."""
        shas = {self.part.first, *(sha for push in self.part.pushes for sha in (push.before, push.after))}
        latest = {status.context: status for status in self.world.statuses if status.sha in shas}
        return list(latest.values())

    def changes(self, commit: Commit) -> list[FileChange]:
        parent = next(iter(self.history.repo.parents(commit.sha)), None)
        return self.history.files(parent, commit.sha) if parent else []


def diff_lines(patch: str) -> list[DiffLine]:
    """The lines of a patch with their numbers before and after, up to a limit."""
    found, old, new = [], 0, 0
    for line in patch.split("\n")[:MOST_DIFF_LINES]:
        hunk = HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
            found.append(DiffLine("hunk", "", "", line))
        elif line.startswith("+"):
            found.append(DiffLine("add", "", str(new), line[1:]))
            new += 1
        elif line.startswith("-"):
            found.append(DiffLine("del", str(old), "", line[1:]))
            old += 1
        elif not line.startswith("\\"):
            found.append(DiffLine("same", str(old), str(new), line[1:]))
            old, new = old + 1, new + 1
    if patch.count("\n") >= MOST_DIFF_LINES:
        found.append(DiffLine("hunk", "", "", f"… {patch.count(chr(10)) + 1 - MOST_DIFF_LINES} more lines"))
    return found


@lru_cache(maxsize=1)
def _environment() -> Environment:
    loader = FileSystemLoader(templates_dir() / "page")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["diff_lines"] = diff_lines
    made.filters["day"] = lambda at: at[:10]
    made.filters["clock"] = lambda at: at[11:19]
    return made


def page_of_pull(world: World, history: History, number: int) -> str:
    thread = world.threads[number]
    assert thread.pull is not None, "an issue has no page"
    base = history.merge_base(f"refs/heads/{thread.pull.base_ref}", thread.pull.head)
    commits = history.commits(base, thread.pull.head)
    around = Around(world, history, frozenset(commit.sha for commit in commits))
    scene = Scene(world, history, thread, thread.pull, around, commits)
    return _environment().get_template("conversation.html.j2").render(scene=scene, thread=thread, part=thread.pull)


def render_page(hub: Hub, number: int) -> str:
    """The page of a pull request as it stands now."""
    return page_of_pull(hub.world, hub.history, number)
