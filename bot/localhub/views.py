"""The pages as a person sees them: what a template may ask for, and the templates filled."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bot.localhub.around import Around, Theme
from bot.localhub.board import Board
from bot.localhub.diffs import diff_lines
from bot.localhub.history import Commit, FileChange
from bot.localhub.markdown import to_html
from bot.localhub.shapes import REACTIONS
from bot.localhub.shelf import Shelf
from bot.localhub.world import Account, Comment, PullPart, Review, Status, Thread, World
from bot.model.people import Role
from bot.render.environment import templates_dir

ROLE_WORDS = {Role.ADMIN: "owner", Role.MAINTAIN: "maintainer", Role.WRITE: "collaborator"}
OUTSIDER = "outsider"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened, by the id that puts it in order."""

    id: int
    kind: str
    login: str
    at: str
    body: Markup | str = ""
    edited: bool = False
    folded: str = ""
    """Why a comment was minimised; empty when it was not."""
    reactions: tuple[tuple[str, str, int], ...] = ()
    """Symbol, name and how many."""
    review: Review | None = None
    commits: tuple[Commit, ...] = ()
    is_new: bool = False
    """Commits that came after the pull request was opened; their changes are shown."""
    rewritten: bool = False


@dataclass(frozen=True)
class Backdrop:
    """What every page shares."""

    world: World
    shelf: Shelf
    board: Board = field(default_factory=Board)
    host: str = ""
    """Where it is served; empty for a page that is saved."""
    theme: Theme = "auto"
    people: tuple[str, ...] = ()
    """Logins a reader may speak as; none: the page is for reading."""
    changes: int = 0

    @property
    def is_live(self) -> bool:
        return bool(self.host)

    @property
    def path(self) -> str:
        return f"/{self.world.repo}"

    def account(self, login: str) -> Account:
        return self.world.accounts.get(login) or Account(id=0, login="ghost", role=Role.NONE)

    def hue(self, login: str) -> int:
        return hashlib.sha256(login.encode()).digest()[0] * 360 // 256

    def pulls(self) -> list[Thread]:
        return [thread for thread, _ in self.world.pulls()]

    def label(self, login: str, author: str = "") -> str:
        account = self.account(login)
        if account.is_bot:
            return "bot"
        return "author" if login == author else ROLE_WORDS.get(account.role, "")

    def part_played(self, login: str, author: str) -> str:
        """What the reader would be as this person."""
        return self.label(login, author) or OUTSIDER

    def changes_of(self, commit: Commit) -> list[FileChange]:
        return self.shelf.changes(commit.sha)


@dataclass(frozen=True)
class Scene:
    """One pull request."""

    backdrop: Backdrop
    thread: Thread
    part: PullPart

    @cached_property
    def base(self) -> str:
        target = f"refs/heads/{self.part.base_ref}"
        return self.backdrop.shelf.merge_base(self.backdrop.shelf.history.heads().get(target, target), self.part.head)

    @cached_property
    def commits(self) -> list[Commit]:
        return self.backdrop.shelf.commits(self.base, self.part.head)

    @cached_property
    def around(self) -> Around:
        shas = frozenset(commit.sha for entry in self.pushes() if entry.is_new for commit in entry.commits)
        return Around(self.backdrop.world, self.backdrop.shelf, shas, self.backdrop.host, self.backdrop.theme)

    @cached_property
    def files(self) -> list[FileChange]:
        return self.backdrop.shelf.files(self.base, self.part.head)

    @property
    def path(self) -> str:
        return f"{self.backdrop.path}/pull/{self.thread.number}"

    @property
    def state(self) -> str:
        if self.part.merged_at:
            return "merged"
        return "closed" if not self.thread.is_open else "draft" if self.part.is_draft else "open"

    def pushes(self) -> list[Entry]:
        thread, part, shelf = self.thread, self.part, self.backdrop.shelf
        base = shelf.merge_base(self.base, part.first)
        first = tuple(shelf.commits(base, part.first))
        found = [Entry(thread.id, "push", thread.author, thread.created_at, commits=first)]
        for push in part.pushes:
            commits = tuple(shelf.commits(push.before, push.after))
            lost = bool(shelf.commits(push.after, push.before))
            found.append(
                Entry(push.id, "push", push.author, push.created_at, commits=commits, is_new=True, rewritten=lost)
            )
        return found

    def _comment(self, comment: Comment) -> Entry:
        counted = Counter(reaction.content for reaction in self.backdrop.world.reactions_to(comment.id))
        return Entry(
            comment.id,
            "comment",
            comment.author,
            comment.created_at,
            self.html(comment.body),
            edited=comment.updated_at != comment.created_at,
            folded=comment.minimized,
            reactions=tuple((symbol, name, counted[name]) for name, symbol in REACTIONS.items() if counted[name]),
        )

    def entries(self) -> list[Entry]:
        thread, world = self.thread, self.backdrop.world
        opened = self.html(thread.body or "_No description._")
        found = [Entry(thread.id, "comment", thread.author, thread.created_at, opened), *self.pushes()]
        found += [self._comment(comment) for comment in world.comments_on(thread.number)]
        for review in world.reviews_of(thread.number):
            body = self.html(review.body)
            found.append(Entry(review.id, "review", review.author, review.created_at, body, review=review))
        return sorted(found, key=lambda entry: entry.id)

    def html(self, text: str) -> Markup:
        """Cleaned, and kept: a page is drawn anew at every change, and most comments stay."""
        around = self.around
        key = ("html", text, around.host, around.theme, around.shas, len(self.backdrop.world.accounts))
        return self.backdrop.shelf.once(key, lambda: Markup(to_html(text, around)))  # the cleaner's result is safe HTML

    def label(self, login: str) -> str:
        return self.backdrop.label(login, self.thread.author)

    def people(self) -> list[str]:
        return list(dict.fromkeys(entry.login for entry in self.entries()))

    def verdicts(self) -> dict[str, str]:
        """Each reviewer's last word."""
        decided = [r for r in self.backdrop.world.reviews_of(self.thread.number) if r.state != "COMMENTED"]
        return {review.author: review.state for review in decided}

    def statuses(self) -> list[Status]:
        """The latest one a context, whichever commit it stands at."""
        part = self.part
        shas = {part.first, *(sha for push in part.pushes for sha in (push.before, push.after))}
        latest = {status.context: status for status in self.backdrop.world.statuses if status.sha in shas}
        return list(latest.values())


@lru_cache(maxsize=1)
def _environment() -> Environment:
    loader = FileSystemLoader(templates_dir() / "page")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["diff_lines"] = diff_lines
    made.filters["day"] = lambda at: at[:10]
    made.filters["clock"] = lambda at: at[11:19]
    made.filters["short"] = lambda sha: sha[:7]
    made.filters["wall"] = wall
    return made


def wall(value: float) -> str:
    """Wall time of a job."""
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes else f"{value:.1f} s" if value < 10 else f"{rest} s"


@lru_cache(maxsize=4)
def asset(name: str) -> str:
    """A file that every page loads, or carries within when it is saved."""
    return (templates_dir() / "page" / name).read_text(encoding="utf-8")


def style_hash() -> str:
    """The one style a saved page may have, in the words of its policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(asset('style.css').encode()).digest()).decode()}"


def draw(template: str, backdrop: Backdrop, **given: Any) -> str:
    style = {"style": Markup(asset("style.css")), "style_hash": style_hash()}
    return _environment().get_template(template).render(backdrop=backdrop, **style, **given)


def pull_page(
    backdrop: Backdrop, number: int, template: str = "conversation", trouble: Mapping[str, str] | None = None
) -> str:
    """`trouble`: words about what could not be posted, and what was typed, so that nothing is lost."""
    thread = backdrop.world.threads[number]
    assert thread.pull is not None, "an issue has no page"
    scene = Scene(backdrop, thread, thread.pull)
    given = {"scene": scene, "thread": thread, "part": thread.pull, "tab": template, "trouble": trouble or {}}
    return draw(f"{template}.html.j2", backdrop, **given)
