"""What a comment may point at: pictures in the repository, commits and files of this hub, sites elsewhere."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, quote, urlsplit

from bot.localhub.shelf import Shelf
from bot.localhub.world import World

Theme: TypeAlias = Literal["auto", "light", "dark"]
LOOPBACK = ("127.0.0.1", "localhost")
STORED_FILE = re.compile(r"(?:/[\w.-]+/[\w.-]+|(?:\.\./)*)/?(?:blob|raw)/([0-9a-f]{40})/([\w./+-]+)")
COMMIT_PATH = re.compile(r"/[\w.-]+/[\w.-]+/commit/([0-9a-f]{40})")
OWN_PATH = re.compile(r"/(?:pull/\d{1,9}(?:/commits|/files)?|commit/[0-9a-f]{40}|(?:blob|tree)/[\w./+-]+)")


def parts_of(address: str) -> SplitResult:
    """The parts of an address; a broken one has none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of one page."""

    world: World
    shelf: Shelf
    shas: frozenset[str]
    """Commits that have a place of their own on the page."""
    host: str = ""
    """Where this hub answers; empty on a saved page, which is read when the hub is gone."""
    theme: Theme = "auto"

    def is_account(self, login: str) -> bool:
        return login in self.world.accounts

    def _own(self, parts: SplitResult) -> str | None:
        """A hub's own address leads to the page it names, or on a saved page to a place on it, or nowhere."""
        found = COMMIT_PATH.fullmatch(parts.path)
        if found and found[1] in self.shas:
            return f"#commit-{found[1]}"
        start = f"/{self.world.repo}"
        here = self.host and parts.netloc == self.host and parts.path.startswith(start)
        return parts.path if here and OWN_PATH.fullmatch(parts.path.removeprefix(start)) else None

    def link(self, address: str) -> str | None:
        parts = parts_of(address)
        if parts.hostname in LOOPBACK:
            return self._own(parts)
        return parts.geturl() if parts.scheme in ("http", "https", "mailto") else None

    def picture(self, address: str) -> str | None:
        found = STORED_FILE.fullmatch(parts_of(address).path)
        stored = self.shelf.picture(found[1], found[2]) if found else None
        if not found or not stored:
            return None
        if self.host:
            return f"/{self.world.repo}/raw/{found[1]}/{quote(found[2])}"
        return f"data:image/{stored[0]};base64,{base64.b64encode(stored[1]).decode()}"

    def media(self, words: str) -> str:
        """When a picture for one colouring is shown: as the reader's system says, or as was chosen on the page."""
        if self.theme == "auto":
            return words
        return "all" if self.theme in words else "not all"
