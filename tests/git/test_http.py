"""The token on the wire, against a server of a few lines."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.errors import Conflict, GitError
from bot.git.repo import Repo
from bot.git.run import header_of
from bot.model.reasons import ReasonCode

TOKEN = "ghs_sesame0pen"


class Server:
    """Answers everything with one status, and remembers who asked with which authorization."""

    def __init__(self, status: int, location: str = "") -> None:
        seen: list[tuple[str, str | None]] = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append((self.path, self.headers.get("Authorization")))
                self.send_response(status)
                if location:
                    self.send_header("Location", location + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *rest: object) -> None: ...

        self.seen = seen
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        server.close()


def repository(root: Path, url: str) -> tuple[Repo, str]:
    plain = Repo.init(root / "r", bare=True)
    (plain.path / "config").write_text(f'[core]\n\tbare = true\n[remote "origin"]\n\turl = {url}/a/b.git\n')
    sha = plain.commit_files(None, {"a": b""}, "m", author=("A", "a@b"), date="2026-01-01T00:00:00Z")
    return Repo(plain.path, token=TOKEN), sha


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_turned_away(tmp_path: Path, servers: list[Server], status: int) -> None:
    servers.append(Server(status))
    repo, sha = repository(tmp_path, servers[0].url)
    with pytest.raises(GitError) as refused:
        repo.push("refs/heads/x", sha, "")
    assert refused.value.reason is ReasonCode.PUSH_FORBIDDEN and not isinstance(refused.value, Conflict)
    assert TOKEN not in str(refused.value)
    assert servers[0].seen[0] == ("/a/b.git/info/refs?service=git-receive-pack", header_of(TOKEN).split(": ")[1])


def test_a_server_in_trouble_is_no_refusal(tmp_path: Path, servers: list[Server]) -> None:
    servers.append(Server(502))
    repo, sha = repository(tmp_path, servers[0].url)
    with pytest.raises(GitError, match="502") as failed:
        repo.push("refs/heads/x", sha, "")
    assert failed.value.reason is not ReasonCode.PUSH_FORBIDDEN


def test_a_redirect_does_not_carry_the_token_away(tmp_path: Path, servers: list[Server]) -> None:
    servers.append(Server(404))
    servers.append(Server(302, servers[0].url))
    repo, _ = repository(tmp_path, servers[1].url)
    with pytest.raises(GitError):
        repo.remote_sha("refs/heads/main")
    assert len(servers[1].seen) == 1 and servers[0].seen == []


def test_another_host_does_not_get_the_token(tmp_path: Path, servers: list[Server]) -> None:
    servers += [Server(403), Server(403)]
    repo, _ = repository(tmp_path, servers[0].url)
    repo._origin = "https://github.com/a/b.git"
    with pytest.raises(GitError):
        repo.fetch("main")
    assert [authorization for _, authorization in servers[0].seen] == [None]


def test_a_proxy_is_not_asked_about_this_machine(
    tmp_path: Path, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.append(Server(403))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "example.com")
    repo, _ = repository(tmp_path, servers[0].url)
    with pytest.raises(GitError, match="403"):
        repo.remote_sha("refs/heads/main")
    assert servers[0].seen
