"""The embedded GitHub: one repository with its pull requests, served on a port of the loopback.

Everything it knows lies in one folder; a copy of that folder opens again as the same hub on another port.
"""

from __future__ import annotations

import datetime
import json
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from bot.git.repo import Repo
from bot.localhub.board import Board
from bot.localhub.desk import API, MAIN, Desk, Fault, Seen
from bot.localhub.wire import Refused, Request, Server
from bot.localhub.world import SCOPES, PullPart, Scope, Thread
from bot.model.people import Role


def _utc_now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Hub:
    def __init__(
        self,
        root: Path,
        repo: str = "sample/kernels",
        *,
        bare: Path | None = None,
        clock: Callable[[], str] = _utc_now,
        port: int = 0,
    ) -> None:
        """`bare`: a bare repository that lies elsewhere; it must be given again when a hub is opened again."""
        root.mkdir(parents=True, exist_ok=True)
        self._desk = Desk(root.resolve(), repo, bare.resolve() if bare else None, clock)
        self._desk.save()
        self._port = port
        self._server: Server | None = None
        self.root, self.repo, self.bare = self._desk.root, self._desk.repo, self._desk.bare
        self.world, self.history, self.actions = self._desk.world, self._desk.history, self._desk.actions

    # Where it answers

    def start(self) -> Hub:
        self._server = Server(self._desk.answer, self._port)
        self._desk.server_url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Hub:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def server_url(self) -> str:
        return self._desk.server_url

    @property
    def url(self) -> str:
        """Where the API begins."""
        return f"{self.server_url}{API}"

    @property
    def git_url(self) -> str:
        return f"{self.server_url}/{self.repo}.git"

    def page_url(self, number: int) -> str:
        return f"{self.server_url}/{self.repo}/pull/{number}"

    def invite(self, *logins: str) -> None:
        """From now on whoever reads the page may speak as these people."""
        self._desk.people = logins

    def show(self, board: Board) -> None:
        """What the page tells of the bot's work from now on."""
        self._desk.show_board(board)

    def inject(self, fault: Fault | None) -> None:
        """From now on this decides which requests fail, and whether before or after they took effect."""
        self._desk.fault = fault

    @property
    def seen(self) -> list[Seen]:
        return self._desk.seen

    @property
    def unknown(self) -> list[Seen]:
        """Requests that no endpoint was there for; a test asserts that there are none."""
        return [seen for seen in self.seen if seen.status == 501]

    # What people do

    def add_user(self, login: str, role: str, is_bot: bool = False) -> str:
        """An account with a role, or a new role for one that is there. Returns its token with every scope."""
        with self._desk.lock:
            self.world.add_account(login, Role(role), is_bot)
            return self.token(login, SCOPES)

    def user_id(self, login: str) -> int:
        return self.world.accounts[login].id

    def token(self, login: str, scopes: Collection[Scope]) -> str:
        """The token of this account with exactly these scopes."""
        with self._desk.lock:
            text = self.world.token(login, scopes)
            self._desk.save()
            return text

    def _as(self, login: str, method: str, path: str, body: Mapping[str, Any]) -> int:
        """What a person does on the site goes the way of every request."""
        headers = {"authorization": f"token {self.token(login, SCOPES)}"}
        url = f"{API}/repos/{self.repo}{path}"
        response = self._desk.carry_out(Request(method, url, headers=headers, body=json.dumps(body).encode()))
        if response.status >= 400:
            raise Refused(response)
        return int(json.loads(response.body)["id"])

    def comment(self, login: str, number: int, body: str) -> int:
        return self._as(login, "POST", f"/issues/{number}/comments", {"body": body})

    def edit_comment(self, login: str, comment: int, body: str) -> None:
        self._as(login, "PATCH", f"/issues/comments/{comment}", {"body": body})

    def review(self, login: str, number: int, state: str, body: str = "", commit: str | None = None) -> int:
        """`state` is APPROVE, REQUEST_CHANGES or COMMENT."""
        at = {"commit_id": commit} if commit else {}
        return self._as(login, "POST", f"/pulls/{number}/reviews", {"event": state, "body": body, **at})

    def dismiss_review(self, review: int) -> None:
        with self._desk.lock:
            self.world.reviews[review].state = "DISMISSED"
            self._desk.save()

    def _open(self, author: str, title: str, body: str, pull: PullPart | None) -> int:
        with self._desk.lock:
            number, said = 1 + len(self.world.threads), {"author": author, "created_at": self._desk.clock()}
            opened = Thread(id=self.world.new_id(), number=number, title=title, body=body, pull=pull, **said)
            self.world.threads[number] = opened
            self._desk.save()
            self._desk.sync()
            return number

    def open_issue(self, author: str, title: str, body: str = "") -> int:
        return self._open(author, title, body, None)

    def open_pull(
        self,
        author: str,
        head_ref: str,
        base_ref: str,
        title: str,
        body: str = "",
        draft: bool = False,
        head_repo: str | None = None,
    ) -> int:
        """Open a pull request of a branch that exists; `head_repo` names a fork made before."""
        repo = head_repo or self.repo
        head = self._desk.history_of(repo).heads()[f"refs/heads/{head_ref}"]
        part = PullPart(is_draft=draft, head_repo=repo, head_ref=head_ref, base_ref=base_ref, first=head, head=head)
        return self._open(author, title, body, part)

    def close_pull(self, number: int) -> None:
        with self._desk.lock:
            self.world.threads[number].closed_at = self._desk.clock()
            self._desk.save()

    def merge_pull(self, login: str, number: int) -> str:
        """Squash it onto its base, as a maintainer would by the button. Its branch stays."""
        thread, part = self.world.threads[number], self.world.threads[number].pull
        assert part is not None
        base = self.history.merge_base(f"refs/heads/{part.base_ref}", part.head)
        changed = {
            change.path: self.history.file(part.head, change.path) for change in self.history.files(base, part.head)
        }
        files = {path: content for path, content in changed.items() if content is not None}
        merged = self.push(login, part.base_ref, files, f"{thread.title} (#{number})\n")
        with self._desk.lock:
            thread.closed_at = part.merged_at = self._desk.clock()
            self._desk.save()
        return merged

    def fork(self, owner: str) -> str:
        """A copy under another owner; branches pushed there may become pull requests here."""
        name = f"{owner}/{self.repo.partition('/')[2]}"
        Repo.clone(str(self.bare), self._desk.history_of(name).repo.path, bare=True)
        with self._desk.lock:
            self.world.forks.append(name)
            self._desk.save()
        return name

    def delete_fork(self, name: str) -> None:
        with self._desk.lock:
            shutil.rmtree(self._desk.history_of(name).repo.path)
            self.world.forks.remove(name)
            for _, part in self.world.pulls():
                part.head_repo = None if part.head_repo == name else part.head_repo
            self._desk.save()

    def push(self, login: str, branch: str, files: Mapping[str, bytes], message: str, repo: str | None = None) -> str:
        """Commit files on a branch, as somebody would push them; the branch begins at main when it is new."""
        history = self._desk.history_of(repo or self.repo)
        heads, author = history.heads(), (login, f"{login}@users.noreply.example")
        parent = heads.get(f"refs/heads/{branch}") or heads.get(f"refs/heads/{MAIN}")
        sha = history.repo.commit_files(parent, files, message, author=author, date=self._desk.clock())
        history.set_ref(f"refs/heads/{branch}", sha)
        self._desk.sync(login)
        return sha

    # What comes of it

    def events(self) -> Iterator[tuple[str, Path]]:
        """Name and file of each event, oldest first. One counts as delivered when the next is asked for."""
        return self._desk.outbox.pending()

    def comments(self, number: int) -> list[dict[str, Any]]:
        return [self._desk.show.comment(comment) for comment in self.world.comments_on(number)]
