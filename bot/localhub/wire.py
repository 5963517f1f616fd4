"""HTTP for the embedded GitHub: requests and responses as values, GitHub's way to refuse and to cut lists in pages."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

DOCS = "https://docs.github.com/rest"
MOST_PER_PAGE = 100
LARGEST_BODY = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status < 400


class Refused(Exception):
    """Ends a request with one of GitHub's error bodies."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"{response.status}: {response.body[:200]!r}")
        self.response = response


def as_json(status: int, content: object, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(content).encode()
    return Response(status, body, {"Content-Type": "application/json; charset=utf-8", **(headers or {})})


def refusal(
    status: int, message: str, errors: list[Any] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    content = {
        "message": message,
        **({"errors": errors} if errors else {}),
        "documentation_url": DOCS,
        "status": str(status),
    }
    return as_json(status, content, headers)


def refuse(status: int, message: str, errors: list[Any] | None = None) -> Refused:
    return Refused(refusal(status, message, errors))


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    return max(1, int(text)) if text.isdecimal() else default


def page_of(items: list[Any], request: Request, url: str) -> Response:
    """One page of a list, with the Link header that leads to the others."""
    size = min(_number(request.query, "per_page", 30), MOST_PER_PAGE)
    here, last = _number(request.query, "page", 1), max(1, -(-len(items) // size))
    others = {"prev": here - 1, "next": here + 1, "last": last, "first": 1}
    wanted = ("prev", "first") * (here > 1) + ("next", "last") * (here < last)
    links = (f'<{url}?{urlencode({**request.query, "page": others[name]})}>; rel="{name}"' for name in wanted)
    return as_json(200, items[(here - 1) * size : here * size], {"Link": ", ".join(links)} if wanted else {})


def token_of(request: Request) -> str:
    """The token of `token X`, `Bearer X` or the password of `Basic`; empty when there is none."""
    kind, _, rest = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return rest.strip()
    try:
        return base64.b64decode(rest).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _unchunked(stream: BufferedIOBase) -> bytes:
    parts = []
    while size := int(stream.readline().split(b";")[0], 16):
        parts.append(stream.read(size))
        stream.readline()
    stream.readline()
    return b"".join(parts)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Callable[[Request], Response], port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.answer = answer
        self.open: set[socket.socket] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or a fault that hangs up on it, is nobody's mistake."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Close kept-alive connections too: a client must not go on talking to a server that stopped."""
        self.shutdown()
        for connection in tuple(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "localhub"
    disable_nagle_algorithm = True  # a small answer would wait 40 ms for the client's delayed acknowledgement
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return _unchunked(self.rfile)
        size = int(self.headers.get("Content-Length", 0))
        if size > LARGEST_BODY:
            raise Refused(refusal(413, "Payload Too Large"))
        return self.rfile.read(size)

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, self._body())
        response = self.server.answer(request)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if response.status != 204:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    do_GET = do_HEAD = do_POST = do_PATCH = do_PUT = do_DELETE = _answer
