"""Answers requests: git's by git, the API's by the table of endpoints, a browser's by the page."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from bot.git.repo import Repo
from bot.localhub import actions, api, own_threads, smart_http
from bot.localhub.board import Board
from bot.localhub.history import History
from bot.localhub.outbox import Outbox
from bot.localhub.shapes import Shapes
from bot.localhub.wire import Refused, Request, Response, refusal, token_of
from bot.localhub.world import Account, PullPart, Push, Thread, Token, World, load, save

if TYPE_CHECKING:
    from bot.localhub.page import Site

MAIN = "main"
API = "/api/v3"
MORE_ROUTES = (*own_threads.ROUTES, *actions.ROUTES)
GIT_PATH = re.compile(r"/([^/]+/[^/]+?)(?:\.git)?(/info/refs|/git-upload-pack|/git-receive-pack)")
Fault: TypeAlias = Callable[[Literal["before", "after"], Request], Response | None]
"""Asked before and after a request is carried out; a response of its own is sent instead of the true one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that was answered."""

    method: str
    path: str
    status: int


class Desk:
    def __init__(self, root: Path, repo: str, bare: Path | None, clock: Callable[[], str]) -> None:
        self.root, self.clock = root, clock
        self.world = load(root / "state.json") or World(repo=repo, created_at=clock())
        self.repo = self.world.repo
        self.bare = bare or root / "git" / f"{self.repo}.git"
        if not (self.bare / "HEAD").exists():
            Repo.init(self.bare, bare=True)
        self.history = History(self.bare)
        self.outbox = Outbox(root / "outbox")
        self.actions = actions.Actions(clock)
        self.server_url = "http://127.0.0.1:0"
        self.fault: Fault | None = None
        self.board = Board()
        self.people: tuple[str, ...] = ()
        """Whom a reader of the page may speak as."""
        self.changes = 0
        """Grows whenever a page would look different."""
        self._site: Site | None = None
        self.seen: list[Seen] = []
        self.lock = threading.RLock()
        smart_http.write_hook(root / "hooks")

    @property
    def show(self) -> Shapes:
        return Shapes(self.server_url, self.world, MAIN)

    @property
    def api_path(self) -> str:
        return f"{API}/repos/{self.repo}"

    def save(self) -> None:
        save(self.world, self.root / "state.json")
        self.changes += 1

    def show_board(self, board: Board) -> None:
        with self.lock:
            if board != self.board:
                self.board = board
                self.changes += 1

    def history_of(self, repo: str) -> History:
        return self.history if repo == self.repo else History(self.root / "git" / f"{repo}.git")

    def _follow(self, thread: Thread, part: PullPart, heads: Mapping[str, str], login: str | None) -> bool:
        ref, own = f"refs/pull/{thread.number}/head", f"refs/heads/{part.head_ref}"
        if part.head_repo is None:
            return False
        home = self.history_of(part.head_repo)
        head = (heads if home is self.history else home.heads()).get(own)
        if head is None:  # the branch was deleted
            thread.closed_at = self.clock()
            return True
        if heads.get(ref) != head:
            if home is not self.history:
                self.history.fetch(home.repo.path, part.head_ref, ref)
            self.history.set_ref(ref, head)
        if part.head == head:
            return False
        who, now = login or thread.author, self.clock()
        push = Push(id=self.world.new_id(), author=who, created_at=now, before=part.head, after=head)
        part.pushes.append(push)
        part.head = head
        return True

    def sync(self, login: str | None = None) -> None:
        """Let open pull requests follow their branches, whoever moved them; a closed one stays as it was."""
        with self.lock:
            heads = self.history.heads()
            moved = [self._follow(*pull, heads, login) for pull in self.world.pulls() if pull[0].is_open]
            if any(moved):
                self.save()

    def _git(self, name: str, action: str, request: Request, account: Account | None, token: Token | None) -> Response:
        if name not in (self.repo, *self.world.forks):
            return Response(404, b"Repository not found\n")
        bare = self.history_of(name).repo.path
        response = smart_http.serve(bare, action, request, account, token, self.root / "hooks")
        self.sync(account.login if account else None)
        return response

    @property
    def site(self) -> Site:
        from bot.localhub.page import Site  # templates and the Markdown parser are needed by people alone

        self._site = self._site or Site(self)
        return self._site

    def _api(self, request: Request, account: Account, token: Token) -> Response:
        with self.lock:
            call = api.Call(
                request=request,
                world=self.world,
                history=self.history,
                outbox=self.outbox,
                actions=self.actions,
                show=self.show,
                account=account,
                token=token,
                now=self.clock(),
            )
            try:
                response = api.answer(call, request.path.removeprefix(API), MORE_ROUTES)
            except Refused as refused:
                return refused.response
            if response is None:
                return refusal(501, f"no scenario needed {request.method} {request.path} so far")
            if request.method != "GET":
                self.save()
            return response

    def carry_out(self, request: Request) -> Response:
        token = self.world.tokens.get(token_of(request))
        account = self.world.accounts[token.login] if token else None
        self.sync()
        if found := GIT_PATH.fullmatch(request.path):
            return self._git(found[1], found[2], request, account, token)
        if account is None or token is None:
            known = "authorization" in request.headers
            return refusal(401, "Bad credentials" if known else "Requires authentication")
        return self._api(request, account, token)

    def _show(self, request: Request) -> Response | None:
        """The page, for whoever does not ask the API or git."""
        if request.path.startswith("/api/") or GIT_PATH.fullmatch(request.path) or "authorization" in request.headers:
            return None
        self.sync()
        return self.site.answer(request)

    def answer(self, request: Request) -> Response:
        """What the server calls: the request carried out, with the faults a test asked for."""
        shown = self._show(request)
        if shown is not None:
            return shown
        response = self.fault("before", request) if self.fault else None
        if response is None:
            response = self.carry_out(request)
            response = (self.fault("after", request) if self.fault else None) or response
        self.seen.append(Seen(request.method, request.path, response.status))
        return response
