"""The site people see: which address shows what. The same views are served live, and saved as one file."""

from __future__ import annotations

import json
import re
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, cast, get_args
from urllib.parse import quote, unquote

from bot.localhub import forms, guard
from bot.localhub.around import Theme
from bot.localhub.browser import screenshot
from bot.localhub.forms import Posted, Unposted
from bot.localhub.shelf import Shelf
from bot.localhub.views import Backdrop, asset, draw, pull_page
from bot.localhub.wire import Request, Response
from bot.localhub.world import SCOPES

if TYPE_CHECKING:
    from bot.localhub.desk import Desk
    from bot.localhub.server import Hub

__all__ = ["Site", "render_page", "screenshot"]

ASSETS = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
THEME_COOKIE = "kernelwright_theme"
A_YEAR_S = 365 * 24 * 3600
LARGEST_TEXT = 2**20
SHA = r"([0-9a-f]{40})"


def html(page: str, status: int = 200) -> Response:
    return Response(status, page.encode(), {"Content-Type": "text/html; charset=utf-8", **guard.HEADERS})


def as_json(status: int, content: object) -> Response:
    kind = {"Content-Type": "application/json; charset=utf-8"}
    return Response(status, json.dumps(content).encode(), {**kind, **guard.HEADERS})


def elsewhere(path: str, **headers: str) -> Response:
    return Response(303, b"", {"Location": path, **guard.HEADERS, **headers})


def theme_of(request: Request) -> Theme:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(THEME_COOKIE)
    except CookieError:
        found = None
    return cast(Theme, found.value) if found and found.value in get_args(Theme) else "auto"


class Site:
    """The pages of one hub."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._shelf = Shelf(desk.history)
        self._repo = re.escape(desk.repo)

    def _backdrop(self, request: Request) -> Backdrop:
        desk = self._desk
        return Backdrop(
            world=desk.world,
            shelf=self._shelf,
            board=desk.board,
            host=request.headers.get("host", ""),
            theme=theme_of(request),
            people=desk.people,
            changes=desk.changes,
        )

    def answer(self, request: Request) -> Response | None:
        """The answer to a browser; None where no page lives."""
        for method, pattern, show in (
            ("GET", "/", self._start),
            ("GET", rf"/{self._repo}(?:/pulls)?/?", self._start),
            ("GET", rf"/{self._repo}/pull/(\d{{1,9}})/?", self._conversation),
            ("GET", rf"/{self._repo}/pull/(\d{{1,9}})/commits", self._commits),
            ("GET", rf"/{self._repo}/pull/(\d{{1,9}})/files", self._files),
            ("POST", rf"/{self._repo}/pull/(\d{{1,9}})/say", self._say),
            ("GET", rf"/{self._repo}/commit/{SHA}", self._commit),
            ("GET", rf"/{self._repo}/blob/([\w./+-]+)", self._file),
            ("GET", rf"/{self._repo}/tree/([\w./+-]+)", self._folder),
            ("GET", rf"/{self._repo}/raw/{SHA}/(.+)", self._raw),
            ("GET", "/-/changes", self._changes),
            ("POST", "/-/theme", self._choose_theme),
            ("GET", r"/-/([\w.]+)", self._asset),
            ("GET", "/(.*)", self._nowhere),
        ):
            found = re.fullmatch(pattern, request.path)
            if found and method == request.method:
                refused = guard.refused(request, self._desk.server_url)
                if refused:
                    return refused
                with self._desk.lock:
                    return show(request, *found.groups())
        return None

    def _missing(self, request: Request, what: str) -> Response:
        return html(draw("missing.html.j2", self._backdrop(request), what=what), 404)

    def _nowhere(self, request: Request, path: str) -> Response:
        return self._missing(request, "page")

    def _start(self, request: Request) -> Response:
        return html(draw("start.html.j2", self._backdrop(request)))

    def _pull(self, request: Request, number: str, template: str) -> Response:
        if int(number) not in {thread.number for thread, _ in self._desk.world.pulls()}:
            return self._missing(request, f"pull request #{number}")
        return html(pull_page(self._backdrop(request), int(number), template))

    def _conversation(self, request: Request, number: str) -> Response:
        return self._pull(request, number, "conversation")

    def _commits(self, request: Request, number: str) -> Response:
        return self._pull(request, number, "commits")

    def _files(self, request: Request, number: str) -> Response:
        return self._pull(request, number, "files")

    def _commit(self, request: Request, sha: str) -> Response:
        commit = self._shelf.commit(sha)
        if commit is None:
            return self._missing(request, f"commit {sha[:7]}")
        return html(draw("commit.html.j2", self._backdrop(request), commit=commit))

    def _found(self, path: str) -> tuple[str, str] | None:
        """A commit and a path in it, of `<sha or branch>/<path>`; a branch's name may have slashes."""
        parts = path.strip("/").split("/")
        heads = self._desk.history.heads()
        for cut in range(1, len(parts) + 1):
            name, rest = "/".join(parts[:cut]), "/".join(parts[cut:])
            sha = heads.get(f"refs/heads/{name}") or (name if re.fullmatch(SHA, name) else None)
            if sha and self._desk.history.is_commit(sha):
                return sha, rest
        return None

    def _file(self, request: Request, path: str) -> Response:
        found = self._found(path)
        content = self._shelf.file(*found) if found and found[1] else None
        if found is None or content is None:
            return self._missing(request, "file")
        is_text = len(content) <= LARGEST_TEXT and b"\0" not in content
        lines = content.decode(errors="replace").split("\n") if is_text else []
        picture = f"/{self._desk.repo}/raw/{found[0]}/{quote(found[1])}" if self._shelf.picture(*found) else ""
        shown = {"at": found[0], "path": found[1], "lines": lines, "picture": picture}
        return html(draw("file.html.j2", self._backdrop(request), **shown))

    def _folder(self, request: Request, path: str) -> Response:
        found = self._found(path)
        names = self._desk.history.repo.list(*found) if found else ()
        if found is None or not names:
            return self._missing(request, "folder")
        return html(draw("folder.html.j2", self._backdrop(request), at=found[0], path=found[1], names=names))

    def _raw(self, request: Request, sha: str, path: str) -> Response:
        """Pictures alone: nothing else of a repository is handed to a browser as it is."""
        stored = self._shelf.picture(sha, unquote(path))
        if stored is None:
            return guard.words(404, "There is no such picture.")
        kept = {"Content-Type": f"image/{stored[0]}", "Cache-Control": "private, max-age=86400, immutable"}
        return Response(200, stored[1], {**guard.HEADERS, **kept})

    def _asset(self, request: Request, name: str) -> Response:
        if name not in ASSETS:
            return guard.words(404, "There is no such file.")
        return Response(200, asset(name).encode(), {**guard.HEADERS, "Content-Type": f"{ASSETS[name]}; charset=utf-8"})

    def _changes(self, request: Request) -> Response:
        """A number that grows whenever a page would look different."""
        return as_json(200, {"changes": self._desk.changes})

    def _say(self, request: Request, number: str) -> Response:
        if int(number) not in {thread.number for thread, _ in self._desk.world.pulls()}:
            return self._missing(request, f"pull request #{number}")
        by_script = "application/json" in request.headers.get("accept", "")
        page = f"/{self._desk.repo}/pull/{number}"
        given: dict[str, str] = {}
        try:
            given = forms.fields(request)
            said = self._post(forms.read(given, self._desk.people), int(number))
        except Unposted as error:
            if by_script:
                return as_json(422, {"why": str(error)})
            trouble = {"why": str(error), "body": given.get("body", ""), "login": given.get("as", "")}
            return html(pull_page(self._backdrop(request), int(number), trouble=trouble), 422)
        return as_json(201, {"said": said}) if by_script else elsewhere(f"{page}#said-{said}")

    def _post(self, posted: Posted, number: int) -> int:
        token = self._desk.world.token(posted.login, SCOPES)
        return forms.post(posted, number, self._desk.api_path, token, self._desk.carry_out)

    def _choose_theme(self, request: Request) -> Response:
        try:
            given = forms.fields(request)
        except Unposted as error:
            return guard.words(422, str(error))
        theme, back = given.get("theme", ""), given.get("back", "")
        if theme not in get_args(Theme):
            return guard.words(422, "A page is auto, light or dark.")
        place = back if re.fullmatch(rf"/(?:{self._repo}(?:/[\w./+-]*)?)?", back) else "/"
        cookie = f"{THEME_COOKIE}={theme}; Path=/; Max-Age={A_YEAR_S}; SameSite=Strict; HttpOnly"
        return elsewhere(place, **{"Set-Cookie": cookie})


def render_page(hub: Hub, number: int) -> str:
    """The page of a pull request as it stands now, to be kept: it loads nothing and asks nobody."""
    return pull_page(Backdrop(world=hub.world, shelf=Shelf(hub.history)), number)
